"""Checks of notebook 01: the skeleton, its shapes, and text to IDs."""

import contextlib
import sys
from functools import partial
from reprlib import repr as shortened

import torch

from classroom.checks import data_path
from classroom.checks.data_path import SIZES
from classroom.checks.edits import Task, known
from classroom.checks.functions import check_signature, judge, returned
from classroom.checks.guard import exercise
from classroom.checks.manners import check_manners
from classroom.checks.result import Mistake
from classroom.checks.tensors import difference, expect_tensor, same
from gptlib.skeleton import DummyGPTModel
from gptlib.tokenizer import gpt2_tokenizer

CALL = "MySkeleton(cfg)"


def _skeleton(solve):
    class MySkeleton(DummyGPTModel):
        def forward(self, in_idx):
            return solve(in_idx, **data_path.parts(self))

    return MySkeleton


SKELETON = Task(
    data_path.logits, [*data_path.PATH, *data_path.HIDDEN], _skeleton
)


@exercise(
    "Six parts in __init__: two tables, dropout, the stack of blocks, the "
    "norm, the head. In forward, write the shape behind each line.",
    "Positions are the whole numbers from 0 up to the number of tokens, "
    "made on the device of in_idx. Their vectors are added to the tokens' "
    "vectors; then dropout, blocks, norm and head follow, in this order.",
    "tok_emb and pos_emb are nn.Embedding(rows, emb_dim), the blocks stand "
    "in nn.Sequential(*[… for _ in range(…)]), the head is nn.Linear(…, …, "
    "bias=False), and the positions are torch.arange(…, device=…).",
    task=SKELETON,
)
def skeleton(cls):
    """Parts and their sizes, logits, the order of the parts, dropout, the
    positions' device, and gradients."""
    model = data_path.start(cls, CALL)
    data_path.check_parts(model)
    data_path.check_order(cls, CALL)
    _check_placeholders(model)
    model = data_path.build(cls, CALL)
    # Order shows where each part does something: so does the norm now.
    model.final_norm.forward = lambda x, *args: 2 * (x / 2).sin()
    data_path.check_logits(model)
    model = data_path.build(cls, CALL)
    data_path.check_positions(model)
    check_manners(model, data_path.some_texts())
    data_path.check_all_gradients(model, SKELETON)
    return (
        "texts of 1 to 9 tokens give the right logits, the "
        f"{SIZES['n_layers']} blocks, the norm and the head follow each "
        "other, dropout acts in training alone, and the positions are made "
        "where the IDs are."
    )


def _check_placeholders(model):
    named = {f"block {i}": b for i, b in enumerate(data_path.blocks_of(model))}
    named["final_norm"] = model.final_norm
    for training in (False, True):
        for name, part in named.items():
            x = torch.randn(2, 5, SIZES["emb_dim"])
            output = part.train(training)(x.clone())
            where = f"The output of the placeholder {name}"
            expect_tensor(output, x.shape, where)
            if not same(output, x):
                raise Mistake(
                    "placeholder-changes-input",
                    f"The placeholder {name} changes its input. "
                    f"{difference(output, x)} Today it hands its input "
                    "through.",
                )
    model.eval()


# --- the shapes ------------------------------------------------------------

STOPS = "tok_emb", "pos_emb", "trf_blocks", "final_norm", "logits"
SHAPE_CASES = [
    (SIZES, 2, 5),
    (SIZES | {"vocab_size": 101, "emb_dim": 24, "context_length": 16}, 7, 3),
    (SIZES | {"emb_dim": 18}, 4, 1),
    # No machine could hold this one.
    (SIZES | {"vocab_size": 10**13, "emb_dim": 3 * 10**9}, 3, 8),
    (SIZES | {"vocab_size": 50257, "emb_dim": 1600, "context_length": 1024,
              "n_heads": 25, "n_layers": 48}, 1, 10),
]  # fmt: skip


def shape(stop, cfg, batch, tokens):
    last = cfg["vocab_size"] if stop == "logits" else cfg["emb_dim"]
    return (tokens, last) if stop == "pos_emb" else (batch, tokens, last)


ROW, ROWS = "(tokens, last)", "(batch, tokens, last)"
VOCAB, WIDTH = 'cfg["vocab_size"]', 'cfg["emb_dim"]'
LENGTH, HEADS = 'cfg["context_length"]', 'cfg["n_heads"]'


def _instead(*written):
    """Edits of the shapes of the position vectors, and of all others."""
    return [{old: new} for new in written for old in (ROW, ROWS)]


SHAPE_MISTAKES = [
    known("positions-along-batch",
          "All texts share the position vectors: what is pos_emb asked for?",
          {ROW: ROWS}, {ROW: "(1, tokens, last)"}),
    known("table-shape",
          "That is the table of weights; what comes out when it is asked?",
          *_instead(f"({VOCAB}, {WIDTH})", f"({LENGTH}, {WIDTH})",
                   f"({WIDTH}, {VOCAB})")),
    known("context-for-tokens",
          "context_length is the longest input, not this one's length.",
          {ROWS: f"(batch, {LENGTH}, last)"},
          {ROW: f"(1, {LENGTH}, last)"}),
    known("batch-axis-missing",
          "Every text has its own rows here.",
          {ROWS: "(tokens, last)"}),
    known("last-position-only",
          "Every token gets a row of its own.",
          {ROWS: "(batch, last)"}, {ROWS: "(batch, 1, last)"},
          {ROW: "(last,)"}, {ROW: "(1, last)"}),
    known("head-unused",
          "What does the head change?",
          {VOCAB: WIDTH}),
    known("vocabulary-for-width",
          "Only the logits are as long as the vocabulary.",
          {WIDTH: VOCAB}),
    known("batch-tokens-swapped",
          "Which axis comes first?",
          {ROWS: "(tokens, batch, last)"}, {ROW: "(batch, last)"}),
    known("axes-swapped",
          "The numbers that describe a token stand on the last axis.",
          {ROWS: "(batch, last, tokens)"}, {ROW: "(last, tokens)"},
          {ROWS: "(last, tokens)"}),
    known("layers-axis",
          "Blocks follow each other and keep the shape; n_layers and n_heads "
          "change none.",
          *({ROWS: text.format(cfg)}
            for cfg in (HEADS, 'cfg["n_layers"]')
            for text in ("({}, batch, tokens, last)",
                         "(batch, {0}, tokens, last // {0})"))),
    known("width-missing",
          "An embedding gives a vector for each ID: an axis is added.",
          {ROWS: "(batch, tokens)"}, {ROWS: "(tokens,)"}, {ROW: "(tokens,)"}),
    known("batch-flattened",
          "Batch and tokens stay two axes.",
          {ROWS: "(batch * tokens, last)"}),
    *(known("size-hardcoded",
            f"{size} is not a size of every configuration.",
            {VOCAB: str(size)}, {WIDTH: str(size)}, {ROW: f"({size}, last)"})
      for size in (50257, 768, 1024, 12)),
]  # fmt: skip


def _shapes(solve):
    return lambda *case: {stop: solve(stop, *case) for stop in STOPS}


PREDICT_SHAPES = Task(shape, SHAPE_MISTAKES, _shapes)


@exercise(
    "Which parts of the model see the batch? The position vectors are the "
    "same for every text.",
    "tok_emb turns each ID into a vector, blocks and norm keep the shape, "
    "and the head changes the length of the last axis alone.",
    'Begin with vectors = (batch, tokens, cfg["emb_dim"]): three of the '
    "five stops have this shape.",
    task=PREDICT_SHAPES,
)
def predict_shapes(fn):
    """Shapes for several configurations, one too large to be built."""
    check_signature(fn, SIZES, 2, 5, call="my_shapes(cfg, batch, tokens)")
    for stop in STOPS:
        outcomes = judge(
            partial(_stop, fn),
            PREDICT_SHAPES,
            [(stop, *case) for case in SHAPE_CASES],
            _seen_shape,
            lambda *_: (
                "wrong-shape",
                "Which axes does this part see, and where do their lengths "
                "come from?",
            ),
        )
        if any(outcome.changed for outcome in outcomes):
            raise Mistake(
                "config-changed",
                "After a call of your function, the caller's cfg has "
                "changed. Others use it too, so leave it as it was.",
            )
    return (
        f"all five shapes are right for {len(SHAPE_CASES)} configurations "
        "and batches, without a model."
    )


def _stop(fn, stop, cfg, batch, tokens):
    """The shape that a learner's function has for a stop."""
    try:
        answer = returned(fn, cfg, batch, tokens)
    except (RuntimeError, MemoryError) as error:
        if cfg["vocab_size"] < 10**13:
            raise
        raise Mistake(
            "builds-a-model",
            f"For a vocabulary of {cfg['vocab_size']:,} tokens torch says: "
            f"{str(error).splitlines()[0]}. Compute the shapes from the "
            "numbers, without building anything.",
        ) from None
    if not isinstance(answer, dict):
        raise Mistake(
            "wrong-type",
            f"The function returns an object of type {type(answer).__name__}; "
            f"expected a dictionary with the stops {', '.join(STOPS)}.",
        )
    if stop not in answer:
        raise Mistake(
            "missing-stop",
            f"The dictionary has no {stop}; it has "
            f"{', '.join(map(str, answer)) or 'nothing'}.",
        )
    if not isinstance(answer[stop], tuple | list):
        raise Mistake(
            "wrong-type",
            f"At {stop} stands {shortened(answer[stop])}; expected a shape as "
            "a tuple.",
        )
    return tuple(answer[stop])


def _seen_shape(case, outcome, right):
    stop, cfg, batch, tokens = case
    return (
        f"For emb_dim {cfg['emb_dim']}, vocab_size {cfg['vocab_size']}, "
        f"batch {batch} and {tokens} tokens, {stop} is {outcome.result}; "
        f"expected {right.result}."
    )


# --- text and IDs ----------------------------------------------------------

TEXTS = [
    "naïve café",
    "Every effort moves you",
    "Hi 🙂!",
    "🙂",
    "  two  spaces,\n\ta tab and UPPER case ",
    "日本語 и русский",
    "flibbertigibbet",
    "e\u0301 as two characters",
    "",
]


def there_and_back(text):
    tokenizer = gpt2_tokenizer()
    ids = tokenizer.encode(text)
    return ids, tokenizer.decode(ids)


IDS, BACK = "tokenizer.encode(text)", "tokenizer.decode(ids)"
SINGLY = "(tokenizer.decode([i]) for i in ids)"
TRIP_MISTAKES = [
    known("batch-axis",
          "Expected a flat list of IDs.",
          {"return ids": "return [ids]"}),
    known("bytes-not-tokens",
          "Those are the text's bytes.",
          {IDS: "list(text.encode())"}),
    known("characters-not-tokens",
          "Those are the numbers of the characters.",
          {IDS: "[ord(c) for c in text]"}),
    known("encoded-by-character",
          "Each character was encoded alone.",
          {IDS: "[i for c in text for i in tokenizer.encode(c)]"}),
    known("encoded-by-word",
          "Each word was encoded alone.",
          {IDS: "[i for w in text.split() for i in tokenizer.encode(w)]"}),
    known("end-marker-added",
          "An end marker was added.",
          {IDS: f"{IDS} + [tokenizer.eot_token]"},
          {"return ids": "return [*ids, tokenizer.eot_token]"}),
    known("text-changed",
          "Are the spaces at a text's ends cut off, before it is encoded?",
          {IDS: "tokenizer.encode(text.strip())"}),
    known("characters-lost",
          "Only ASCII characters are left.",
          {IDS: "tokenizer.encode(text.encode('ascii', 'ignore').decode())"},
          {BACK: f"{BACK}.encode('ascii', 'ignore').decode()"}),
    known("lower-cased",
          "The text was put in lower case.",
          {IDS: "tokenizer.encode(text.lower())"}),
    known("ids-sorted",
          "The order of the IDs has changed: it is the order of their size.",
          {"return ids": "return sorted(ids)"}, {IDS: f"sorted({IDS})"}),
    known("ids-reversed",
          "The order of the IDs has changed: the last stands first.",
          {"return ids": "return ids[::-1]"}, {IDS: f"{IDS}[::-1]"}),
    known("decoded-singly",
          "� stands for half a character. One character may have several "
          "IDs; how many of them does each call of decode get?",
          {BACK: f"''.join{SINGLY}"}),
    known("joined-with-spaces",
          "The tokens hold their spaces already.",
          {BACK: f"' '.join{SINGLY}"}),
    known("spaces-lost",
          "Spaces are part of the text.",
          {BACK: f"{BACK}.strip()"}, {BACK: f"' '.join({BACK}.split())"}),
    known("text-changed",
          "What happens after decode?",
          *({BACK: f"{BACK}.{what}()"}
            for what in ("upper", "lower", "title", "capitalize"))),
    known("text-not-decoded",
          "The second part of the pair was never decoded: it is the text "
          "that came in. Let it come from the IDs.",
          {BACK: "text"}),
]  # fmt: skip


ROUND_TRIP = Task(there_and_back, TRIP_MISTAKES, lambda solve: solve)


@exercise(
    "The tokenizer has one method for each direction.",
    "Encode the text, keep the list of IDs, decode this whole list.",
    "ids = tokenizer.encode(…); return ids, tokenizer.decode(…)",
    task=ROUND_TRIP,
)
def round_trip(fn):
    """IDs and texts for accents, emoji, spaces, and no text at all."""
    check_signature(fn, "Hi", call="my_round_trip(text)")
    decoding = []
    judge(
        partial(_pair, fn, decoding),
        ROUND_TRIP,
        [(text,) for text in TEXTS],
        _seen_trip,
        _otherwise,
    )
    if not decoding:
        raise Mistake(
            "text-not-decoded",
            f"For {len(TEXTS)} texts, the second part of the pair does not "
            "come from the IDs: nothing decodes them, or what decode gives is "
            "not handed back.",
        )
    return (
        f"{len(TEXTS)} texts come back unchanged, and their IDs are "
        "GPT-2's; 🙂 alone has 2."
    )


def _pair(fn, decoding, text):
    """A learner's IDs, as a list, and text; notes what decodes."""
    with _noted(calls := []):
        answer = returned(fn, text)
    if not isinstance(answer, tuple | list) or len(answer) != 2:
        raise Mistake(
            "not-a-pair",
            f"For {text!r} the function returns {shortened(answer)}; expected "
            "a pair: the IDs, and the text again.",
        )
    ids, back = answer
    if isinstance(ids, str) and isinstance(back, tuple | list | torch.Tensor):
        raise Mistake(
            "pair-swapped",
            f"For {text!r} the text comes first, then the IDs; expected the "
            "IDs first.",
        )
    ids = ids.tolist() if hasattr(ids, "tolist") else ids
    if not isinstance(ids, tuple | list) or not isinstance(back, str):
        raise Mistake(
            "wrong-type",
            f"For {text!r} the pair holds {type(ids).__name__} and "
            f"{type(back).__name__}; expected a list of IDs and a text (str).",
        )
    if back is not text:  # else what was decoded is not handed back
        decoding += calls
    return list(ids), back


@contextlib.contextmanager
def _noted(calls):
    """Collect the names of called functions that decode something."""
    before = sys.getprofile()

    def look(frame, event, function):
        name = frame.f_code.co_name
        if event == "c_call":
            name = getattr(function, "__name__", "")
        of_bytes = isinstance(getattr(function, "__self__", 0), bytes)
        if event in ("call", "c_call") and "decode" in name and not of_bytes:
            calls.append(name)

    sys.setprofile(look)
    try:
        yield
    finally:
        sys.setprofile(before)


def _seen_trip(case, outcome, right):
    (text,), (wanted, _) = case, right.result
    ids, back = outcome.result
    if ids != wanted:
        return f"For {text!r} the IDs are {ids}; expected {wanted}."
    return f"The text {text!r} comes back as {back!r}."


def _otherwise(case, outcome, right):
    if outcome.result[0] != right.result[0]:
        return "wrong-ids", (
            "Does GPT-2's tokenizer get this text, as it is, and are its IDs "
            "returned as they are?"
        )
    return "text-changed", (
        "Does one call of decode get all IDs, and is its text returned as it "
        "is?"
    )
