import hashlib
import pickle
import subprocess
import sys

import pytest
import tiktoken
import torch
from common import message

from gptlib import gpt2_tokenizer, tokenizer

TEXTS = [
    "Every effort moves you",
    "Hello, I am",
    " leading space\nand\ttabs   and runs",
    "naïve café, 東京, Привет",
    "🙂👩‍🚀",
    "",
    "1234567890 'tis don't",
    "\ud83d\ude42",  # a surrogate pair, as bad JSON gives it
]


def test_it_is_tiktokens_gpt2():
    encoding = gpt2_tokenizer()
    assert isinstance(encoding, tiktoken.Encoding)
    assert encoding.name == "gpt2"
    assert encoding.n_vocab == 50257
    assert encoding.eot_token == 50256


def test_the_notes_ids():
    encoding = gpt2_tokenizer()
    assert encoding.encode("Every effort moves you") == [
        6109, 3626, 6100, 345,
    ]  # fmt: skip
    assert encoding.encode("Every day holds a") == [6109, 1110, 6622, 257]
    assert encoding.encode("Hello, I am") == [15496, 11, 314, 716]


def test_ranks_are_the_published_ones_in_every_byte():
    published = tokenizer.VOCABULARY.read_bytes()
    assert len(published) == 835_554
    assert hashlib.sha256(published).hexdigest() == (
        "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930"
    )
    assert _hash_in_tiktoken() == tokenizer.VOCABULARY_SHA256


def _hash_in_tiktoken():
    import inspect

    from tiktoken_ext import openai_public

    source = inspect.getsource(openai_public.r50k_base)
    return source.split('expected_hash="')[1].split('"')[0]


def test_it_equals_an_encoding_that_tiktoken_reads_itself(tmp_path):
    # tiktoken's own reader, on a copy: it keeps a cache of what it reads.
    import os
    from unittest import mock

    from tiktoken.load import load_tiktoken_bpe

    with mock.patch.dict(os.environ, TIKTOKEN_CACHE_DIR=str(tmp_path)):
        ranks = load_tiktoken_bpe(str(tokenizer.VOCABULARY))
    oracle = tiktoken.Encoding(
        "gpt2",
        pat_str=tokenizer.r50k_pat_str,
        mergeable_ranks=ranks,
        special_tokens={"<|endoftext|>": 50256},
    )
    encoding = gpt2_tokenizer()
    for text in TEXTS:
        assert encoding.encode(text) == oracle.encode(text)
        assert encoding.encode_ordinary(text) == oracle.encode_ordinary(text)
    every_id = list(range(50257))
    assert encoding.decode_bytes(every_id) == oracle.decode_bytes(every_id)


@pytest.mark.parametrize("text", TEXTS[:-1])
def test_text_survives_the_round_trip(text):
    encoding = gpt2_tokenizer()
    assert encoding.decode(encoding.encode(text)) == text


def test_it_is_loaded_once():
    assert gpt2_tokenizer() is gpt2_tokenizer()


def test_it_can_be_pickled():
    again = pickle.loads(pickle.dumps(gpt2_tokenizer()))
    assert again.encode("Hello, I am") == [15496, 11, 314, 716]


def test_it_neither_writes_nor_asks_the_network(tmp_path):
    code = (
        "import sys\n"
        "def watch(event, args):\n"
        "    if event.startswith('socket.'):\n"
        "        raise SystemExit(f'{event} {args}')\n"
        "    if event == 'open' and set('wax+') & set(str(args[1] or '')):\n"
        "        raise SystemExit(f'{event} {args}')\n"
        "import gptlib.tokenizer\n"
        "sys.addaudithook(watch)\n"
        "print(gptlib.gpt2_tokenizer().encode('Hello, I am'))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={"TIKTOKEN_CACHE_DIR": str(tmp_path), "PATH": ""},
    )
    assert done.stdout.strip() == "[15496, 11, 314, 716]", done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[: len(content) // 2],
        lambda content: content.replace(b"\n", b"\r\n"),
        lambda content: b"",
        lambda content: content[:-2] + b"7\n",
    ],
    ids=["half", "crlf", "empty", "one digit"],
)
def test_a_damaged_file_is_named_with_both_hashes(damage, tmp_path):
    bad = tmp_path / "gpt2.tiktoken"
    bad.write_bytes(damage(tokenizer.VOCABULARY.read_bytes()))
    before = bad.read_bytes()
    with pytest.raises(ValueError) as raised:
        tokenizer._read_ranks(bad)
    assert str(bad) in message(raised)
    assert hashlib.sha256(before).hexdigest() in message(raised)
    assert tokenizer.VOCABULARY_SHA256 in message(raised)
    assert bad.read_bytes() == before


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ValueError) as raised:
        tokenizer._read_ranks(tmp_path / "gpt2.tiktoken")
    assert str(tmp_path) in message(raised)
    assert "git checkout" in message(raised)


@pytest.mark.parametrize("many", [False, True])
def test_the_end_marker_in_a_text_is_explained(many):
    encoding = gpt2_tokenizer()
    with pytest.raises(ValueError) as raised:
        if many:
            encoding.encode_batch(["a<|endoftext|>b"])
        else:
            encoding.encode("a<|endoftext|>b")
    for word in ("character 1", "allowed_special", "disallowed_special=()"):
        assert word in message(raised)
    special = {"allowed_special": {"<|endoftext|>"}}
    assert encoding.encode("a<|endoftext|>b", **special) == [64, 50256, 65]
    ordinary = encoding.encode("a<|endoftext|>b", disallowed_special=())
    assert 50256 not in ordinary
    assert encoding.decode(ordinary) == "a<|endoftext|>b"


@pytest.mark.parametrize("text", [None, 5, b"bytes", ["list"]])
def test_only_text_can_be_encoded(text):
    with pytest.raises(TypeError) as raised:
        gpt2_tokenizer().encode(text)
    assert type(text).__name__ in message(raised)


@pytest.mark.parametrize("token", [50257, 50300, -1, 2**40])
@pytest.mark.parametrize(
    "decode",
    [
        lambda encoding, ids: encoding.decode(ids),
        lambda encoding, ids: encoding.decode_bytes(ids),
        lambda encoding, ids: encoding.decode_batch([ids]),
        lambda encoding, ids: encoding.decode_with_offsets(ids),
        lambda encoding, ids: encoding.decode_tokens_bytes(ids),
        lambda encoding, ids: encoding.decode_single_token_bytes(ids[-1]),
    ],
)
def test_an_id_that_the_tokenizer_lacks_is_named(decode, token):
    with pytest.raises(KeyError) as raised:
        decode(gpt2_tokenizer(), [15496, token])
    for word in (f"no ID {token} ", "50256", "vocab_size"):
        assert word in message(raised)


@pytest.mark.parametrize(
    "tokens, word",
    [
        ("Hello", "encode"),
        (torch.tensor([[15496, 11]]), "(1, 2)"),
        (torch.tensor([15496]), "tolist()"),
        ([[15496, 11]], "one row at a time"),
        ([15496.0], "whole numbers"),
        (["Hello"], "whole numbers"),
        (None, "NoneType"),
        (15496, "flat list"),
    ],
)
def test_what_is_no_list_of_ids_cannot_be_decoded(tokens, word):
    with pytest.raises(TypeError) as raised:
        gpt2_tokenizer().decode(tokens)
    assert word in message(raised)
