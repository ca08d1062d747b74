"""Explorer 05: what each head of a small model looks at."""

import functools

import torch

from classroom import plots
from classroom.explore.explorer import Explorer, slider, text
from classroom.explore.tokens import read_tokens, short_token, token_text
from classroom.picture import Picture, inches, pin_labels, styled
from gptlib.block import TransformerBlock
from gptlib.config import SMALLEST

# The model of notebook 05, whose one block is layer 1 here.
SMALL = SMALLEST | {
    "context_length": 16,
    "emb_dim": 48,
    "n_heads": 3,
    "n_layers": 4,
}


def explore_attention():
    """Choose a layer and a head, type a sentence: who looks at whom?"""
    return Explorer(
        _draw,
        {
            "layer": slider("layer", 1, 1, SMALL["n_layers"]),
            "head": slider("head", 1, 1, SMALL["n_heads"]),
            "sentence": text("sentence", "Every effort moves you"),
        },
    )


@functools.lru_cache(maxsize=8)
def attention_weights(sentence):
    """Tokens of `sentence`, and weights (layers, heads, tokens, tokens).

    Raises:
        ValueError: the sentence is empty or too long.
    """
    ids = read_tokens(sentence, SMALL["context_length"])
    tokens, positions, blocks = _small_model()
    maps = []
    with torch.no_grad():
        x = tokens(torch.tensor([ids])) + positions(torch.arange(len(ids)))
        for block in blocks:
            _, weights = block.att(block.norm1(x), return_weights=True)
            maps.append(weights[0])  # (heads, tokens, tokens)
            x = block(x)
    return [token_text(number) for number in ids], torch.stack(maps)


@styled
def head_map(weights, tokens, layer, head):
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
        box = axes.get_position()
        place = box.x1 + 0.02, box.y0 + 0.1 * box.height
        scale = picture.add_axes([*place, 0.03, 0.8 * box.height])
        picture.colorbar(image, scale, label="attention weight")
        scale.tick_params(labelsize=12)
    image.set_interpolation("nearest")
    axes.tick_params("x", labelrotation=90 if crowded else 0)
    axes.set_title(f"layer {layer}, head {head} (hatched: a later token)")
    pin_labels(axes, (0.3 - side) / 4, (0.3 - foot) / 4)
    picture.description = (
        f"Layer {layer}, head {head}. {picture.description} "
        "Each row sums to 1; a later token always has weight 0."
    )
    return picture


@functools.cache
def _small_model():
    """Embeddings and blocks, seeded as notebook 05 seeds them."""
    emb_dim, layers = SMALL["emb_dim"], range(SMALL["n_layers"])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(123)
        tokens = torch.nn.Embedding(SMALL["vocab_size"], emb_dim)
        positions = torch.nn.Embedding(SMALL["context_length"], emb_dim)
        torch.manual_seed(123)
        blocks = [TransformerBlock(SMALL).eval() for _ in layers]
    return tokens, positions, blocks


def _draw(sentence, layer, head):
    tokens, weights = attention_weights(sentence)
    chosen = weights[layer - 1, head - 1]  # (tokens, tokens)
    return head_map(chosen, tokens, layer, head)
