"""Explorer 08: the loop of greedy generation, one round at a time."""

import torch
from matplotlib.ticker import MaxNLocator

from classroom import plots
from classroom.explore.explorer import Explorer, slider
from classroom.explore.tokens import short_token, token_text, whole_text
from classroom.picture import inches, styled, visible
from gptlib.inputs import check_token_ids
from gptlib.tokenizer import gpt2_tokenizer

ROUNDS = 8
CANDIDATES = 10


def explore_generation(model, prompt="Hello, I am"):
    """How `model` continues `prompt`, greedily, one token a round.

    All rounds are computed at once and the model is let go, so that an
    explorer on the page never keeps a second large model in memory.

    Args:
        model: a GPTModel in eval mode.
        prompt: the text to start with. A vocabulary too small for its tokens
            gets those of its letters that it knows.

    Raises:
        ValueError: the model is in training mode.
    """
    rounds = generation_rounds(model, prompt_ids(model, prompt))

    def draw(step):
        return _draw(step, *rounds[step - 1])

    return Explorer(draw, {"step": slider("round of the loop", 1, 1, ROUNDS)})


def generation_rounds(model, ids):
    """For each round: IDs so far, the likeliest next IDs, probabilities.

    The first candidate is the one that the next round finds appended.

    Args:
        model: maps IDs (1, tokens) to logits (1, tokens, vocab).
        ids: list of the prompt's token IDs.

    Raises:
        ValueError: the model is in training mode, or can't read the IDs.
    """
    if any(module.training for module in model.modules()):
        raise ValueError(
            "The model is in training mode: dropout would change its choice "
            "from run to run; call model.eval() first."
        )
    check_token_ids(torch.tensor([ids]), model.tok_emb.num_embeddings)
    rounds = []
    for _ in range(ROUNDS):
        logits = _next_logits(model, ids)
        top = logits.topk(min(CANDIDATES, len(logits))).indices
        shares = logits.softmax(dim=-1)[top]
        rounds.append((ids, top.tolist(), shares.tolist()))
        ids = [*ids, int(logits.argmax())]
    return rounds


def prompt_ids(model, prompt):
    """IDs of the prompt; letter by letter if the vocabulary is a small one."""
    tokenizer, vocab_size = gpt2_tokenizer(), model.tok_emb.num_embeddings
    ids = tokenizer.encode(prompt)
    if max(ids, default=0) >= vocab_size:
        letters = [number for c in prompt for number in tokenizer.encode(c)]
        ids = [number for number in letters if number < vocab_size]
    return ids or [0]


@styled
def generation_round(number, text, tokens, probabilities):
    """`plots.candidates` in one round of the loop; the first is chosen.

    `text` is what the model has read.
    """
    names = [short_token(token) for token in tokens]
    picture = plots.candidates(names, probabilities)
    (axes,) = picture.axes
    side = max(2.1, 0.7 + inches(max(names, key=len)))
    picture.set_size_inches(side + 4.9, max(3.4, 1.2 + 0.32 * len(tokens)))
    picture.set_margins(side, 0.25, 0.7, 0.4)
    read = visible(text)
    read = read if len(read) <= 32 else "…" + read[-32:]
    look = {"loc": "left", "x": -side / 4.65 + 0.02, "parse_math": False}
    axes.set_title(f"round {number}, after: {read}", **look)
    axes.set_xlim(0, 1.7 * max(probabilities))
    axes.xaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 5, 10]))
    picture.description = (
        f"Round {number}: after {text!r}. {picture.description}"
    )
    return picture


def _next_logits(model, ids):
    table = model.pos_emb  # as long as the longest context
    context = torch.tensor([ids[-table.num_embeddings :]])
    with torch.no_grad():
        logits = model(context.to(table.weight.device))  # (1, tokens, vocab)
    return logits[0, -1].float().cpu()


def _draw(step, ids, candidates, probabilities):
    names = [token_text(number) for number in candidates]
    read, longer = whole_text(ids), whole_text([*ids, candidates[0]])
    picture = generation_round(step, read, names, probabilities)
    picture.description += (
        f" IDs so far: {', '.join(map(str, ids))}; appended: {candidates[0]}. "
        f"The text becomes {longer!r}."
    )
    return picture
