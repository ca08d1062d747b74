"""GPT-2's tokenizer, read from a file in the package: no network."""

import base64
import functools
import hashlib
from collections.abc import Sequence
from numbers import Integral
from pathlib import Path

import tiktoken
from tiktoken_ext.openai_public import r50k_pat_str

VOCABULARY = Path(__file__).parent / "data" / "gpt2.tiktoken"
# The hash that tiktoken publishes for r50k_base, which has the same ranks.
VOCABULARY_SHA256 = (
    "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930"
)
END_OF_TEXT = "<|endoftext|>"


class GPT2Encoding(tiktoken.Encoding):
    """tiktoken's encoding of GPT-2, whose errors say what to do."""

    # tiktoken's second copy of all ranks, which pickle alone asks for: 7 MB.
    _mergeable_ranks = property(
        lambda self: _read_ranks(VOCABULARY), lambda self, ranks: None
    )

    def encode(self, text, **special):
        """Token IDs of `text`; takes tiktoken's keyword arguments.

        Raises:
            TypeError: `text` is no str.
            ValueError: `text` holds the end marker, and no keyword argument
                says how to read it.
        """
        if not isinstance(text, str):
            raise TypeError(f"encode takes a str; got {type(text).__name__}.")
        try:
            return super().encode(text, **special)
        except ValueError:
            if END_OF_TEXT not in text:
                raise
            raise ValueError(
                f"The text holds {END_OF_TEXT} at character "
                f"{text.index(END_OF_TEXT)}: call encode with "
                f"allowed_special={{{END_OF_TEXT!r}}} to make it the one ID "
                f"{self.eot_token}, or with disallowed_special=() to read it "
                "as ordinary characters."
            ) from None

    def decode(self, tokens, errors="replace"):
        """Text of the token IDs in a flat list (see `decode_bytes`)."""
        return self.decode_bytes(tokens).decode("utf-8", errors=errors)

    def decode_bytes(self, tokens):
        """Bytes of the token IDs in a flat list.

        Raises:
            TypeError: `tokens` is no flat sequence of ints.
            KeyError: an ID lies outside the vocabulary.
        """
        try:
            return super().decode_bytes(tokens)
        except (TypeError, KeyError, OverflowError):
            raise self._decoding_error(tokens) from None

    def decode_single_token_bytes(self, token):
        """Bytes of one token ID (errors as in `decode_bytes`)."""
        return self.decode_bytes([token])

    def _decoding_error(self, tokens):
        if isinstance(tokens, str):
            return TypeError(
                f"decode takes token IDs; got text {tokens[:20]!r}: call "
                "encode to turn text into IDs."
            )
        if not isinstance(tokens, Sequence):
            shape = getattr(tokens, "shape", None)
            got = f" of shape {tuple(shape)}" if shape is not None else ""
            return TypeError(
                "decode takes a flat list of token IDs; got "
                f"{type(tokens).__name__}{got}: for one row of a tensor call "
                "decode(ids[0].tolist())."
            )
        for position, token in enumerate(tokens):
            if not isinstance(token, Integral):
                return TypeError(
                    "decode takes a flat list of whole numbers; got "
                    f"{type(token).__name__} at position {position}: decode "
                    "one row at a time."
                )
            if not 0 <= token < self.n_vocab:
                return KeyError(
                    f"The tokenizer has no ID {token} (position {position}): "
                    f"its IDs run from 0 to {self.n_vocab - 1}, so a model "
                    f"with vocab_size above {self.n_vocab} can choose IDs "
                    "without a text."
                )
        return TypeError(f"decode cannot read {tokens!r} as token IDs.")


@functools.cache
def gpt2_tokenizer():
    """GPT-2's byte pair encoding, equal to `tiktoken.get_encoding("gpt2")`.

    It has 50,257 tokens: 256 bytes, 50,000 merges and `<|endoftext|>`. The
    ranks come from `data/gpt2.tiktoken` beside this file, so this neither
    asks the network nor writes anything. A second call gives the same object.

    Raises:
        ValueError: the vocabulary file is missing or damaged.
    """
    return GPT2Encoding(
        "gpt2",
        pat_str=r50k_pat_str,
        mergeable_ranks=_read_ranks(VOCABULARY),
        special_tokens={END_OF_TEXT: 50256},
        explicit_n_vocab=50257,
    )


def _read_ranks(path):
    place = "/".join(path.parts[-3:])
    cure = f"restore it with 'git checkout -- {place}' or install it again."
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ValueError(
            f"The vocabulary {path} can't be read ({error.strerror}): {cure}"
        ) from None
    found = hashlib.sha256(content).hexdigest()
    if found != VOCABULARY_SHA256:
        raise ValueError(
            f"The vocabulary {path} is damaged: its SHA-256 is {found} but "
            f"must be {VOCABULARY_SHA256} ({len(content):,} bytes where "
            f"835,554 belong); {cure}"
        )
    lines = (line.split() for line in content.splitlines())
    return {base64.b64decode(token): int(rank) for token, rank in lines}
