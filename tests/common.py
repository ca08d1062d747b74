"""What several tests share."""

import re

# Odd sizes on which mistakes show: nothing is square, several heads.
TINY = {
    "vocab_size": 101,
    "context_length": 16,
    "emb_dim": 24,
    "n_heads": 3,
    "n_layers": 2,
    "drop_rate": 0.1,
    "qkv_bias": False,
}

# Lecture notes, "Generating text autoregressively": "Hello, I am", and the
# six tokens that the 124M model of seed 123 appends.
NOTES_IDS = [15496, 11, 314, 716, 27018, 24086, 47843, 30961, 42348, 7267]


def message(raised):
    """The sentence a learner reads, which must be one line."""
    text = str(raised.value.args[0])
    assert "\n" not in text
    return text


def sections(text):
    """What GitHub calls the sections of a page in a link."""
    headings = re.findall(r"^#+ (.*)", text, flags=re.M)
    return [
        re.sub(r"[^\w -]", "", h).lower().replace(" ", "-") for h in headings
    ]
