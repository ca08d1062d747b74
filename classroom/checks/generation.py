"""The greedy loop, its end, and two prompts at once."""

import copy
import time
from itertools import combinations
from types import SimpleNamespace

import torch
from torch import nn

from classroom.checks.guard import exercise
from classroom.checks.result import Mistake
from gptlib.config import GPT_CONFIG_124M
from gptlib.model import GPTModel

VOCAB = 29
STATES = 97
MOST_CALLS, MOST_TOKENS = 300, 2000
SECONDS_FOR_PAIRS = 3
TINY = GPT_CONFIG_124M | {
    "vocab_size": 101, "context_length": 16,
    "emb_dim": 24, "n_heads": 3, "n_layers": 2,
}  # fmt: skip

# --- models whose next token is known ----------------------------------------


class _NoSuchInput(ValueError):
    """What the model got is no batch of ids."""


class _Scripted(nn.Module):
    """Stands in for a GPT: cheap, causal, and it notes how it is called.

    A position's logits depend on every token up to it and on where each
    stands, so that another window gives another next token. Windows of any
    length and ids of any size pass: what a mistake leads to shall be seen.
    """

    def __init__(self, vocab_size=VOCAB):
        super().__init__()
        self.tok_emb = nn.Embedding(vocab_size, 1)
        self.gain = nn.Parameter(torch.ones(1))  # for the gradient
        self.drop = nn.Dropout(0.5)  # has a mode of its own, like GPT's
        chance = torch.Generator().manual_seed(3)
        self.table = torch.rand(STATES, VOCAB, generator=chance)
        self.calls = []

    def forward(self, in_idx):
        if in_idx.dim() != 2 or 0 in in_idx.shape:
            raise _NoSuchInput(
                "the model expects ids of shape (batch, tokens), got "
                f"{tuple(in_idx.shape)}"
            )
        if in_idx.shape[1] > MOST_TOKENS:
            raise Mistake(
                "not-cropped",
                f"the model's input has grown to {in_idx.shape[1]} tokens, "
                "for a few new ones: crop it, and look at the shape of what "
                "each round appends.",
            )
        if len(self.calls) == MOST_CALLS:
            raise Mistake(
                "limit-ignored",
                f"your loop called the model {MOST_CALLS} times for a few "
                "new tokens and would go on. What ends it?",
            )
        self.calls.append(self._call(in_idx))
        return self.logits(in_idx.long()) * self.gain

    def _call(self, in_idx):
        return SimpleNamespace(
            length=in_idx.shape[1],
            grad=torch.is_grad_enabled(),
            ids=(in_idx.min().item(), in_idx.max().item()),
        )

    def logits(self, ids):
        places = torch.arange(1, ids.shape[1] + 1)
        states = ((ids + 1) * (places**2 + places)).cumsum(1) % STATES
        return self.table[states]  # (batch, tokens, vocab)


class _Listed(_Scripted):
    """What comes next depends on the number of tokens alone."""

    def __init__(self, following):
        super().__init__(50257)
        self.following = torch.tensor(following)

    def logits(self, ids):
        batch, tokens = ids.shape
        best = self.following[torch.arange(tokens) % len(self.following)]
        logits = torch.zeros(batch, tokens, 50257)
        return logits.scatter(2, best.expand(batch, -1)[..., None], 1.0)


# --- a loop whose parts can be exchanged ---------------------------------


def _last(idx, start, size):
    return idx[:, -size:]


def _greedy(logits):
    return logits[:, -1].argmax(dim=-1, keepdim=True)


def _append(idx, new):
    return torch.cat((idx, new), dim=1)


def _wanted(n, tokens, size):
    return n


def _whole(idx, start, size):
    return idx


def _no_end(idx, new, start, end):
    return False


def _end_is_new(idx, new, start, end):
    return bool((new == end).all())


def _loop(
    model, idx, n, size, end=None, *, window=_last, pick=_greedy,
    glue=_append, rounds=_wanted, give=_whole, first=_no_end, before=_no_end,
    after=_end_is_new,
):  # fmt: skip
    """Greedy generation; what is exchanged makes a known mistake."""
    start = idx
    for _ in range(rounds(n, idx.shape[1], size)):
        if end is not None and first(idx, None, start, end):
            break
        new = pick(model(window(idx, start, size)))
        if end is not None and before(idx, new, start, end):
            break
        idx = glue(idx, new)
        if end is not None and after(idx, new, start, end):
            break
    return give(idx, start, size)


def _rows(number, logits):
    return number.reshape(1, 1).expand(len(logits), 1)


def _once_cropped(idx, start, size):
    return idx[:, max(0, start.shape[1] - size) :]


# Name of a mistake, the ways of making it (what is exchanged in the loop),
# and where to look. The first that agrees with all results is reported; two
# together are tried after all single ones.
LOOP_MISTAKES = [
    ("first-window-kept",
     [{"window": lambda idx, start, size: idx[:, :size]}],
     "The model reads the first tokens once the text is longer than "
     "context_size: which end of the text matters for what comes next?"),
    ("not-cropped",
     [{"window": lambda idx, start, size: idx},
      {"window": lambda idx, start, size: idx[-size:]},
      {"window": _once_cropped}],
     "The model's input grows past context_size, and a real model fails "
     "there: look at what you hand to the model in every round."),
    ("crop-off-by-one",
     [{"window": lambda idx, start, size: idx[:, -(size - 1):]},
      {"window": lambda idx, start, size: idx[:, -(size + 1):]},
      {"window": lambda idx, start, size: idx[:, -size:-1]},
      {"window": lambda idx, start, size: idx[:, :-1][:, -size:]}],
     "The model reads one token too many or too few: it should be the last "
     "context_size tokens, up to the very last."),
    ("crop-inverted",
     [{"window": lambda idx, start, size: idx[:, size:]},
      {"window": lambda idx, start, size: idx[:, :-size]}],
     "The crop keeps what should go: which tokens does your slice leave?"),
    ("crop-start-negative",
     [{"window": lambda idx, start, size: idx[:, idx.shape[1] - size:]}],
     "While the text is shorter than context_size, your slice begins at a "
     "negative index, which counts from the end."),
    ("reads-last-token-only",
     [{"window": lambda idx, start, size: idx[:, -1:]}],
     "The model reads the last token alone and knows nothing of the text "
     "before it."),
    ("context-not-grown",
     [{"window": lambda idx, start, size: start[:, -size:]},
      {"window": lambda idx, start, size: start}],
     "Every round reads the prompt alone, so the same token comes again and "
     "again: the new token belongs to the next round's input."),
    ("argmin",
     [{"pick": lambda x: x[:, -1].argmin(-1, keepdim=True)}],
     "You append the least probable token."),
    ("all-positions",
     [{"pick": lambda x: x.argmax(-1)}],
     "The text grows by a whole window in each round: of all positions of "
     "the logits, only one says what follows the text."),
    ("not-last-position",
     [{"pick": lambda x: x[:, 0].argmax(-1, keepdim=True)},
      {"pick": lambda x: x[:, -2].argmax(-1, keepdim=True)},
      {"pick": lambda x: x[:, x.shape[1] // 2].argmax(-1, keepdim=True)},
      {"pick": lambda x: x.mean(1).argmax(-1, keepdim=True)},
      {"pick": lambda x: x.sum(1).argmax(-1, keepdim=True)},
      {"pick": lambda x: x.amax(1).argmax(-1, keepdim=True)}],
     "The choice does not come from the last position of the logits, the "
     "one that has read all of the text."),
    ("flattened",
     [{"pick": lambda x: x.argmax().reshape(1, 1)},
      {"pick": lambda x: x.argmax()},
      {"pick": lambda x: _rows(x.argmax(), x)},
      {"pick": lambda x: _rows(x[:, -1].argmax(), x)},
      {"pick": lambda x: x.flatten(1).argmax(1, keepdim=True)}],
     "argmax runs over several axes as if they were one row: its index is a "
     f"place among all numbers, no id below {VOCAB} (the vocabulary)."),
    ("batch-ignored",
     [{"pick": lambda x: x[:1, -1].argmax(-1, keepdim=True)},
      {"pick": lambda x: _rows(x[0, -1].argmax(), x)},
      {"pick": lambda x: _rows(x[-1, -1].argmax(), x)},
      {"give": lambda idx, start, size: idx[:1]}],
     "One row goes well, several do not: every row of the batch chooses a "
     "token of its own, shape (batch, 1)."),
    ("keepdim-missing",
     [{"pick": lambda x: x[:, -1].argmax(-1)},
      {"pick": lambda x: x[:, -1:].argmax(-1, keepdim=True)}],
     "The new ids need as many axes as idx to be joined to it, "
     "(batch, 1): the argmax result has another number of axes."),
    ("wrong-axis",
     [{"pick": lambda x: x[:, -1].argmax(0, keepdim=True)},
      {"pick": lambda x: x[:, -1].argmax(0).unsqueeze(-1)},
      {"pick": lambda x: x.argmax(1)},
      {"pick": lambda x: x.argmax(1, keepdim=True)},
      {"pick": lambda x: x.argmax(1)[:, -1:]},
      {"pick": lambda x: x.argmax(1)[:, :1]},
      {"pick": lambda x: x[:, :, -1].argmax(-1, keepdim=True)},
      {"pick": lambda x: x[-1].argmax(-1, keepdim=True)},
      {"pick": lambda x: x[-1:].argmax(-1)},
      {"pick": lambda x: x.argmax(0)},
      {"pick": lambda x: x.argmax(0, keepdim=True)[:, -1]}],
     "argmax runs over the wrong axis of the logits "
     "(batch, tokens, vocab): the vocabulary is the last one."),
    ("softmax-wrong-axis",
     [{"pick": lambda x: x[:, -1].softmax(0).argmax(-1, keepdim=True)},
      {"pick": lambda x: x.softmax(1)[:, -1].argmax(-1, keepdim=True)}],
     "softmax runs over the wrong axis, and that changes which entry is the "
     "largest: the vocabulary is the last axis."),
    ("values-not-ids",
     [{"pick": lambda x: x[:, -1].amax(-1, keepdim=True)},
      {"pick": lambda x: x[:, -1].softmax(-1).amax(-1, keepdim=True)}],
     "You append the largest value itself; asked is its place in the "
     "vocabulary."),
    ("several-ids",
     [{"pick": lambda x, k=k: x[:, -1].topk(k).indices} for k in (2, 3, 5)],
     "One round appends several candidates; only the best one goes on."),
    ("second-best",
     [{"pick": lambda x: x[:, -1].topk(2).indices[:, 1:]}],
     "You append the second most probable token."),
    ("prepended",
     [{"glue": lambda idx, new: torch.cat((new, idx), dim=1)}],
     "The new token stands before the text instead of after it."),
    ("joined-on-wrong-axis",
     [{"glue": lambda idx, new: torch.cat((idx, new), dim=0)}],
     "The new tokens are joined as further rows: they belong to the token "
     "axis."),
    ("last-token-overwritten",
     [{"glue": lambda idx, new: torch.cat((idx[:, :-1], new), dim=1)}],
     "Each new token replaces the one before it."),
    ("window-slid",
     [{"glue": lambda idx, new: torch.cat((idx[:, 1:], new), dim=1)}],
     "A token is lost at the front for each one that is appended."),
    ("text-replaced",
     [{"glue": lambda idx, new: new}],
     "After each round nothing is left but the new token."),
    ("token-twice",
     [{"glue": lambda idx, new: torch.cat((idx, new, new), dim=1)}],
     "Every new token is appended twice."),
    ("one-token-too-many",
     [{"rounds": lambda n, tokens, size: n + 1}],
     "There is one token more than asked for: count the rounds."),
    ("one-token-too-few",
     [{"rounds": lambda n, tokens, size: n - 1}],
     "There is one token less than asked for: count the rounds."),
    ("returns-too-early",
     [{"rounds": lambda n, tokens, size: 1}],
     "Only one round takes place: where does the return stand?"),
    ("prompt-counted",
     [{"rounds": lambda n, tokens, size: n - tokens}],
     "max_new_tokens counts the new tokens, without the prompt's."),
    ("stops-at-context",
     [{"rounds": lambda n, tokens, size: min(n, size - tokens)},
      {"rounds": lambda n, tokens, size: min(n, size - tokens + 1)},
      {"rounds": lambda n, tokens, size: min(n, max(1, size - tokens))}],
     "The text ends where it reaches context_size: that is the limit of what "
     "the model reads, and the text may grow past it."),
    ("rounds-from-context",
     [{"rounds": lambda n, tokens, size: size}],
     "The number of rounds follows context_size; asked are max_new_tokens."),
    ("prompt-missing",
     [{"give": lambda idx, start, size: idx[:, start.shape[1]:]}],
     "The new tokens come back alone: expected is the prompt, followed by "
     "them."),
    ("last-token-only",
     [{"give": lambda idx, start, size: idx[:, -1:]}],
     "Only the last token comes back: expected is the whole text."),
    ("prompt-cropped",
     [{"give": lambda idx, start, size: idx[:, -size:]},
      {"give": lambda idx, start, size: idx[:, -size - 1:]},
      {"window": _once_cropped, "give": _once_cropped},
      {"give": _once_cropped}],
     "A part of the text is gone: crop what the model reads, not the text "
     "that you return."),
    ("batch-axis-lost",
     [{"give": lambda idx, start, size: idx[0]},
      {"give": lambda idx, start, size: idx.squeeze(0)},
      {"give": lambda idx, start, size: idx.flatten()}],
     "The batch axis is gone: expected is the shape (batch, tokens), also "
     "for one row."),
    ("prompt-twice",
     [{"give": lambda idx, start, size: torch.cat((start, idx), dim=1)}],
     "The prompt comes twice."),
]  # fmt: skip


# --- running an answer -------------------------------------------------------


def _attempt(fn, model, *args):
    """What an answer gives, and what it does to its surroundings."""
    given = copy.deepcopy(args)
    chance = torch.get_rng_state()
    model.calls = []
    seen = SimpleNamespace(out=None, error=None, calls=model.calls)
    try:
        seen.out = fn(model, *given)
    except NotImplementedError:
        raise
    except Exception as error:
        seen.error = error
    seen.random = not torch.equal(chance, torch.get_rng_state())
    seen.changed = not _equal(given[0], args[0])
    seen.grad_off = not torch.is_grad_enabled()
    torch.set_grad_enabled(True)
    return seen


def _equal(a, b):
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        if a.is_floating_point() != b.is_floating_point():
            return False
        return a.shape == b.shape and bool((a == b).all())
    return type(a) is type(b) and a == b


def _alike(seen, other):
    """Whether two attempts have the same result, or the same error."""
    if seen.error is None and other.error is None:
        return _equal(seen.out, other.out)
    return str(seen.error) == str(other.error) and (
        type(seen.error) is type(other.error)
    )


def _raise_if_known(explains, mistakes, seen, pairs):
    """Raise the first mistake that leads to all that was seen.

    `explains` tells whether exchanging these parts of the right way does.
    """
    for name, ways, where in mistakes:
        if any(explains(way) for way in ways):
            raise Mistake(name, seen + where)
    if not pairs:
        return
    started = time.monotonic()
    for (name, ways, where), (_, others, _) in combinations(mistakes, 2):
        if time.monotonic() - started > SECONDS_FOR_PAIRS:
            return
        for way, other in ((a, b) for a in ways for b in others):
            if not way.keys() & other.keys() and explains(way | other):
                raise Mistake(name, f"{seen}{where} A second thing is off.")


def _expect_ids(seen, shown):
    """Not a tensor at all: say so before anything is compared."""
    if isinstance(seen.error, Mistake):
        raise seen.error
    if seen.error is not None:
        return
    if seen.out is None:
        raise Mistake(
            "returns-none",
            f"{shown} your function returns None: does every path end in a "
            "return?",
        )
    if not isinstance(seen.out, torch.Tensor):
        raise Mistake(
            "not-a-tensor",
            f"{shown} your function returns {type(seen.out).__name__}; "
            "expected a tensor of ids, (batch, tokens).",
        )


def _result(seen):
    if seen.error is not None:
        error = str(seen.error).split("\n")[0]
        return f"{type(seen.error).__name__} ({error})"
    return _short(seen.out)


def _short(out):
    if isinstance(out, torch.Tensor) and out.numel() > 40:
        return f"a tensor of shape {tuple(out.shape)}"
    out = out.tolist() if isinstance(out, torch.Tensor) else out
    return str(out) if len(str(out)) < 200 else str(out)[:200] + " …"


def _shown(case):
    idx, n, size, *end = case
    text = f"idx {idx.tolist()}, max_new_tokens={n}, context_size={size}"
    return f"with {text}{f', end_id={end[0]}' if end else ''}"


def _judge(fn, model, cases, mistakes):
    """Raise where an answer's ids differ from the loop's on these cases."""
    attempts = [_attempt(fn, model, *case) for case in cases]
    right = [_attempt(_loop, model, *case) for case in cases]
    for seen, case in zip(attempts, cases, strict=True):
        _expect_ids(seen, _shown(case))
        if seen.changed:
            raise Mistake(
                "input-overwritten",
                f"{_shown(case)}: your function changes `idx` itself, and "
                "the caller's prompt is gone. Put the result into a tensor "
                "of its own.",
            )
    wrong = [i for i, a in enumerate(attempts) if not _alike(a, right[i])]
    if wrong:
        spot = wrong[0]
        seen = (
            f"{_shown(cases[spot])} came {_result(attempts[spot])}; expected "
            f"{_result(right[spot])}. "
        )
        _expect_no_chance(fn, model, cases[spot], attempts[spot], seen)
        _raise_if_known(
            lambda way: _explains(_loop, way, model, cases, attempts),
            mistakes,
            seen,
            pairs=attempts[spot].error is None,
        )
        _raise_unknown(attempts, right, cases, spot, seen)
    return attempts


def _explains(loop, way, model, cases, attempts):
    """Whether `loop` with these parts exchanged does what was seen."""
    return all(
        _alike(_replay(loop, way, model, case), seen)
        for case, seen in zip(cases, attempts, strict=True)
    )


@torch.no_grad()
def _replay(loop, way, model, case):
    model.calls = []
    try:
        return SimpleNamespace(out=loop(model, *case, **way), error=None)
    except Exception as error:
        return SimpleNamespace(out=None, error=error)


def _expect_no_chance(fn, model, case, attempt, seen):
    if attempt.random or not _alike(_attempt(fn, model, *case), attempt):
        raise Mistake(
            "samples",
            f"{seen}Your choice involves chance: greedy means the most "
            "probable token, always.",
        )


def _raise_unknown(attempts, right, cases, spot, seen):
    """No known mistake: at least say what kind of difference it is."""
    got, want = attempts[spot], right[spot]
    if got.error is not None:
        _raise_error(attempts, cases, seen, got.error)
    size = cases[spot][2]
    longest = max((call.length for call in got.calls), default=0)
    if longest > size:
        raise Mistake(
            "not-cropped",
            f"{seen}The model was given {longest} tokens at once, more than "
            "context_size.",
        )
    _compare(got.out, want.out, cases[spot][0], seen)


def _raise_error(attempts, cases, seen, error):
    if isinstance(error, _NoSuchInput) and ", 0)" in str(error):
        raise Mistake(
            "crop-start-negative",
            f"{seen}The model was given no token at all: where does your "
            "slice begin while the text is shorter than context_size?",
        )
    if "same number of dimensions" in str(error):
        raise Mistake(
            "keepdim-missing",
            f"{seen}The new ids need the shape (batch, 1): how many axes "
            "have they?",
        )
    alone = [a.error for a, c in zip(attempts, cases, strict=True)
             if len(c[0]) == 1]  # fmt: skip
    if alone and not any(alone):
        raise Mistake(
            "batch-ignored",
            f"{seen}With a single row there is no error: every row of the "
            "batch chooses a token of its own.",
        )
    raise error


def _compare(out, want, idx, seen):
    if _equal(out.long(), want):
        raise Mistake(
            "float-ids",
            f"{seen}The values are right, and their type is {out.dtype}: ids "
            "are whole numbers.",
        )
    if out.shape[:1] != want.shape[:1] or out.dim() != 2:
        raise Mistake(
            "wrong-shape",
            f"{seen}The shape is {tuple(out.shape)}; expected "
            f"{tuple(want.shape)}.",
        )
    _raise_first(_kinds_of_difference(out.long(), want, idx), seen)


def _kinds_of_difference(out, want, idx):
    """(name, whether it is this one, what to say), the last always is."""
    tokens, total, wanted = idx.shape[1], out.shape[1], want.shape[1]
    return [
        ("prompt-changed",
         not _equal(out[:, :tokens], idx),
         "The prompt should come first, as is."),
        ("stops-early",
         _equal(out, want[:, :total]),
         f"It ends after {total - tokens} new tokens: which of them stops "
         "your loop?"),
        ("stops-late",
         _equal(out[:, :wanted], want),
         f"{total - wanted} tokens come after the end."),
        ("wrong-length",
         total != wanted,
         f"{total - tokens} tokens are new; expected {wanted - tokens}."),
        ("wrong-values",
         True,
         "Follow one round by hand: window, last position, largest logit."),
    ]  # fmt: skip


def _raise_first(kinds, seen):
    for name, found, where in kinds:
        if found:
            raise Mistake(name, seen + where)


# --- what an answer leaves behind --------------------------------------------


def _expect_no_gradient(attempts):
    for seen in attempts:
        if seen.grad_off:
            raise Mistake(
                "gradient-left-off",
                "after your function, gradients stay switched off for all "
                "later cells: switch them off for the model's call alone.",
            )
        if any(call.grad for call in seen.calls):
            raise Mistake(
                "gradient-kept",
                "the ids are right, but the model ran with gradients "
                "switched on and kept all intermediate results: generating "
                "needs none of them. Memory would grow for nothing.",
            )


def _expect_model_untouched(fn, *args):
    """The train or eval mode stays as the caller has set it."""
    for training in (True, False):
        model = _Scripted().train(training)
        # Who refuses a model in training mode leaves it alone, too.
        _attempt(fn, model, *args)
        modes = [module.training for module in model.modules()]
        if any(mode != training for mode in modes):
            raise Mistake(
                "mode-changed",
                f"a model with training={training} comes back with "
                f"training={not training}: the mode is the caller's to set.",
            )
        if not all(p.requires_grad for p in model.parameters()):
            raise Mistake(
                "model-frozen",
                "your function leaves the model's parameters with "
                "requires_grad=False: it could not be trained any more.",
            )


def _ids(*rows):
    return torch.tensor(rows)


GENERATE_CASES = [
    (_ids([17, 4]), 1, 8),
    (_ids([3, 14, 8]), 6, 8),  # the window fills up on the way
    (_ids([5, 1, 20, 7, 7, 0, 11], [2, 9, 28, 4, 13, 6, 1],
          [8, 8, 3, 19, 0, 5, 26]), 5, 4),  # longer than the context
    (_ids([17, 2, 9, 23, 4], [1, 0, 12, 12, 25]), 6, 8),
    (_ids([6, 21], [10, 3]), 3, 1),
]  # fmt: skip


@exercise(
    "Go round by round: what does the model read, which of its outputs says "
    "what comes next, and where does the new token go?",
    "In each round: the last context_size tokens go through the model without "
    "gradients; take the last position's logits, the index of the largest in "
    "each row, and join it to the text on the token axis.",
    "The window is idx[:, -context_size:], the scores are logits[:, -1, :], "
    "and argmax needs dim=-1 and keepdim=True so that torch.cat can join "
    "(batch, 1) to (batch, tokens) with dim=1.",
)
def generate(fn):
    """Greedy ids for one and several rows, short and long texts."""
    attempts = _judge(fn, _Scripted().eval(), GENERATE_CASES, LOOP_MISTAKES)
    # Tokens that some loops take for an end. (Only now: a wrong answer could
    # grow without bounds on a vocabulary as large as this.)
    listed = _Listed([9, 9, 0, 0, 50256, 4, 4]).eval()
    _judge(fn, listed, [(_ids([4, 18, 2]), 7, 16)], [])
    _expect_no_gradient(attempts)
    _expect_model_untouched(fn, *GENERATE_CASES[0])
    _expect_nothing_new(fn)
    _expect_tiny_gpt(fn, 20)
    return (
        "one, two and three rows go on token by token as expected, past the "
        "context size too: prompt first, then exactly max_new_tokens, without "
        "gradients, and prompt and model are left as they were."
    )


def _expect_nothing_new(fn, *end):
    idx = _ids([3, 14, 8], [1, 2, 3])[: 1 if end else 2]
    seen = _attempt(fn, _Scripted().eval(), idx, 0, 8, *end)
    # Joining an empty list fails: no reason to refuse an answer.
    if seen.error is None and not _equal(seen.out, idx):
        raise Mistake(
            "one-token-too-many",
            f"with max_new_tokens=0 came {_short(seen.out)}; expected the "
            f"prompt, {idx.tolist()}.",
        )


def _expect_tiny_gpt(fn, n, *end):
    torch.manual_seed(123)
    model = GPTModel(TINY).eval()
    idx = _ids([5, 7, 11, 13])
    with torch.no_grad():
        want = _loop(model, idx, n, 16, *end)
    out = fn(model, idx.clone(), n, 16, *end)
    if not _equal(out, want):
        raise Mistake(
            "wrong-values",
            f"with a tiny GPTModel and {_shown((idx, n, 16, *end))} came "
            f"{_short(out)}; expected {_short(want)}.",
        )


# --- stop at the end ---------------------------------------------------------

UNUSED = 50256  # the small model has no such token
SPECIAL = [(_ids([4, 18, 2]), n, 16, end)
           for n, end in ((7, 50256), (7, 12), (5, 0))]  # fmt: skip


STOP_MISTAKES = [
    ("never-stops",
     [{"after": _no_end}],
     "The loop goes on after end_id: which value do you compare with it, "
     "and does the loop end then?"),
    ("end-dropped",
     [{"before": _end_is_new}],
     "The end token is missing: it stays in the result, so look at the "
     "order of stopping and appending."),
    ("prompt-stops",
     [{"after": lambda idx, new, start, end: bool((idx == end).any())},
      {"after": _no_end,
       "first": lambda idx, new, start, end: bool((idx == end).any())},
      {"after": _no_end,
       "first": lambda idx, new, start, end: bool(idx[0, -1] == end)},
      {"after": lambda idx, new, start, end: bool((start == end).any())
       or _end_is_new(idx, new, start, end)},
      {"before": lambda idx, new, start, end: bool((idx == end).any())},
      {"first": lambda idx, new, start, end: bool((start == end).any())}],
     "An end_id inside the prompt stops the loop: only a new token may."),
    ("one-past-end",
     [{"after": lambda idx, new, start, end:
       idx.shape[1] > start.shape[1] + 1 and bool(idx[0, -2] == end)},
      {"after": lambda idx, new, start, end: bool(idx[0, -2] == end)}],
     "One more token follows end_id."),
    ("stop-inverted",
     [{"after": lambda idx, new, start, end: bool((new != end).all())}],
     "The loop ends at a token that is *not* end_id."),
]  # fmt: skip


def _stop_cases():
    """Ends at different places; found by running the right loop."""
    idx, long = _ids([4, 9, 2, 17]), _ids([1, 5, 8, 3, 22, 6, 10])
    new = _loop(_Scripted(), idx, 8, 8)[0, 4:].tolist()
    late = _loop(_Scripted(), long, 6, 4)[0, 7:].tolist()
    return [
        (idx, 8, 8, new[2]),
        (idx, 8, 8, new[0]),
        (idx, 8, 8, UNUSED),
        (idx, 8, 8, 9),  # stands in the prompt
        (idx, 8, 8, 17),  # is the prompt's last token
        (_ids([*idx[0].tolist()]), 3, 8, new[2]),  # the last one allowed
        (long, 6, 4, late[3]),
        (long, 6, 4, 5),  # in the prompt and the last new one
    ]


@exercise(
    "Compare the new token with end_id in each round. Where must the "
    "comparison stand so that end_id is part of the result?",
    "Start from your greedy loop. After the new token is appended, look at "
    "it alone, not at the whole text, and leave the loop if it is end_id.",
    "`idx_next` has the shape (1, 1): `idx_next.item()` is the number to "
    "compare, and `break` leaves the loop, after torch.cat.",
)
def stop_at_end(fn):
    """Nothing follows a generated end_id, which stays."""
    cases = _stop_cases()
    listed = _Listed([9, 9, 0, 50256, 4, 12, 4, 5, 6]).eval()
    try:
        attempts = _judge(
            fn, _Scripted().eval(), cases, STOP_MISTAKES + LOOP_MISTAKES
        )
    except Mistake as mistake:
        if mistake.name == "never-stops":
            _expect_not_hardcoded(fn, listed)
        raise
    _judge(fn, listed, SPECIAL, STOP_MISTAKES)
    _expect_no_gradient(attempts)
    _expect_model_untouched(fn, *cases[2])
    _expect_nothing_new(fn, UNUSED)
    _expect_tiny_gpt(fn, 20, 87)
    return (
        "the text ends with the first new end_id, at the latest after "
        "max_new_tokens; an end_id in the prompt stops nothing, and another "
        "end_id works as well. With end_id=87 the tiny model gives four new "
        "tokens."
    )


def _expect_not_hardcoded(fn, model):
    """Does a loop that ignores end_id stop at GPT-2's own?"""
    idx, n, size, _ = SPECIAL[0]
    seen = _attempt(fn, model, idx, n, size, 28)
    if seen.error is None and seen.out.shape[1] < idx.shape[1] + n:
        raise Mistake(
            "end-id-hardcoded",
            f"with end_id=28 your loop stops at {_short(seen.out)}: it "
            "compares with another number than `end_id`.",
        )


# --- two prompts at once -----------------------------------------------------


def _fill_right(row, longest):
    return row + [0] * (longest - len(row))


def _fill_left(row, longest):
    return [0] * (longest - len(row)) + row


def _serve(
    model, prompts, n, size, *, crop=lambda row, size: row[-size:],
    fill=_fill_right, read=lambda row, longest: len(row) - 1,
    pick=lambda scores: scores.argmax().item(),
    rounds=lambda n, row, longest: n, again=lambda row, longest: row,
    start=lambda row, longest, shortest: row,
    give=lambda row, tokens, longest: row,
):  # fmt: skip
    """Rows of unequal length; what is exchanged makes a known mistake.

    A row is padded anew in each round, and read where it ends; `again` cuts
    what the model reads once more, after padding.
    """
    lengths = [len(prompt) for prompt in prompts]
    longest, shortest = max(lengths), min(lengths)
    rows = [start(list(row), longest, shortest) for row in prompts]
    for turn in range(max(rounds(n, p, longest) for p in prompts)):
        contexts = [crop(row, size) for row in rows]
        most = max(map(len, contexts))
        padded = [again(fill(c, most), size) for c in contexts]
        logits = model(torch.tensor(padded))
        for i, row in enumerate(rows):
            if turn < rounds(n, prompts[i], longest):
                place = read(contexts[i], len(padded[i]))
                row.append(pick(logits[i][place]))
    return [give(r, t, longest) for r, t in zip(rows, lengths, strict=True)]


def _start_right(row, longest, shortest):
    return _fill_right(row, longest)


def _start_left(row, longest, shortest):
    return _fill_left(row, longest)


def _at_end(row, longest):
    return longest - 1


def _unpad_right(row, tokens, longest):
    return row[:tokens] + row[longest:]


def _unpad_left(row, tokens, longest):
    return row[longest - tokens :]


BATCH_MISTAKES = [
    ("padding-kept",
     [{"give": lambda row, tokens, longest:
       _fill_left(row[:tokens], longest) + row[tokens:]},
      {"give": lambda row, tokens, longest:
       _fill_right(row[:tokens], longest) + row[tokens:]},
      {"start": _start_left}, {"start": _start_right},
      {"give": lambda row, tokens, longest:
       row + [0] * (longest - tokens)},
      {"give": lambda row, tokens, longest:
       [0] * (longest - tokens) + row}],
     "There is padding in the lists that come back; it belongs to the "
     "model's input alone."),
    ("padded-left",
     [{"fill": _fill_left, "read": _at_end},
      {"start": _start_left, "give": _unpad_left}],
     "Padding on the left moves a shorter prompt to other positions, and its "
     "tokens look at the padding."),
    ("reads-padding",
     [{"read": _at_end},
      {"start": _start_right, "give": _unpad_right},
      {"read": lambda row, longest: longest - 1, "fill": _fill_right}],
     "The shorter prompt goes on from its padding: its last real token "
     "stands at another place than the end of the padded row."),
    ("padding-by-id",
     [{"read": lambda row, longest: sum(x != 0 for x in row) - 1},
      {"give": lambda row, tokens, longest: [x for x in row if x != 0]}],
     "Id 0 can be a real token too: tell padding by the length of the "
     "prompt, not by its id."),
    ("cut-to-shortest",
     [{"start": lambda row, longest, shortest: row[:shortest]},
      {"start": lambda row, longest, shortest: row[-shortest:]}],
     "A longer prompt has lost tokens: no prompt may be cut to the length of "
     "the shortest."),
    ("lengths-evened",
     [{"rounds": lambda n, row, longest: n + longest - len(row)},
      {"rounds": lambda n, row, longest: max(0, n - len(row))},
      {"give": lambda row, tokens, longest: row[:longest]}],
     "The rows have been brought to one length: each prompt gets "
     "max_new_tokens new ids, however long it is."),
    ("cropped-after-padding",
     [{"crop": lambda row, size: row,
       "again": lambda row, size: row[-size:], "read": _at_end},
      {"crop": lambda row, size: row,
       "again": lambda row, size: row[-size:],
       "read": lambda row, longest: min(len(row), longest) - 1},
      {"crop": lambda row, size: row, "fill": _fill_left,
       "again": lambda row, size: row[-size:], "read": _at_end}],
     "The crop runs over the padded rows and cuts off real tokens of the "
     "shorter one: each row has a last context_size tokens of its own."),
    ("first-window-kept",
     [{"crop": lambda row, size: row[:size]}],
     "A long row is cropped to its first tokens: which end matters for what "
     "comes next?"),
    ("not-cropped",
     [{"crop": lambda row, size: row}],
     "The model's input grows past context_size, and a real model fails "
     "there."),
    ("crop-off-by-one",
     [{"crop": lambda row, size: row[-size - 1:]},
      {"crop": lambda row, size: row[-size + 1:]}],
     "The model reads one token too many or too few of a long row."),
    ("not-last-position",
     [{"read": lambda row, longest: len(row) - 2},
      {"read": lambda row, longest: 0},
      {"read": lambda row, longest: min(len(row), longest - 1)},
      {"read": lambda row, longest: len(row)}],
     "The logits come from another position than that of a row's last real "
     "token."),
    ("argmin",
     [{"pick": lambda scores: scores.argmin().item()}],
     "You append the least probable token."),
    ("one-token-too-many",
     [{"rounds": lambda n, row, longest: n + 1}],
     "There is one new id more than asked for: count the rounds."),
    ("one-token-too-few",
     [{"rounds": lambda n, row, longest: n - 1}],
     "There is one new id less than asked for: count the rounds."),
    ("returns-too-early",
     [{"rounds": lambda n, row, longest: 1}],
     "Only one round takes place: where does the return stand?"),
    ("prompt-missing",
     [{"give": lambda row, tokens, longest: row[tokens:]},
      {"give": lambda row, tokens, longest: row[longest:]}],
     "The prompt is missing: expected is each prompt, followed by its new "
     "ids."),
]  # fmt: skip

BATCH_CASES = [
    ([[5, 7, 11, 13], [21, 4]], 4, 16),
    ([[2, 9], [17, 3, 25, 1, 8]], 5, 16),
    ([[6, 14, 0], [0, 3, 19, 22, 0, 0], [12]], 3, 16),  # 0 is a real token
    ([[1, 5, 8, 3, 22, 6, 10], [4, 26]], 4, 4),  # longer than the context
    ([[20, 2, 7], [9, 1, 1]], 2, 8),
    ([[16, 23]], 2, 8),
]


@exercise(
    "Serve one prompt at a time first: its ids are the ones to reach. Then "
    "ask what padding on the right does to the position that you read.",
    "Keep a list for each prompt. In each round: crop every row to its own "
    "last context_size ids, pad on the right to equal length, run the model "
    "once, and append one id to each row.",
    "For a row whose cropped context has `length` ids, the scores are "
    "`logits[row, length - 1]`; append `.argmax().item()` to a copy of the "
    "prompt's list.",
)
def batch_prompts(fn):
    """Each prompt goes on as if it were alone; lists in, lists out."""
    model = _Scripted().eval()
    attempts = [_attempt(fn, model, *case) for case in BATCH_CASES]
    rights = [_attempt(_serve, model, *case).out for case in BATCH_CASES]
    for seen, right, case in zip(attempts, rights, BATCH_CASES, strict=True):
        _expect_lists(seen, right, case)
    wrong = [i for i, a in enumerate(attempts) if a.out != rights[i]]
    if wrong:
        _explain_batch(fn, model, attempts, rights, wrong[0])
    for seen, case in zip(attempts, BATCH_CASES, strict=True):
        _expect_prompts_kept(seen, case)
        _expect_fit_for_models(seen, case)
    _expect_no_gradient(attempts)
    _expect_model_untouched(fn, *BATCH_CASES[0])
    return _tiny_batch(fn)


def _tiny_batch(fn):
    torch.manual_seed(123)
    model, prompts = GPTModel(TINY).eval(), [[5, 7, 11, 13], [21, 34]]
    with torch.no_grad():
        want = _serve(model, prompts, 16, 16)
    out = fn(model, copy.deepcopy(prompts), 16, 16)
    if out != want:
        raise Mistake(
            "wrong-values",
            f"with a tiny GPTModel, {_batch_shown((prompts, 16, 16))} came "
            f"{_short(out)}; expected {_short(want)}.",
        )
    return (
        "one, two and three prompts each go on as if alone, in any order of "
        "lengths, past the context size too; no padding comes back, and "
        "prompts and model are left as they were."
    )


def _batch_shown(case):
    prompts, n, size = case
    return f"with prompts {prompts}, max_new_tokens={n}, context_size={size}"


def _expect_lists(seen, right, case):
    """What comes back is a list of lists of int, one for each prompt."""
    if isinstance(seen.error, Mistake):
        raise seen.error
    if seen.error is not None:
        _explain_batch_error(seen.error, case)
        return
    name, what = _form(seen.out, right)
    if name:
        raise Mistake(
            name,
            f"{_batch_shown(case)} {what}; expected a list of "
            f"{len(case[0])} lists of ids, {_short(right)}.",
        )


def _form(out, right):
    """Name of what is wrong with the form, if anything, and its words."""
    if out is None:
        return "returns-none", "your function returns None"
    rows = out if isinstance(out, list) else [None]
    if any(not isinstance(row, list) for row in rows):
        inner = {type(row).__name__ for row in rows}
        what = "a list of " + " and ".join(sorted(inner))
        if not isinstance(out, list):
            what = f"a {type(out).__name__}"
        return "not-lists", f"came {what}"
    ids = [x for row in rows for x in row]
    if any(isinstance(x, torch.Tensor) for x in ids):
        return "ids-are-tensors", "the new ids in the lists are tensors"
    if any(isinstance(x, list) for x in ids):
        return "nested-too-deep", f"came {_short(out)}, one level too deep"
    if len(out) != len(right):
        return "rows-missing", f"came {len(out)} rows"
    return None, None


def _explain_batch_error(error, case):
    if "expected sequence of length" in str(error):
        raise Mistake(
            "not-padded",
            f"{_batch_shown(case)} came {type(error).__name__} ({error}): a "
            "tensor is a rectangle, so rows of unequal length must be padded "
            "or run one by one.",
        )


def _explain_batch_index(error, text):
    if isinstance(error, IndexError) and "out of bounds" in str(error):
        raise Mistake(
            "not-last-position",
            f"{text}Count where a row's last real token stands: indexes "
            "begin at 0.",
        )


def _expect_prompts_kept(seen, case):
    if seen.changed:
        raise Mistake(
            "prompts-changed",
            f"{_batch_shown(case)}: the new ids are right, but the caller's "
            "own lists have been changed. Append to copies.",
        )


def _expect_fit_for_models(seen, case):
    """The ids are right; would a real model have taken the input?"""
    longest = max(call.length for call in seen.calls)
    if longest > case[2]:
        raise Mistake(
            "not-cropped",
            f"{_batch_shown(case)}: the ids are right, but the model was "
            f"given {longest} tokens at once, padding included. A real model "
            "fails above context_size.",
        )
    for low, high in (call.ids for call in seen.calls):
        if low < 0 or high >= VOCAB:
            raise Mistake(
                "padding-outside-vocabulary",
                f"the ids are right, but the model was given the id "
                f"{low if low < 0 else high} as padding, and its vocabulary "
                f"has the ids 0 to {VOCAB - 1}. A real model fails there.",
            )


def _explain_batch(fn, model, attempts, rights, spot):
    case, seen = BATCH_CASES[spot], attempts[spot]
    text = (
        f"{_batch_shown(case)} came {_result(seen)}; expected "
        f"{_short(rights[spot])}. "
    )
    _expect_no_chance(fn, model, case, seen, text)
    _raise_if_known(
        lambda way: _explains(_serve, way, model, BATCH_CASES, attempts),
        BATCH_MISTAKES,
        text,
        pairs=seen.error is None,
    )
    if seen.error is not None:
        _explain_batch_index(seen.error, text)
        raise seen.error
    _expect_prompts_kept(seen, case)
    _compare_rows(seen, rights[spot], case, text)


def _compare_rows(seen, right, case, text):
    """No known mistake: say what kind of difference it is."""
    prompts, n, size = case
    longest = max((call.length for call in seen.calls), default=0)
    starts = [r[: len(p)] for r, p in zip(seen.out, prompts, strict=True)]
    kinds = [
        ("not-cropped",
         longest > size,
         f"The model was given {longest} tokens at once, more than "
         "context_size."),
        ("rows-reordered",
         sorted(seen.out) == sorted(right),
         "The rows come in another order than the prompts."),
        ("prompt-changed",
         starts != prompts,
         "Each row should begin with its prompt, as is."),
        ("wrong-length",
         list(map(len, seen.out)) != list(map(len, right)),
         f"Every row should have {n} new ids."),
        ("wrong-values",
         True,
         "Run each prompt alone and compare: from which round on do they "
         "differ?"),
    ]  # fmt: skip
    _raise_first(kinds, text)
