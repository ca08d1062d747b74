"""Explorer 05: what each head of a small model looks at."""

import functools

import torch
from matplotlib.colors import PowerNorm

from classroom import plots
from classroom.explore.explorer import Explorer, slider, text
from classroom.explore.tokens import (
    one_thread,
    read_tokens,
    short_token,
    token_text,
)
from classroom.picture import Picture, inches, pin_labels, styled
from gptlib.config import SMALLEST
from gptlib.model import GPTModel

# Twelve blocks, as in GPT-2, of the width of notebook 05.
MOST = 16  # tokens that a map has room for
SMALL = SMALLEST | {"context_length": 16, "emb_dim": 48, "n_heads": 3}


def explore_attention(model=None):
    """Choose a block and a head, type a sentence: who looks at whom?

    Args:
        model: a `GPTModel`, or another with its parts, that reads the gpt2
            encoding; without it a small one with random weights. It must be
            in evaluation mode and may have been trained.
    """
    model = model or _small_model()
    blocks, heads = len(model.trf_blocks), model.trf_blocks[0].att.num_heads
    return Explorer(
        functools.partial(_draw, model),
        {
            "block": slider("block", 1, 1, blocks),
            "head": slider("head", 1, 1, heads),
            "sentence": text("sentence", "Every effort moves you"),
        },
    )


@one_thread()
@torch.no_grad()
def attention_weights(model, sentence):
    """Tokens of `sentence`, and weights (blocks, heads, tokens, tokens).

    Raises:
        ValueError: the sentence is empty or too long.
    """
    ids = read_tokens(sentence, min(MOST, model.pos_emb.num_embeddings))
    positions = torch.arange(len(ids))
    x = model.tok_emb(torch.tensor([ids])) + model.pos_emb(positions)
    maps = []
    for block in model.trf_blocks:
        _, weights = block.att(block.norm1(x), return_weights=True)
        maps.append(weights[0])  # (heads, tokens, tokens)
        x = block(x)
    return [token_text(number) for number in ids], torch.stack(maps)


@styled
def head_map(weights, tokens, block, head):
    """`plots.attention_map` of one head among others, numbered from 1."""
    names = [short_token(token) for token in tokens]
    longest = max(map(inches, names))
    crowded = len(names) * longest > 3.6
    side = 0.6 + longest
    foot = side if crowded else 0.75
    picture = Picture(side + 5.1, foot + 4.4, "", (side, 1.1, foot, 0.4))
    image = plots.draw_attention(picture, weights, names)
    (axes,) = picture.axes
    if not axes.texts:  # no numbers, so a scale
        # Of many weights most are below 0.3: half of the colours are for them.
        image.set_norm(PowerNorm(0.5, 0, 1))
        box = axes.get_position()
        place = box.x1 + 0.02, box.y0 + 0.1 * box.height
        scale = picture.add_axes([*place, 0.03, 0.8 * box.height])
        picture.colorbar(image, scale, label="attention weight")
        scale.tick_params(labelsize=12)
    image.set_interpolation("nearest")
    axes.tick_params("x", labelrotation=90 if crowded else 0)
    axes.set_title(f"block {block}, head {head} (hatched: a later token)")
    pin_labels(axes, (0.3 - side) / 4, (0.3 - foot) / 4)
    picture.description = (
        f"Block {block}, head {head}. {picture.description} "
        "Each row sums to 1; a later token always has weight 0."
    )
    return picture


@functools.cache
def _small_model():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(123)
        return GPTModel(SMALL).eval()


def _draw(model, sentence, block, head):
    tokens, weights = attention_weights(model, sentence)
    chosen = weights[block - 1, head - 1]  # (tokens, tokens)
    return head_map(chosen, tokens, block, head)
