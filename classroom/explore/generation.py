"""Explorer 08: the loop of greedy generation, one round at a time."""

import functools
import weakref

import torch
from matplotlib.ticker import MaxNLocator
from torch.nn import functional as F

from classroom import plots
from classroom.explore.explorer import Explorer, slider, text
from classroom.explore.own import attempt, unlike
from classroom.explore.tokens import short_token, token_text, whole_text
from classroom.picture import inches, styled, visible
from gptlib.cache import new_cache, read
from gptlib.inputs import check_token_ids
from gptlib.tokenizer import gpt2_tokenizer

ROUNDS = 8
CANDIDATES = 10
PROMPTS = 8  # remembered at most
MOST_TOKENS = 256  # of a prompt: a laptop reads them in a few seconds


def explore_generation(model, prompt="Hello, I am", generate=None):
    """How `model` goes on after a prompt, from any candidate of round 1.

    Rounds are computed when they are first asked for. The model is not held:
    an explorer on the page never keeps a second large model in memory.

    Args:
        model: a GPTModel in eval mode.
        prompt: the text to start with. A vocabulary too small for its tokens
            gets those of its letters that it knows.
        generate: your own function, such as `my_generate`, which is called
            as `generate(model, idx, max_new_tokens, context_size)`. What it
            appends is marked.

    Raises:
        ValueError: the model is in training mode, or the prompt is empty.
    """
    if any(module.training for module in model.modules()):
        raise ValueError(
            "The model is in training mode: dropout would change its choice "
            "from run to run; call model.eval() first."
        )
    continued = functools.lru_cache(maxsize=PROMPTS)(
        functools.partial(Continued, weakref.ref(model))
    )
    opening = continued(prompt)  # stays, whatever is typed
    own = functools.lru_cache(maxsize=4 * PROMPTS)(
        functools.partial(own_ids, weakref.ref(model), generate)
    )

    def draw(step, prompt_now, first=1):
        texts = opening if prompt_now == prompt else continued(prompt_now)
        chosen = first - 1 if step == 1 else 0
        found = texts.at(step, first)
        mark, words = _own_round(own, step, *found[:2])
        picture = _draw(step, chosen, *found, mark)
        picture.description += words
        return picture

    controls = {"step": slider("round of the loop", 1, 1, ROUNDS)}
    count = len(opening.at(1, 1)[1])
    if count > 1:
        label = "candidate taken in round 1"
        controls["first"] = slider(label, 1, 1, count)
    typed = controls["prompt_now"] = text("prompt, then Enter", prompt)
    typed.continuous_update = False  # a letter would take a pass of the model
    return Explorer(draw, controls)


def own_ids(alive, generate, start, rounds):
    """What a learner's loop makes of the IDs `start`, and why it cannot.

    Args:
        alive: gives the model (a weak reference).

    Returns:
        all IDs, or None; and a sentence.
    """
    model = alive()
    size = model.pos_emb.num_embeddings
    idx = torch.tensor([start], device=model.pos_emb.weight.device)
    own, words = attempt(
        generate, lambda part, idx: part(model, idx, rounds, size), idx
    )
    model.eval()  # whatever the learner's function did
    if own is None:
        return None, words
    wrong = unlike(own, (1, len(start) + rounds))
    if wrong:
        return None, f" Yours is not drawn: {wrong}."
    return own[0].tolist(), ""


class Continued:
    """A prompt, continued greedily from each of its likeliest next tokens.

    All of them are read as one batch, and keys and values are kept.

    Args:
        alive: gives the model, or None once it is gone (a weak reference).
        prompt: the text to start with.

    Raises:
        ValueError: the prompt is empty or too long, or the model is gone; so
            does `at`.
    """

    def __init__(self, alive, prompt):
        self._alive, self._cache, self._kept = alive, None, 0
        model = self._model()
        if not prompt:
            raise ValueError(
                "The prompt is empty: type one, since the model needs a token "
                "to go on from."
            )
        ids = prompt_ids(model, prompt)
        if len(ids) > MOST_TOKENS:
            raise ValueError(
                f"The prompt has {len(ids)} tokens; the explorer takes up to "
                f"{MOST_TOKENS}: shorten it."
            )
        check_token_ids(torch.tensor([ids]), model.tok_emb.num_embeddings)
        self._ids = torch.tensor([ids], device=model.pos_emb.weight.device)
        self._rounds = []
        self._candidates = self._round(model)[0]

    def at(self, step, first):
        """What round `step` reads and finds if round 1 takes number `first`.

        Returns:
            IDs read, the likeliest next IDs, their probabilities: lists.
        """
        while len(self._rounds) < step:
            model = self._model()
            if len(self._rounds) == 1:
                self._branch()
            best = self._round(model)[:, :1]
            self._ids = torch.cat((self._ids, best), dim=1)
        return self._rounds[step - 1][0 if step == 1 else first - 1]

    def _model(self):
        model = self._alive()
        if model is None:
            raise ValueError(
                "The model that this explorer read is no longer there: run "
                "the explorer's cell again for the present one."
            )
        return model

    @torch.inference_mode()
    def _branch(self):
        """From the one row, a row for each candidate that it may take."""
        count = len(self._candidates)
        new = self._candidates[:, None]
        self._ids = torch.cat((self._ids.repeat(count, 1), new), dim=1)
        self._cache = [
            F.pad(k, (0, 0, 0, ROUNDS)).repeat_interleave(count, dim=1)
            for k in self._cache
        ]

    @torch.inference_mode()
    def _round(self, model):
        """Note a round; returns its candidates, (rows, candidates)."""
        logits = self._read(model)  # (rows, vocab)
        top = logits.topk(min(CANDIDATES, logits.shape[1])).indices
        shares = logits.float().softmax(dim=-1).gather(1, top)
        lists = (found.tolist() for found in (self._ids, top, shares))
        self._rounds.append(list(zip(*lists, strict=True)))
        return top

    def _read(self, model):
        """Logits after each row: of what is new, or of a window that slid."""
        most, tokens = model.pos_emb.num_embeddings, self._ids.shape[1]
        start = max(0, tokens - most)
        if start > 0 or self._cache is None:  # room for no more: `_branch`
            self._cache = new_cache(model, len(self._ids), tokens - start)
            self._kept = 0
        unread = self._ids[:, start + self._kept :]
        logits = read(model, unread, self._cache, self._kept)
        self._kept = tokens - start
        return logits


def prompt_ids(model, prompt):
    """IDs of the prompt; letter by letter if the vocabulary is a small one."""
    tokenizer, vocab_size = gpt2_tokenizer(), model.tok_emb.num_embeddings
    ids = tokenizer.encode(prompt)
    if max(ids, default=0) >= vocab_size:
        letters = [number for c in prompt for number in tokenizer.encode(c)]
        ids = [number for number in letters if number < vocab_size]
    return ids or [0]


@styled
def generation_round(number, text, tokens, probabilities, chosen=0, own=None):
    """`plots.candidates` in one round of the loop.

    `text` is what the model has read, `chosen` the place of what it takes,
    `own` of what the learner's loop takes, if it is among the tokens.
    """
    names = [short_token(token) for token in tokens]
    picture = plots.candidates(names, probabilities, chosen)
    (axes,) = picture.axes
    if own is not None:
        axes.patches[own].set_linewidth(3)
        label = axes.texts[own]
        label.set_text(f"{label.get_text()}  yours")
    side = max(2.1, 0.7 + inches(max(names, key=len)))
    picture.set_size_inches(side + 4.9, max(3.4, 1.2 + 0.32 * len(tokens)))
    picture.set_margins(side, 0.25, 0.7, 0.4)
    read = visible(text)
    read = read if len(read) <= 32 else "…" + read[-32:]
    look = {"loc": "left", "x": -side / 4.65 + 0.02, "parse_math": False}
    axes.set_title(f"round {number}, after: {read}", **look)
    room = 1.7 if own is None else 2.1
    axes.set_xlim(0, room * max(probabilities))
    axes.xaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 5, 10]))
    picture.description = (
        f"Round {number}: after {text!r}. {picture.description}"
    )
    return picture


def _own_round(own, step, ids, candidates):
    """Where the learner's token stands among the candidates of a round, or
    None; and a sentence on it. `own`: (start, rounds) → see `own_ids`.

    From round 2 on, its loop starts with what round 1 has taken.
    """
    start = len(ids) - max(0, step - 2)
    row, words = own(tuple(ids[:start]), ROUNDS - min(1, step - 1))
    if row is None:
        return None, words
    greedy = [*ids, candidates[0]]
    pairs = enumerate(zip(row, greedy, strict=False))
    apart = next(((n, *pair) for n, pair in pairs if pair[0] != pair[1]), None)
    if apart is None:
        return 0, " Yours takes the first candidate, too."
    place, given, wanted = apart
    number = place - len(ids) + step  # the round in which it parts
    if number < 1:
        return None, " Yours does not keep the prompt as it is."
    here = number == step and given in candidates
    names = (f"{n} ({token_text(n)!r})" for n in (given, wanted))
    words = f" In round {number}, yours appends {', not '.join(names)}."
    return candidates.index(given) if here else None, words


def _draw(step, chosen, ids, candidates, probabilities, own=None):
    names = [token_text(number) for number in candidates]
    taken = candidates[chosen]
    read_text, longer = whole_text(ids), whole_text([*ids, taken])
    picture = generation_round(
        step, read_text, names, probabilities, chosen, own
    )
    picture.description += (
        f" IDs so far: {', '.join(map(str, ids))}; appended: {taken}. "
        f"The text becomes {longer!r}."
    )
    return picture
