"""Checks of notebook 08: the greedy loop, its end, unequal prompts."""

from functools import partial
from typing import NamedTuple

import torch
from torch import nn

from classroom.checks.data_path import TINY
from classroom.checks.edits import BODY, Task, known
from classroom.checks.functions import (
    alike,
    attempt,
    check_signature,
    draws,
    equal,
    judge,
    left_alone,
    returned,
)
from classroom.checks.guard import exercise
from classroom.checks.result import Mistake
from classroom.checks.tensors import expect_tensor
from gptlib.model import GPTModel

VOCAB, GPT2_VOCAB, STATES = 29, 50257, 97
MOST_CALLS, MOST_TOKENS = 300, 2000
MODE_REMARK = (
    " One remark: a model in training mode comes back in evaluation mode. A "
    "caller who goes on training has to know that."
)
SINGLY_REMARK = (
    " One remark: yours calls the model once for each prompt. With padding, "
    "one call for each new token serves all of them."
)


# --- the solutions, and what mistakes make of them -----------------------


def greedy(model, idx, max_new_tokens, context_size):
    for _ in range(max_new_tokens):
        context = idx[:, -context_size:]
        with torch.no_grad():
            logits = model(context)
        new = logits[:, -1].argmax(-1, keepdim=True)
        idx = torch.cat((idx, new), dim=1)
    return idx


def greedy_until(model, idx, max_new_tokens, context_size, end_id):
    for _ in range(max_new_tokens):
        context = idx[:, -context_size:]
        with torch.no_grad():
            logits = model(context)
        new = logits[:, -1].argmax(-1, keepdim=True)
        idx = torch.cat((idx, new), dim=1)
        if (new == end_id).all():
            break
    return idx


def greedy_rows(model, prompts, max_new_tokens, context_size):
    rows = [list(prompt) for prompt in prompts]
    for _ in range(max_new_tokens):
        contexts = [row[-context_size:] for row in rows]
        longest = max(len(context) for context in contexts)
        padded = [c + [0] * (longest - len(c)) for c in contexts]
        with torch.no_grad():
            logits = model(torch.tensor(padded))
        for row, context, scores in zip(rows, contexts, logits, strict=True):
            row.append(scores[len(context) - 1].argmax().item())
    return rows


CROP = "idx[:, -context_size:]"
PICK = "logits[:, -1].argmax(-1, keepdim=True)"
ROUNDS = "range(max_new_tokens)"
PROMPT = {"for _": "prompt = idx\nfor _"}
CROP_FIRST = {"for _": f"idx = {CROP}\nfor _"}
INTO_BUFFER = """
tokens = idx.shape[1]
idx = nn.functional.pad(idx, (0, max_new_tokens))
for i in range(tokens, idx.shape[1]):
    logits = model(idx[:, i - context_size : i])
    idx[:, i] = logits[:, -1].argmax(-1)
return idx
"""


def _instead(old, *news):
    """One edit for each text that can stand in the place of `old`."""
    return [{old: new} for new in news]


COMMON = [
    known("first-window-kept",
          "This fits a model that reads the first tokens of a long text: "
          "which end of it matters for what comes next?",
          {"-context_size:": ":context_size"}),
    known("argmin", "This fits the least probable token.",
          {"argmax": "argmin"}),
]  # fmt: skip
COUNT = [
    known("one-token-too-many",
          "This fits one token more than asked for: count the rounds.",
          {ROUNDS: "range(max_new_tokens + 1)"}),
    known("one-token-too-few",
          "This fits one token less than asked for: count the rounds.",
          {ROUNDS: "range(max_new_tokens - 1)"}),
    known("returns-too-early",
          "This fits a single round: where does the return stand?",
          {ROUNDS: "range(1)"}),
]  # fmt: skip
LOOP = [
    *COMMON,
    known("not-cropped",
          "This fits an input that grows past context_size, where a real "
          "model fails: what do you hand over in each round?",
          *_instead(CROP, "idx", "idx[-context_size:]"),
          {"-context_size:": "max(0, prompt.shape[1] - context_size):",
           **PROMPT}),
    known("crop-off-by-one",
          "This fits a window of one token too many or too few: expected the "
          "last context_size tokens, up to the very last.",
          *_instead(CROP, "idx[:, -(context_size - 1):]",
                    "idx[:, -(context_size + 1):]", "idx[:, -context_size:-1]",
                    "idx[:, :-1][:, -context_size:]")),
    known("crop-inverted",
          "This fits a crop that keeps what should go: which tokens does "
          "your slice leave?",
          *_instead("-context_size:", "context_size:", ":-context_size")),
    known("crop-start-negative",
          "This fits a slice whose start is negative while the text is "
          "shorter than context_size: that counts from the end.",
          {"-context_size:": "idx.shape[1] - context_size:"},
          {BODY: INTO_BUFFER}),
    known("reads-last-token-only",
          "This fits a model that reads the last token alone and knows "
          "nothing of the text before it.",
          {"-context_size:": "-1:"}),
    known("context-not-grown",
          "This fits rounds that all read the prompt alone, so that one token "
          "comes again and again: what should they read?",
          {CROP: "prompt", **PROMPT},
          {CROP: "prompt[:, -context_size:]", **PROMPT}),
    known("all-positions",
          "This fits a text that grows by a whole window in a round: which "
          "position of the logits says what follows?",
          {PICK: "logits.argmax(-1)"}),
    known("not-last-position",
          "This fits a choice from other logits than those of the one "
          "position that has read all of the text.",
          *_instead("[:, -1]", "[:, 0]", "[:, -2]", "[:, len(idx) - 1]",
                    "[:, context_size - 1]", "[:, logits.shape[1] // 2]",
                    ".mean(1)", ".amax(1)")),
    known("position-of-whole-text",
          "This fits a position that is counted in the whole text: the model "
          "has read the window only, and answers for its positions.",
          {"[:, -1]": "[:, idx.shape[1] - 1]"}),
    known("flattened",
          "This fits an argmax over several axes as if they were one row: a "
          "place among all numbers is no token's id.",
          *_instead(PICK, "logits.argmax().reshape(1, 1)", "logits.argmax()",
                    "logits.flatten(1).argmax(1, keepdim=True)")),
    known("keepdim-missing",
          "The new ids need as many axes as idx to be joined to it, "
          "(batch, 1): how many has your argmax result?",
          {", keepdim=True": ""}, {"[:, -1]": "[:, -1:]"}),
    known("wrong-axis",
          "This fits an argmax over another axis of the logits, (batch, "
          "tokens, vocab): which one holds the scores of one choice?",
          {"argmax(-1": "argmax(0"},
          *_instead("[:, -1]", "[:, :, -1]", "[-1]"),
          *_instead(PICK, "logits[:, -1].argmax(0).unsqueeze(-1)",
                    "logits.argmax(1)", "logits.argmax(1)[:, -1:]",
                    "logits.argmax(1)[:, :1]", "logits.argmax(0)",
                    "logits.argmax(0, keepdim=True)[:, -1]")),
    known("softmax-wrong-axis",
          "This fits a softmax over another axis, which changes what is "
          "largest: on which axis is the vocabulary?",
          *_instead("logits[:, -1]", "logits[:, -1].softmax(0)",
                    "logits.softmax(1)[:, -1]")),
    known("values-not-ids",
          "This fits the largest value itself; asked is its place in the "
          "vocabulary.",
          *_instead("argmax", "amax", "softmax(-1).amax")),
    known("several-ids",
          "This fits several candidates that are appended in one round; only "
          "the best one goes on.",
          *_instead(PICK, *(f"logits[:, -1].topk({k}).indices"
                            for k in (2, 3, 5)))),
    known("second-best", "This fits the second most probable token.",
          {PICK: "logits[:, -1].topk(2).indices[:, 1:]"}),
    known("prepended",
          "This fits new tokens that stand before the text.",
          {"(idx, new)": "(new, idx)"}),
    known("joined-on-wrong-axis",
          "This fits new tokens that are joined as further rows: which axis "
          "is that of the tokens?",
          {"dim=1": "dim=0"}),
    known("last-token-overwritten",
          "This fits new tokens that each replace the one before.",
          {"(idx, new)": "(idx[:, :-1], new)"}),
    known("window-slid",
          "This fits a text that loses a token at the front for each one "
          "that is appended.",
          {"(idx, new)": "(idx[:, 1:], new)"}),
    known("text-replaced",
          "This fits rounds after which nothing is left but the new token.",
          {"torch.cat((idx, new), dim=1)": "new"}),
    known("token-twice", "This fits new tokens that are appended twice.",
          {"(idx, new)": "(idx, new, new)"}),
    *COUNT,
    known("prompt-counted",
          "This fits a max_new_tokens that counts the prompt's tokens, too.",
          {ROUNDS: "range(max_new_tokens - idx.shape[1])"}),
    known("stops-at-context",
          "This fits a text that ends at context_size: that limits what the "
          "model reads, and the text may grow past it.",
          *_instead(ROUNDS, *(f"range(min(max_new_tokens, {most}))" for most in
                              ("context_size - idx.shape[1]",
                               "context_size - idx.shape[1] + 1",
                               "max(1, context_size - idx.shape[1])")))),
    known("rounds-from-context",
          "This fits as many rounds as context_size says; asked are "
          "max_new_tokens.",
          {ROUNDS: "range(context_size)"}),
    known("prompt-missing",
          "This fits the new tokens alone: expected the prompt, followed by "
          "them.",
          {"return idx": "return idx[:, prompt.shape[1]:]", **PROMPT}),
    known("last-token-only",
          "This fits the last token alone: expected the whole text.",
          {"return idx": "return idx[:, -1:]"}),
    known("prompt-cropped",
          "This fits a text of which a part is gone: crop what the model "
          "reads, not what you return.",
          {"return idx": "return idx[:, -context_size:]"},
          {"context =": "context = idx ="},
          CROP_FIRST, {CROP: "idx", **CROP_FIRST}),
    known("batch-axis-lost",
          "This fits a result without the batch axis: expected the shape "
          "(batch, tokens), also for one row.",
          *_instead("return idx", "return idx[0]", "return idx.squeeze(0)",
                    "return idx.flatten()")),
    known("prompt-twice", "This fits a prompt that comes twice.",
          {"return idx": "return torch.cat((prompt, idx), dim=1)", **PROMPT}),
    known("float-ids",
          "The values are right, but their type is float: ids are whole "
          "numbers.",
          {"return idx": "return idx.float()"}),
]  # fmt: skip
# Seen with several rows only.
LOOP_ROWS = [
    known("batch-ignored",
          "This fits a choice for one row only: every row of the batch "
          "chooses a token of its own, in the shape (batch, 1).",
          {"logits[:, -1]": "logits[:1, -1]"},
          *_instead(PICK, "logits[0, -1].argmax().expand(len(idx), 1)",
                    "logits[-1, -1].argmax().expand(len(idx), 1)",
                    "torch.tensor([[logits[:, -1].argmax(-1).item()]])"),
          {"return idx": "return idx[:1]"}),
    known("wrong-axis",
          "This fits logits of the last row: which axis is that of positions?",
          {PICK: "logits[-1:].argmax(-1)"}),
    known("flattened",
          "This fits an argmax over all rows as if they were one.",
          *_instead(PICK, "logits.argmax().expand(len(idx), 1)",
                    "logits[:, -1].argmax().expand(len(idx), 1)")),
]  # fmt: skip
STOP = "(new == end_id).all()"
LOOP_END = [
    known("never-stops",
          "This fits a loop that goes on after end_id: which value do you "
          "compare with it, and does the loop end then?",
          {STOP: "False"}),
    known("end-id-hardcoded",
          "This fits a comparison with another number than `end_id`, the "
          "same in every call.",
          *_instead("== end_id", "== 50256", "== 0")),
    known("end-dropped",
          "This fits a result without the end token, which should stay: look "
          "at the order of stopping and appending.",
          {"idx = torch": f"if {STOP}:\n        break\n    idx = torch"}),
    known("prompt-stops",
          "This fits a loop that an end_id inside the prompt stops, too: "
          "only a new token may.",
          {STOP: "end_id in idx"},
          {STOP: "False",
           "context =": "if end_id in idx:\n        break\n    context ="},
          {STOP: "False", "context =":
           "if idx[0, -1] == end_id:\n        break\n    context ="},
          {STOP: f"end_id in prompt or {STOP}", **PROMPT},
          {"idx = torch": "if end_id in idx:\n        break\n    idx = torch"},
          {**PROMPT, "context =":
           "if end_id in prompt:\n        break\n    context ="}),
    known("one-past-end",
          "This fits one more token after end_id.",
          {STOP: "idx[0, -2] == end_id"},
          {STOP: "end_id in idx[:, prompt.shape[1]:-1]", **PROMPT}),
    known("stop-inverted",
          "This fits a loop that ends at a token that is *not* end_id.",
          {"== end_id": "!= end_id"}),
]  # fmt: skip

FILL = "c + [0] * (longest - len(c))"
PLACE = "len(context) - 1"
MOST = "max(map(len, prompts))"
START_RIGHT = {"list(prompt)": f"prompt + [0] * ({MOST} - len(prompt))"}
START_LEFT = {"list(prompt)": f"[0] * ({MOST} - len(prompt)) + prompt"}


def _gives_rows(row):
    return {"return rows": f"most = {MOST}\nreturn [{row} "
            "for row, p in zip(rows, prompts, strict=True)]"}  # fmt: skip


BATCH = [
    known("padding-kept",
          "This fits padding in the lists that come back; it belongs to the "
          "model's input alone.",
          START_LEFT, START_RIGHT,
          _gives_rows("row + [0] * (most - len(p))"),
          _gives_rows("[0] * (most - len(p)) + row"),
          _gives_rows("row[:len(p)] + [0] * (most - len(p)) + row[len(p):]")),
    known("padded-left",
          "This fits padding on the left, which moves a shorter prompt to "
          "other positions; and its tokens look at the padding.",
          {FILL: "[0] * (longest - len(c)) + c", PLACE: "-1"},
          START_LEFT | _gives_rows("row[most - len(p):]")),
    known("reads-padding",
          "This fits a shorter prompt that goes on from its padding: where, "
          "in the padded row, stands its last real token?",
          {PLACE: "-1"},
          START_RIGHT | _gives_rows("row[:len(p)] + row[most:]")),
    known("padding-by-id",
          "This fits padding that is told by its id, 0, which can be a real "
          "token too. What else tells where a prompt ends?",
          {PLACE: "sum(i != 0 for i in context) - 1"},
          _gives_rows("[i for i in row if i != 0]")),
    known("cut-to-shortest",
          "This fits a longer prompt that has lost tokens: none may be cut "
          "to the length of the shortest.",
          *_instead("list(prompt)", "prompt[: min(map(len, prompts))]",
                    "prompt[-min(map(len, prompts)) :]")),
    known("lengths-evened",
          "This fits rows that have been brought to one length: each prompt "
          "gets max_new_tokens new ids, however long it is.",
          {ROUNDS: f"range(max_new_tokens + {MOST})",
           **_gives_rows("row[: max_new_tokens + most]")},
          _gives_rows("row[: max(max_new_tokens, len(p))]"),
          _gives_rows("row[:most]")),
    known("cropped-after-padding",
          "This fits a crop of the padded rows: each row has a last "
          "context_size tokens of its own.",
          *({"[-context_size:]": "", PLACE: place,
             "(padded)": "([row[-context_size:] for row in padded])"}
            for place in ("-1", "min(len(context), len(scores)) - 1"))),
    *COMMON,
    known("not-cropped",
          "This fits a model's input that grows past context_size, where a "
          "real model fails.",
          {"[-context_size:]": ""}),
    known("crop-off-by-one",
          "This fits a window of one token too many or too few for a long "
          "row.",
          *_instead("-context_size:",
                    "-context_size - 1:", "-context_size + 1:")),
    known("not-last-position",
          "This fits a choice from another position than that of a row's "
          "last real token. Indexes begin at 0.",
          *_instead(PLACE, "len(context) - 2", "0", "len(context)",
                    "min(len(context), longest - 1)")),
    known("position-of-whole-text",
          "This fits a position that is counted in the whole row: the model "
          "has read its window only.",
          {PLACE: "len(row) - 1"}),
    known("not-padded",
          "A tensor is a rectangle: rows of unequal length must be padded or "
          "run one by one.",
          {FILL: "c"}, {"rows =": "torch.tensor(prompts)\nrows ="}),
    *COUNT,
    known("prompt-missing",
          "This fits new ids without their prompt: expected each prompt, "
          "followed by them.",
          _gives_rows("row[len(p):]"), _gives_rows("row[most:]")),
]  # fmt: skip


GENERATE = Task(greedy, LOOP + LOOP_ROWS, lambda solve: solve)
STOP_AT_END = Task(greedy_until, LOOP_END + LOOP, lambda solve: solve)
BATCH_PROMPTS = Task(greedy_rows, BATCH, lambda solve: solve)


# --- models whose next token is known --------------------------------------


class Call(NamedTuple):
    """What a model was given, and whether it kept what a gradient needs."""

    ids: torch.Tensor
    with_grad: bool


class Scripted(nn.Module):
    """Stands in for a GPT: cheap, causal, and it notes how it is called.

    A position's logits depend on every token up to it and on where each
    stands, so that another window gives another next token. Windows of any
    length and ids of any size pass: what a mistake leads to shall be seen.

    Args:
        following: if given, a model with GPT-2's vocabulary, whose next
            token depends on the number of tokens alone: after n tokens,
            number n of these, which repeat.
    """

    def __init__(self, *following):
        super().__init__()
        chance = torch.Generator().manual_seed(3)
        places = torch.arange(1, MOST_TOKENS + 1)
        self.factors = self.summands = places**2 + places
        self.table = torch.rand(STATES, VOCAB, generator=chance)
        if following:
            self.factors, self.summands = places * 0, places * 0 + 1
            best = nn.functional.one_hot(torch.tensor(following), GPT2_VOCAB)
            self.table = 2 * best + torch.linspace(0, 1, GPT2_VOCAB)
        # What answers may read of a model: its sizes and its device.
        self.tok_emb = nn.Embedding(self.table.shape[1], 1)
        self.pos_emb = nn.Embedding(MOST_TOKENS, 1)
        self.out_head = nn.Linear(1, self.table.shape[1], bias=False)
        self.gain = nn.Parameter(torch.ones(1))  # for the gradient
        self.drop = nn.Dropout(0.5)  # has a mode of its own, like GPT's
        self.calls = []
        self.eval()

    def __deepcopy__(self, memo):
        """Each attempt gets copies; of a model, itself with a new count."""
        self.calls = []
        return self

    @property
    def trf_blocks(self):
        raise Mistake(
            "model-taken-apart",
            "Your code reads model.trf_blocks. `model` can be anything that "
            "maps ids to logits: call it, and leave its parts alone.",
        )

    def forward(self, in_idx):
        if in_idx.dim() != 2 or 0 in in_idx.shape:
            raise ValueError(
                "the model expects ids of shape (batch, tokens), got "
                f"{tuple(in_idx.shape)}"
            )
        tokens = in_idx.shape[1]
        if tokens > MOST_TOKENS:
            raise Mistake(
                "not-cropped",
                f"The model's input has grown to {tokens} tokens, for a few "
                "new ones: crop it, and look at the shape of what each round "
                "appends.",
            )
        if len(self.calls) == MOST_CALLS:
            raise Mistake(
                "max-new-tokens-ignored",
                f"Your loop called the model {MOST_CALLS} times for a few "
                "new tokens and would go on. What ends it?",
            )
        self.calls.append(Call(in_idx, torch.is_grad_enabled()))
        steps = in_idx.long() * self.factors[:tokens] + self.summands[:tokens]
        states = steps.cumsum(1) % len(self.table)
        return self.table[states] * self.gain  # (batch, tokens, vocab)


# --- what an answer does besides its result --------------------------------


def _watch(answer, task, cases):
    """The calls of the model, case by case; what no result shows is raised."""
    calls, outcomes = [], []
    for case in cases:
        right = attempt(task.solution, *case).result
        outcome = attempt(partial(returned, answer), *case)
        calls.append(case[0].calls)
        outcomes.append(outcome)
        if outcome.changed:
            raise Mistake(
                "input-overwritten",
                f"{_shown(case)}: after the call, the caller's own prompt "
                "has changed. Put the result into a tensor or lists of its "
                "own.",
            )
        if outcome.error is not None:
            continue
        if isinstance(right, list):
            _expect_lists(outcome.result, right, case)
        elif not isinstance(outcome.result, torch.Tensor):
            where = f"{_shown(case)}, your result"
            expect_tensor(outcome.result, right.shape, where)
    _check_repeatable(answer, cases[0], outcomes[0])
    return calls


def _check_repeatable(answer, case, first):
    """Other calls in between change nothing; who draws is told elsewhere."""
    second = attempt(answer, *case)
    if alike(first, second) or draws(attempt, answer, *case):
        return
    results = [_short(outcome.result) for outcome in (first, second)]
    raise Mistake(
        "not-repeatable",
        f"{_shown(case)} came {results[0]} at first, and {results[1]} after "
        "calls with other prompts. Is something random, or kept from one "
        "call to the next, as a default argument or a global name is?",
    )


def _expect_lists(result, right, case):
    """What comes back is a list of lists of int, one for each prompt."""
    rows = result if isinstance(result, list) else []
    other = {type(row).__name__ for row in rows} - {"list"}
    inner = {type(i).__name__ for row in rows if not other for i in row}
    kinds = [
        ("not-lists", not isinstance(result, list),
         f"came an object of type {type(result).__name__}."),
        ("not-lists", other, f"came a list of {' and '.join(sorted(other))}."),
        ("ids-are-tensors", "Tensor" in inner,
         "the new ids in the lists are tensors."),
        ("nested-too-deep", "list" in inner,
         f"came {_short(result)}, one level too deep."),
        ("ids-not-int", inner - {"int"},
         f"came ids of type {' and '.join(sorted(inner))}."),
        ("rows-missing", len(rows) != len(right), f"came {len(rows)} rows."),
    ]  # fmt: skip
    for name, holds, says in kinds:
        if holds:
            raise Mistake(
                name,
                f"{_shown(case)} {says} Expected a list of {len(right)} "
                f"lists of ids, {_short(right)}.",
            )


def _check_calls(cases, calls_of_cases):
    """The ids are right; would a real model have taken the input?"""
    for case, calls in zip(cases, calls_of_cases, strict=True):
        if any(call.with_grad for call in calls):
            raise Mistake(
                "gradient-kept",
                "The ids are right, but the model ran with gradients "
                "switched on and kept all intermediate results: generating "
                "needs none of them. Memory would grow for nothing.",
            )
        longest = _longest(calls)
        if longest > case[3]:
            raise Mistake(
                "not-cropped",
                f"The ids are right, but the model was given {longest} tokens "
                f"at once with context_size={case[3]}, padding included. A "
                "real model fails there.",
            )
        last = case[0].tok_emb.num_embeddings - 1
        for i in (int(i) for call in calls for i in call.ids.aminmax()):
            if not 0 <= i <= last:
                raise Mistake(
                    "padding-outside-vocabulary",
                    f"The ids are right, but the model was given the id {i}, "
                    f"and its vocabulary has the ids 0 to {last}. A real "
                    "model fails there.",
                )


def _longest(calls):
    return max((call.ids.shape[1] for call in calls), default=0)


def _check_nothing_new(answer, case):
    model, prompt, _, *others = case
    result, error, _ = attempt(answer, model, prompt, 0, *others)
    # Joining an empty list fails: no reason to refuse an answer.
    if error is None and not equal(result, prompt):
        raise Mistake(
            "one-token-too-many",
            f"{_shown((model, prompt, 0, *others))} came {_short(result)}; "
            "expected the prompt alone.",
        )


def _check_end(outcomes, cases, calls_of_cases):
    """The loop itself ends: its result is not cut afterwards."""
    for case, calls, outcome in zip(
        cases, calls_of_cases, outcomes, strict=True
    ):
        new = outcome.result.shape[1] - case[1].shape[1]
        if len(calls) > new:
            raise Mistake(
                "runs-on-after-end",
                f"{_shown(case)}, the ids are right, but the model was called "
                f"{len(calls)} times for {new} new tokens. Asked is to return "
                "as soon as end_id is appended: does your loop end there?",
            )


def _check_traces(answer, case):
    """A call leaves nothing behind; returns a remark for the praise."""
    with torch.no_grad():
        attempt(answer, *case)  # gradients that are off stay off
    if draws(attempt, answer, *case):
        raise Mistake(
            "generator-used",
            "The ids are right, but your function draws random numbers or "
            "sets a seed. Greedy choice needs neither, and the caller's "
            "own random numbers become others.",
        )
    model = case[0].train()
    # Who refuses a model in training mode leaves it alone, too.
    attempt(answer, *case)
    remark = "" if model.training else MODE_REMARK
    model.eval()
    return remark


def _check_on_gpt(answer, task, *args):
    """A real model goes on rightly, for long, and is left as it was."""
    torch.manual_seed(123)
    model = GPTModel(TINY).eval()
    right = attempt(partial(task.solution, model), *args)
    with left_alone(model):
        outcome = attempt(partial(answer, model), *args)
    if outcome.error is not None:
        raise outcome.error
    if alike(outcome, right):
        return
    name, says = _kind(outcome.result, right.result, args[0])
    if draws(attempt, partial(answer, model), *args):
        name = "dropout-in-evaluation"
        says = "Random numbers are drawn: by its dropout, or for a token?"
    told = _seen((model, *args), outcome, right)
    raise Mistake(name, f"{told} The model is a tiny GPT. {says}")


# --- words -----------------------------------------------------------------


def _shown(case):
    _, prompt, n, size, *end = case
    name = "prompts" if isinstance(prompt, list) else "idx"
    sizes = f"max_new_tokens={n}, context_size={size}"
    return ", ".join(
        [f"With {name} {_short(prompt)}", sizes, *(f"end_id={i}" for i in end)]
    )


def _short(value):
    value = value.tolist() if isinstance(value, torch.Tensor) else value
    text = str(value)
    if len(text) < 70:
        return text
    start, end = text[:44].rpartition(" ")[0], text[-28:].partition(" ")[2]
    return f"{start} … {end}"  # no number is cut in two


def _seen(case, outcome, right):
    came = _short(outcome.result)
    if outcome.error is not None:
        what = str(outcome.error).split("\n")[0]
        came = f"{type(outcome.error).__name__} ({what})"
    return f"{_shown(case)} came {came}; expected {_short(right.result)}."


def _otherwise(answer, case, outcome, right):
    """No known mistake: say what kind of difference it is."""
    if draws(attempt, answer, *case):
        return "samples", (
            "Your function draws random numbers or sets a seed: is a token "
            "drawn? Greedy choice takes the most probable one, always."
        )
    longest = _longest(case[0].calls)
    if longest > case[3]:
        return "not-cropped", (
            f"The model was given {longest} tokens at once, more than "
            "context_size."
        )
    return _kind(outcome.result, right.result, case[1])


def _kind(result, right, prompt):
    """The first kind of difference that there is: its name and words."""
    tell = _kinds_of_rows if isinstance(right, list) else _kinds_of_ids
    kinds = tell(result, right, prompt)
    return next((name, says) for name, holds, says in kinds if holds)


def _kinds_of_ids(ids, right, prompt):
    """(name, whether it is this one, what to say), the last always is."""
    if ids.dim() != 2 or len(ids) != len(right):
        shape, expected = tuple(ids.shape), tuple(right.shape)
        says = f"The shape is {shape}; expected {expected}."
        return [("wrong-shape", True, says)]
    ids = ids.long()
    tokens, total, wanted = prompt.shape[1], ids.shape[1], right.shape[1]
    count = f"New tokens: {total - tokens}; expected {wanted - tokens}."
    return [
        ("prompt-changed", not equal(ids[:, :tokens], prompt),
         "The prompt should come first, as is."),
        ("stops-early", equal(ids, right[:, :total]),
         f"{count} What ends your loop?"),
        ("stops-late", equal(ids[:, :wanted], right),
         f"{count} What should end your loop there?"),
        ("wrong-length", total != wanted, count),
        ("wrong-values", True,
         "Follow one round by hand: window, last position, largest logit."),
    ]  # fmt: skip


def _kinds_of_rows(rows, right, prompts):
    """The same for lists."""
    starts = [r[: len(p)] for r, p in zip(rows, prompts, strict=True)]
    return [
        ("rows-reordered", sorted(rows) == sorted(right),
         "The rows come in another order than the prompts."),
        ("prompt-changed", starts != prompts,
         "Each row should begin with its prompt, as is."),
        ("wrong-length", list(map(len, rows)) != list(map(len, right)),
         f"The rows have lengths {[len(row) for row in rows]}; expected "
         f"{[len(row) for row in right]}."),
        ("wrong-values", True,
         "Run each prompt alone and compare: from which round on do they "
         "differ?"),
    ]  # fmt: skip


# --- the exercises ---------------------------------------------------------

GENERATE_CASES = [
    ([[17, 4]], 1, 8),
    ([[3, 14, 8]], 6, 8),  # the window fills up on the way
    ([[5, 1, 20, 7, 7, 0, 11], [2, 9, 28, 4, 13, 6, 1],
      [8, 8, 3, 19, 0, 5, 26]], 5, 4),  # longer than the context
    ([[12]], 3, 8),  # a single token
    ([[17, 2, 9, 23, 4], [1, 0, 12, 12, 25]], 6, 8),
    ([[6, 21], [10, 3]], 3, 1),
    ([[10, 3], [25, 18], [10, 3], [7, 7]], 4, 8),  # equal prompts
]  # fmt: skip
FOUR, SEVEN = [[4, 9, 2, 17]], [[1, 5, 8, 3, 22, 6, 10]]
STOP_CASES = [
    (FOUR, 1, 8, 20),  # a single one, and so quick
    (FOUR, 8, 8, 20),  # the third new token
    (FOUR, 8, 8, 12),  # the first
    (FOUR, 8, 8, 50256),  # never comes
    (FOUR, 8, 8, 9),  # stands in the prompt
    (FOUR, 8, 8, 17),  # is the prompt's last token
    (FOUR, 3, 8, 20),  # the last one allowed
    (SEVEN, 6, 4, 26),
    (SEVEN, 6, 4, 5),  # in the prompt and the last new one
    (FOUR, 3, 1, 50256),
]
BATCH_CASES = [
    ([[5, 7, 11, 13], [21, 4]], 4, 16),
    ([[2, 9], [17, 3, 25, 1, 8]], 5, 16),
    ([[6, 14, 0], [0, 3, 19, 22, 0, 0], [12]], 3, 16),  # 0 is a real token
    ([[1, 5, 8, 3, 22, 6, 10], [4, 26]], 4, 4),  # longer than the context
    ([[20, 2, 7], [9, 1, 1]], 2, 8),
    # Equal prompts, and one that another becomes.
    ([[4, 26], [11, 5, 2], [4, 26], [4, 26, 28]], 3, 8),
    ([[16, 23]], 2, 8),
]
# Tokens that some loops take for an end, and an end_id for each.
ENDS = 4, 9, 9, 0, 0, 50256, 4, 12, 4
LISTED_CASES = [
    ([[4, 18, 2]], 7, 16, 50256),
    ([[4, 18, 2]], 7, 16, 12),
    ([[4, 18, 2]], 5, 16, 0),
]


def _tensors(model, cases):
    """With ids that come out of a transpose: not in order in memory."""
    return [
        (model, torch.tensor(ids).T.contiguous().T, *others)
        for ids, *others in cases
    ]


@exercise(
    "Go round by round: what does the model read, which of its outputs says "
    "what comes next, and where does the new token go?",
    "In each round: the last context_size tokens go through the model without "
    "gradients; take the last position's logits, the index of the largest in "
    "each row, and join it to the text on the token axis.",
    "The window is idx[:, -context_size:], the scores are logits[:, -1, :], "
    "and argmax needs dim=-1 and keepdim=True so that torch.cat can join "
    "(batch, 1) to (batch, tokens) with dim=1.",
    task=GENERATE,
)
def generate(fn):
    """Greedy ids for one and several rows, short and long texts."""
    cases = _tensors(Scripted(), GENERATE_CASES)
    cases += _tensors(Scripted(*ENDS), [([[4, 18, 2]], 7, 16)])
    call = "my_generate(model, idx, max_new_tokens, context_size)"
    check_signature(fn, *cases[0], call=call)
    calls = _watch(fn, GENERATE, cases)
    judge(fn, GENERATE, cases, _seen, partial(_otherwise, fn))
    _check_calls(cases, calls)
    _check_nothing_new(fn, cases[4])
    _check_on_gpt(fn, GENERATE, torch.tensor([[5, 7, 11, 13]]), 40, 16)
    return (
        "one to four rows go on token by token as expected, past the context "
        "size too: prompt first, then exactly max_new_tokens, without "
        "gradients, and prompt and weights are left as they were."
    ) + _check_traces(fn, cases[0])


@exercise(
    "Compare the new token with end_id in each round. Where must the "
    "comparison stand so that end_id is part of the result?",
    "Start from your greedy loop. After the new token is appended, look at "
    "it alone, not at the whole text, and leave the loop if it is end_id.",
    "`idx_next` has the shape (1, 1): `idx_next.item()` is the number to "
    "compare, and `break` leaves the loop, after torch.cat.",
    task=STOP_AT_END,
)
def stop_at_end(fn):
    """Nothing follows a generated end_id, which stays."""
    cases = _tensors(Scripted(), STOP_CASES)
    cases += _tensors(Scripted(*ENDS), LISTED_CASES)
    call = (
        "my_generate_until(model, idx, max_new_tokens, context_size, end_id)"
    )
    check_signature(fn, *cases[0], call=call)
    calls = _watch(fn, STOP_AT_END, cases)
    outcomes = judge(fn, STOP_AT_END, cases, _seen, partial(_otherwise, fn))
    _check_calls(cases, calls)
    _check_end(outcomes, cases, calls)
    _check_nothing_new(fn, cases[0])
    for end_id in (87, 50256):  # the fourth new token, and none
        idx = torch.tensor([[5, 7, 11, 13]])
        _check_on_gpt(fn, STOP_AT_END, idx, 40, 16, end_id)
    return (
        "the text ends with the first new end_id, at the latest after "
        "max_new_tokens; an end_id in the prompt stops nothing, and another "
        "end_id works as well. With end_id=87 the tiny model gives four new "
        "tokens."
    ) + _check_traces(fn, cases[0])


@exercise(
    "Serve one prompt at a time first: its ids are the ones to reach. Then "
    "ask what padding on the right does to the position that you read.",
    "Keep a list for each prompt. In each round: crop every row to its own "
    "last context_size ids, pad on the right to equal length, run the model "
    "once, and append one id to each row.",
    "For a row whose cropped context has `length` ids, the scores are "
    "`logits[row, length - 1]`; append `.argmax().item()` to a copy of the "
    "prompt's list.",
    task=BATCH_PROMPTS,
)
def batch_prompts(fn):
    """Each prompt goes on as if it were alone; lists in, lists out."""
    cases = [(Scripted(), *case) for case in BATCH_CASES]
    cases += [(Scripted(*ENDS), [[4, 18, 2], [7, 1, 5]], 7, 16)]
    call = "my_generate_batch(model, prompts, max_new_tokens, context_size)"
    check_signature(fn, *cases[0], call=call)
    calls = _watch(fn, BATCH_PROMPTS, cases)
    judge(fn, BATCH_PROMPTS, cases, _seen, partial(_otherwise, fn))
    _check_calls(cases, calls)
    _check_nothing_new(fn, cases[0])
    _check_on_gpt(fn, BATCH_PROMPTS, [[5, 7, 11, 13], [21, 34]], 40, 16)
    remark = _check_traces(fn, cases[0])
    if any(len(call.ids) < len(cases[0][1]) for call in calls[0]):
        remark = SINGLY_REMARK + remark
    return (
        "one to four prompts each go on as if alone, in any order of "
        "lengths, past the context size too; no padding comes back, and "
        f"prompts and weights are left as they were.{remark}"
    )
