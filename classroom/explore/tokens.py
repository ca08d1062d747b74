"""What the explorers of sentences share: tokens in, readable tokens out."""

import contextlib

import torch

from gptlib.tokenizer import gpt2_tokenizer


def read_tokens(text, most):
    """Token IDs of a text that a model with room for `most` can read.

    Raises:
        ValueError: the text is empty or has more tokens.
    """
    ids = gpt2_tokenizer().encode(text, allowed_special="all")
    if not ids:
        raise ValueError("The text is empty: type at least one character.")
    if len(ids) > most:
        raise ValueError(
            f"The text has {len(ids)} tokens, but this small model reads at "
            f"most {most}: shorten it by {len(ids) - most}."
        )
    return ids


def token_text(number):
    """Text of one token ID; `[50300]` if the tokenizer has none for it."""
    tokenizer = gpt2_tokenizer()
    known = number < tokenizer.n_vocab
    return tokenizer.decode([number]) if known else f"[{number}]"


def short_token(token):
    """A token's beginning: margins have no room for the longest ones."""
    return token if len(token) <= 14 else token[:13] + "..."


def whole_text(ids):
    """Text of all IDs together, so that split characters are whole again."""
    tokenizer = gpt2_tokenizer()
    if all(number < tokenizer.n_vocab for number in ids):
        return tokenizer.decode(ids)
    return "".join(map(token_text, ids))


@contextlib.contextmanager
def one_thread():
    """For a small model: more threads wait, long where others compute."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
