"""How fast the series is, against what people would use instead.

    .venv/bin/python -m benchmarks                # all: half an hour
    .venv/bin/python -m benchmarks training explorers
    .venv/bin/python -m benchmarks --quick        # no text above 100 tokens

These are no tests: times depend on the machine, and other programs disturb
them. What is compared is called in turn within one process, and a ratio is
the median over the rounds. It needs what `tests/requirements.txt` installs.
"""
