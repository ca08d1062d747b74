"""The check of notebook 08's attention that takes kept keys and values."""

from functools import partial

import torch

from classroom.checks.edits import Task, blame, known
from classroom.checks.functions import (
    Outcome,
    attempt,
    check_signature,
    draws,
    left_alone,
    returned,
)
from classroom.checks.guard import exercise
from classroom.checks.modules import NAN
from classroom.checks.result import Mistake
from classroom.checks.tensors import difference, expect_tensor, same
from gptlib.attention import MultiHeadAttention

CALL = "my_cached_attention(att, x, keys, values)"
RESULTS = "context", "tensor of keys", "tensor of values"


# --- the solution, and what mistakes make of it ----------------------------


def attend(att, x, keys, values):
    q, k, v = att.W_query(x), att.W_key(x), att.W_value(x)
    new_keys, new_values = att.split_heads(k), att.split_heads(v)
    keys = torch.cat((keys, new_keys), dim=2)
    values = torch.cat((values, new_values), dim=2)
    query = att.split_heads(q)
    scores = query @ keys.transpose(2, 3)
    scores = scores / query.shape[-1] ** 0.5
    new, seen = scores.shape[2:]
    hidden = torch.ones(new, seen, dtype=torch.bool).triu(seen - new + 1)
    weights = scores.masked_fill(hidden, -torch.inf).softmax(dim=-1)
    gathered = weights @ values
    context = att.out_proj(gathered.transpose(1, 2).flatten(2))
    return context, keys, values


JOIN_KEYS = "torch.cat((keys, new_keys), dim=2)"
JOIN_VALUES = "torch.cat((values, new_values), dim=2)"
MASKED = "scores.masked_fill(hidden, -torch.inf).softmax(dim=-1)"
MASK = "torch.ones(new, seen, dtype=torch.bool).triu(seen - new + 1)"
MERGED = "gathered.transpose(1, 2).flatten(2)"
GIVEN = {"q, k, v": "given = keys, values\nq, k, v"}
RETURN = "return context, keys, values"


def _masked(*masks):
    return [{MASK: mask} for mask in masks]


MISTAKES = [
    known("mask-missing",
          "This fits scores without a mask: a new token also looks at the "
          "new tokens after it.",
          {MASKED: "scores.softmax(dim=-1)"}),
    known("mask-at-upper-left",
          "This fits a mask that starts in the first column, as if nothing "
          "were kept. In the row of the first new token, how many columns "
          "may be seen?",
          *_masked("torch.ones(new, seen).bool().triu(1)",
                   # What torch's own is_causal does, which one token leaves.
                   "torch.ones(new, seen).bool().triu(1 if new > 1 else "
                   "seen)")),
    known("mask-of-other-shape",
          "This fits a mask of another shape than the scores: they have a "
          "row for each new token, and a column for each token seen.",
          *_masked("att.mask[:seen, :seen]", "att.mask[:new, :new]")),
    known("mask-hides-kept",
          "This fits new tokens that do not look at the kept ones, or not at "
          "all of them: all of these stand before each new token.",
          *_masked("torch.cat((torch.ones(new, seen - new).bool(), "
                   "torch.ones(new, new).bool().triu(1)), 1)",
                   "torch.ones(new, seen).bool().triu(new)",
                   "torch.ones(new, seen).bool().triu(seen - new + 1)"
                   ".flip(1)")),
    known("mask-for-prompt-only",
          "This fits a mask that hides nothing once something is kept: of "
          "several new tokens, the earlier ones come before the later ones "
          "then, too.",
          *_masked("torch.ones(new, seen).bool().triu(1 if new == seen else "
                   "seen)")),
    known("new-apart",
          "This fits new tokens that see what was kept and themselves, but "
          "not the new tokens before them: what has joined the kept ones "
          "when the second new token has its turn?",
          *({MASK: "torch.cat((torch.zeros(new, seen - new), 1 - "
             "torch.eye(new)), 1).bool()"} | other
            for other in ({}, {RETURN: "return context, *given", **GIVEN}))),
    known("mask-off-by-one",
          "This fits a mask that is one column off. Count the columns that "
          "the first new token may see, and those that your mask leaves it.",
          *_masked("torch.ones(new, seen).bool().triu(seen - new)",
                   "torch.ones(new, seen).bool().triu(seen - new + 2)")),
    known("mask-inverted",
          "This fits a mask that hides what stands before and shows what "
          "comes after.",
          *_masked("torch.ones(new, seen).bool().tril(seen - new)",
                   "torch.ones(new, seen).bool().tril(seen - new - 1)")),
    known("mask-with-zero",
          "This fits hidden scores that become 0. The softmax makes e⁰ = 1 "
          "of a zero: which score gets no weight at all?",
          {"-torch.inf": "0.0"}),
    known("mask-after-softmax",
          "This fits weights that are set to zero after the softmax: then "
          "those of a row no longer add up to 1.",
          {MASKED: "scores.softmax(dim=-1).masked_fill(hidden, 0.0)"}),
    known("kept-ignored",
          "This fits attention among the new tokens alone: the kept keys and "
          "values play no part in it.",
          {JOIN_KEYS: "new_keys", JOIN_VALUES: "new_values"}),
    known("new-ignored",
          "This fits new tokens that look at the kept ones alone: a token "
          "looks at itself too.",
          {"query = att": "joined = keys, values\nkeys, values = given\n"
           "query = att", RETURN: "return context, *joined", **GIVEN,
           MASK: "torch.zeros(new, seen).bool()"},
          {"query = att": "keys, values = given\nquery = att", **GIVEN,
           MASK: "torch.zeros(new, seen).bool()"}),
    known("joined-in-front",
          "This fits new keys or values that stand in front of the kept "
          "ones; in time they come after them.",
          {JOIN_KEYS: "torch.cat((new_keys, keys), dim=2)",
           JOIN_VALUES: "torch.cat((new_values, values), dim=2)"},
          {JOIN_KEYS: "torch.cat((new_keys, keys), dim=2)"},
          {JOIN_VALUES: "torch.cat((new_values, values), dim=2)"}),
    known("joined-on-wrong-axis",
          "keys has the shape (batch, heads, tokens, head): which axis grows "
          "with the text?",
          *({JOIN_KEYS: f"torch.cat((keys, new_keys), dim={axis})",
             JOIN_VALUES: f"torch.cat((values, new_values), dim={axis})"}
            for axis in (0, 1, 3))),
    known("returns-new-only",
          "This fits keys and values of the new tokens alone that are "
          "returned to be kept: the next call would have nothing of the "
          "earlier ones.",
          {RETURN: "return context, new_keys, new_values"}),
    known("returns-old",
          "This fits keys and values that are returned as they came in: the "
          "next call would not know of the new tokens.",
          {RETURN: "return context, *given", **GIVEN}),
    known("results-swapped",
          "The order is another one: expected the context vectors, then the "
          "keys, then the values.",
          {RETURN: "return context, values, keys"},
          {RETURN: "return keys, values, context"}),
    known("keys-and-values-swapped",
          "This fits keys that are joined to the kept values, and values to "
          "the kept keys.",
          {JOIN_KEYS: "torch.cat((keys, new_values), dim=2)",
           JOIN_VALUES: "torch.cat((values, new_keys), dim=2)"}),
    known("wrong-layer",
          "This fits a vector made by another layer than its own: W_query "
          "for queries, W_key for keys, W_value for values.",
          *({layer: other} for layer, other in [
              ("att.W_query(x)", "att.W_key(x)"),
              ("att.W_query(x)", "att.W_value(x)"),
              ("att.W_key(x)", "att.W_query(x)"),
              ("att.W_key(x)", "att.W_value(x)"),
              ("att.W_value(x)", "att.W_key(x)"),
              ("att.W_value(x)", "att.W_query(x)")])),
    known("bias-missing",
          "This fits layers whose bias is left out: call the layer itself, "
          "since some GPTs have a bias in it.",
          {"att.W_query(x), att.W_key(x), att.W_value(x)": "x @ att.W_query."
           "weight.T, x @ att.W_key.weight.T, x @ att.W_value.weight.T"},
          {"att.out_proj(": "torch.nn.functional.linear(",
           "flatten(2))": "flatten(2), att.out_proj.weight)"}),
    known("not-scaled",
          "This fits scores that are not divided before the softmax.",
          {"scores = scores / query.shape[-1] ** 0.5": "pass"}),
    known("wrong-scale",
          "This fits scores that are divided by another number than the root "
          "of the features of one head.",
          *({"query.shape[-1] ** 0.5": other} for other in
            ("x.shape[-1] ** 0.5", "query.shape[-1]", "seen ** 0.5",
             "att.num_heads ** 0.5", "query.shape[-1] ** -0.5",
             "int(query.shape[-1] ** 0.5)",
             "8 ** 0.5", "64 ** 0.5"))),  # of the tiny model, and GPT-2's
    known("softmax-wrong-axis",
          "This fits a softmax over another axis: the weights of one new "
          "token, over all tokens that it sees, add up to 1.",
          *({"softmax(dim=-1)": f"softmax(dim={axis})"} for axis in (0, 1, 2))
          ),
    known("heads-split-wrongly",
          "This fits heads that get numbers of several tokens each: first "
          "split the features, then bring the heads to the front.",
          {"att.split_heads(q)": "q.reshape(len(x), att.num_heads, "
           "x.shape[1], -1)"},
          {"att.split_heads(k), att.split_heads(v)": "k.reshape(len(x), "
           "att.num_heads, x.shape[1], -1), v.reshape(len(x), "
           "att.num_heads, x.shape[1], -1)"},
          {"att.split_heads(k), att.split_heads(v)": "k.reshape(len(x), "
           "att.num_heads, x.shape[1], -1), v.reshape(len(x), "
           "att.num_heads, x.shape[1], -1)",
           "att.split_heads(q)": "q.reshape(len(x), att.num_heads, "
           "x.shape[1], -1)"}),
    known("heads-merged-wrongly",
          "This fits heads that are joined before the tokens are in front of "
          "them: a token's row then mixes numbers of several tokens.",
          {MERGED: "gathered.reshape(x.shape)"}),
    known("heads-averaged",
          "This fits heads that are averaged or added; they stand side by "
          "side.",
          {MERGED: "gathered.mean(1).repeat(1, 1, att.num_heads)"},
          {MERGED: "gathered.sum(1).repeat(1, 1, att.num_heads)"}),
    known("projection-missing",
          "This fits context vectors without the last layer, out_proj.",
          {f"att.out_proj({MERGED})": MERGED}),
    known("projection-twice",
          "This fits context vectors that pass out_proj twice.",
          {f"att.out_proj({MERGED})": f"att.out_proj(att.out_proj({MERGED}))"}
          ),
    known("shortcut-added",
          "This fits an input that is added to the context: the block does "
          "that, around attention.",
          {f"att.out_proj({MERGED})": f"x + att.out_proj({MERGED})"}),
    known("last-token-only",
          "This fits the context of the last new token alone: each of them "
          "gets one.",
          {f"att.out_proj({MERGED})": f"att.out_proj({MERGED})[:, -1:]"}),
    known("first-token-only",
          "This fits the context of the first new token alone: each of them "
          "gets one.",
          {f"att.out_proj({MERGED})": f"att.out_proj({MERGED})[:, :1]"}),
]  # fmt: skip
CACHED = Task(attend, MISTAKES, lambda solve: solve)


# --- cases and verdicts ----------------------------------------------------


def _case(batch, kept, new, heads=3, head=4, dtype=torch.float32):
    """Attention, new vectors, and keys and values of kept tokens."""
    emb = heads * head
    att = MultiHeadAttention(emb, emb, 32, 0.2, heads, qkv_bias=True).eval()
    with torch.no_grad():
        for p in att.parameters():
            p.copy_(torch.randn(p.shape) * (0.5 if p.dim() > 1 else 1.0))
    x = torch.randn(new, batch, emb).transpose(0, 1)  # not in order in memory
    keys, values = torch.randn(2, batch, heads, kept, head).unbind()
    return att.to(dtype), *(t.to(dtype) for t in (x, keys, values))


def _cases():
    torch.manual_seed(123)
    return [
        _case(2, 3, 2),
        _case(1, 0, 4),  # the prompt: nothing is kept
        _case(2, 5, 1, heads=2, head=6),
        _case(1, 1, 5, heads=4),
        _case(3, 4, 3, heads=1),
        _case(1, 0, 1, heads=2, head=3),
        _case(2, 4, 4, dtype=torch.float64),
        _case(1, 6, 2),
    ]


def _told(case):
    _, x, keys, _ = case
    return (
        f"With {keys.shape[2]} kept and {x.shape[1]} new tokens, batch "
        f"{len(x)}, {keys.shape[1]} heads:"
    )


def _alike(one, other):
    """Whether two outcomes hold the same tensors, or the same error."""
    if one.error is not None or other.error is not None:
        return repr(one.error) == repr(other.error)
    return len(one.result) == len(other.result) and all(
        same(a, b, equal_nan=True)
        for a, b in zip(one.result, other.result, strict=True)
    )


def _tensors(outcome, case, right):
    """The outcome with its three tensors, of whichever shapes; or raise."""
    if outcome.error is not None:
        return outcome
    result = outcome.result
    if not isinstance(result, tuple | list) or len(result) != 3:
        kind = type(result).__name__
        if isinstance(result, tuple | list):
            kind += f" of {len(result)}"
        raise Mistake(
            "not-three-results",
            f"{_told(case)} your function returns a {kind}; expected three "
            "tensors: the context vectors, the keys and the values, with the "
            "new ones among them.",
        )
    for name, tensor, wanted in zip(RESULTS, result, right, strict=True):
        if not isinstance(tensor, torch.Tensor):
            expect_tensor(tensor, wanted.shape, f"{_told(case)} {name}")
    return Outcome(tuple(result), None, outcome.changed)


def _seen(case, outcome, right):
    """A sentence with the numbers of the first result that is off."""
    if outcome.error is not None:
        what = str(outcome.error).split("\n")[0]
        return f"{_told(case)} {type(outcome.error).__name__}: {what}."
    wrong = [
        (got.shape == wanted.shape, difference(got, wanted, name))
        for name, got, wanted in zip(
            RESULTS, outcome.result, right, strict=True
        )
        if not same(got, wanted)
    ]
    _, told = min(wrong)  # another shape before another number
    return f"{_told(case)} {told}"


def _tried(fn, cases):
    """(case, outcome, what is right) for each case."""
    triples = []
    for case in cases:
        right = attend(*case)
        outcome = attempt(partial(returned, fn), *case)
        triples.append((case, _tensors(outcome, case, right), right))
    return triples


def _fits(triples, solve):
    """Whether a solution gives in each case what the answer gave."""
    for case, outcome, _ in triples:
        try:
            given = Outcome(solve(*case), None, False)
        except Exception as error:  # two edits may not fit together
            given = Outcome(None, error, False)
        if not _alike(given, outcome):
            return False
    return True


def _otherwise(fn, case, outcome, right, first):
    """No known mistake: its name, and where to look.

    `first` tells that no case before this one was right.
    """
    context, *kept = outcome.result
    if [t.shape for t in outcome.result] != [t.shape for t in right]:
        return "wrong-shape", (
            "The context is (batch, new, emb); keys and values are (batch, "
            "heads, kept + new, head)."
        )
    if not context.isfinite().any():
        return "output-not-finite", NAN
    if draws(attempt, fn, *case):
        return "random-values", (
            "Your function draws random numbers or sets a seed. Attention in "
            "evaluation mode needs neither."
        )
    if not first:
        return "wrong-for-other-sizes", (
            "Yours is right for other sizes. What in it fits some only?"
        )
    return "wrong-values", (
        "Follow one new token: which tokens does it see, with which keys is "
        "its query compared, and whose values does it collect?"
    )


def _check_types(triples):
    for case, outcome, right in triples:
        for name, got, wanted in zip(
            RESULTS, outcome.result, right, strict=True
        ):
            if got.dtype != wanted.dtype:
                raise Mistake(
                    "dtype-fixed",
                    f"{_told(case)} input and weights are of type "
                    f"{wanted.dtype}, and the {name} are of type {got.dtype}. "
                    "New tensors should take the input's type.",
                )


def _check_traces(fn, case):
    """The caller's tensors and model stay, and nothing is drawn or kept."""
    att, *tensors = case
    on_att = partial(fn, att)
    with left_alone(att):
        again = attempt(on_att, *tensors)
    if again.changed:
        raise Mistake(
            "input-overwritten",
            f"{_told(case)} after the call, the caller's own tensors have "
            "changed. Join what is kept and what is new in a new tensor.",
        )
    if draws(attempt, on_att, *tensors):
        raise Mistake(
            "generator-used",
            "The values are right, but a call draws random numbers or sets a "
            "seed. Attention in evaluation mode needs neither.",
        )
    for outcome in (again, attempt(on_att, *tensors)):
        if not _alike(outcome, Outcome(attend(*case), None, False)):
            raise Mistake(
                "not-repeatable",
                f"{_told(case)} the first call was right, and a later one "
                "with the same input gives something else. What is kept from "
                "one call to the next?",
            )


@exercise(
    "With a single new token nothing had to be hidden. Now draw the table of "
    "scores for three kept and two new tokens: two rows, five columns. Which "
    "of the ten fields must the softmax not see?",
    "Start from the function for one token. Its lines work for several, "
    "except that the scores, (batch, heads, new, kept + new), need a mask "
    "before the softmax: row r may see the kept tokens and new ones up to "
    "itself.",
    "torch.ones(new, seen, dtype=torch.bool).triu(d) is True where column − "
    "row ≥ d. Row 0 is the first new token, and its first hidden column is "
    "number kept + 1. Fill these scores with -torch.inf.",
    task=CACHED,
)
def cached_attention(fn):
    """Any number of new tokens after any number of kept ones."""
    cases = _cases()
    check_signature(fn, *cases[0], call=CALL)
    triples = _tried(fn, cases)
    for case, outcome, right in triples:
        if _alike(outcome, Outcome(right, None, False)):
            continue
        if outcome.error is None and not outcome.result[0].isfinite().any():
            found = ()  # whatever else is wrong fits nan too
        else:
            found = CACHED.explain(partial(_fits, triples))
        if outcome.error is not None and not found:
            raise outcome.error
        words = ("", "")
        if not found:
            words = _otherwise(fn, case, outcome, right, case is cases[0])
        blame(found, _seen(case, outcome, right), *words)
    _check_types(triples)
    _check_traces(fn, cases[0])
    return (
        "one to five new tokens after none to six kept ones get the context "
        "vectors of the whole module, each looks back only, and the keys and "
        "values come back longer. A whole prompt can now be read in one call."
    )
