"""What a check answers can be read in both themes."""

import pytest
from lab import THEMES

RESULTS = """
from IPython.display import display
from classroom.checks.result import SIGNS, CheckResult

for status in SIGNS:
    display(CheckResult(status, "a-mistake", f"{status}, as a test."))
"""


@pytest.mark.parametrize("theme", THEMES)
def test_all_results_can_be_read(run, theme):
    notebook = run(RESULTS)
    notebook.set_theme(theme)
    outputs = notebook.page.locator(".jp-OutputArea-output")
    assert outputs.filter(has_text=", as a test.").count() == 3
    found = notebook.violations()
    assert not found, found
