"""Explorer 05: what each head of a small model looks at."""

import functools
import math
from itertools import islice

import numpy as np
import torch
from matplotlib.colors import PowerNorm
from matplotlib.patches import Rectangle

from classroom import plots
from classroom.explore.explorer import Explorer, slider, text
from classroom.explore.own import compared
from classroom.explore.tokens import (
    one_thread,
    read_tokens,
    short_token,
    token_text,
)
from classroom.picture import (
    Picture,
    array,
    centre,
    inches,
    ink,
    pin_labels,
    styled,
)
from gptlib.config import SMALLEST
from gptlib.model import GPTModel

# Twelve blocks, as in GPT-2, of the width of notebook 05.
MOST = 16  # tokens that a map has room for
SMALL = SMALLEST | {"context_length": 16, "emb_dim": 48, "n_heads": 3}


def explore_attention(model=None, attention=None):
    """Choose a block and a head, type a sentence: who looks at whom?

    Args:
        model: a `GPTModel`, or another with its parts, that reads the gpt2
            encoding; without it a small one with random weights. It must be
            in evaluation mode and may have been trained.
        attention: your own class, such as `MyMultiHeadAttention`. It gets
            the weights of the model's module; what a head weighs otherwise
            is drawn in the lower half of its cell.
    """
    model = model or _small_model()
    blocks, heads = len(model.trf_blocks), model.trf_blocks[0].att.num_heads
    return Explorer(
        functools.partial(_draw, model, attention),
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
    maps = [
        att(x, return_weights=True)[1][0]  # (heads, tokens, tokens)
        for att, x in _attentions(model, ids)
    ]
    return [token_text(number) for number in ids], torch.stack(maps)


@torch.no_grad()
def own_attention(attention, model, sentence, block, head):
    """One head of a learner's class in the place of a block's attention.

    Returns:
        its weights (tokens, tokens), or None; and words on what differs.
    """
    ids = read_tokens(sentence, min(MOST, model.pos_emb.num_embeddings))
    att, x = next(islice(_attentions(model, ids), block - 1, None))
    output, weights = att(x, return_weights=True)
    texts = [token_text(number) for number in ids]
    names = [f"token {n} ({text!r})" for n, text in enumerate(texts, 1)]
    own, words = compared(
        attention,
        lambda part, att, x: _weights(_copied(part, att), x)[head - 1],
        att,
        x,
        reference=weights[0, head - 1],
        place=lambda at: f"where {names[at[0]]} looks at {names[at[1]]}",
        what="Your head",
    )
    if own is not None:
        words += compared(
            attention,
            lambda part, att, x: _copied(part, att)(x),
            att,
            x,
            reference=output,
            place=lambda at: f"at {names[at[1]]}, feature {at[2] + 1}",
            what="Your output",
        )[1]
    return own, words


@styled
def head_map(weights, tokens, block, head, own=None):
    """`plots.attention_map` of one head among others, numbered from 1.

    `own` are the weights of the learner's head, drawn where they differ.
    """
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
    if own is not None:
        _lower_halves(axes, image, array(weights), array(own))
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


@torch.no_grad()
def _attentions(model, ids):
    """Each block's attention, and what it reads, (1, tokens, emb)."""
    positions = torch.arange(len(ids))
    x = model.tok_emb(torch.tensor([ids])) + model.pos_emb(positions)
    for block in model.trf_blocks:
        yield block.att, block.norm1(x)
        x = block(x)


def _copied(attention, att):
    """A module of the learner's class with the weights of `att`."""
    d_out, d_in = att.W_query.weight.shape
    bias = att.W_query.bias is not None
    sizes = len(att.mask), att.dropout.p, att.num_heads
    own = attention(d_in, d_out, *sizes, qkv_bias=bias)
    for name, parameter in att.named_parameters():
        own.get_parameter(name).copy_(parameter)
    return own.eval()


def _weights(own, x):
    """What each head weighs by, (heads, tokens, tokens), however computed.

    The values are replaced by the rows of a unit matrix, and the output
    layer by nothing: a weighted sum of such rows is the weights. A head with
    fewer features than there are tokens takes several turns, as a batch.
    """
    tokens, heads = x.shape[1], own.num_heads
    size = own.W_value.out_features // heads
    turns = math.ceil(tokens / size)
    rows = torch.eye(turns * size)[:tokens].unflatten(1, (turns, size))
    values = rows.transpose(0, 1).repeat(1, 1, heads)
    own.W_value.register_forward_hook(lambda *call: values)
    own.out_proj.register_forward_hook(lambda part, args, output: args[0])
    sums = own(x.expand(turns, -1, -1))  # (turns, tokens, heads * size)
    sums = sums.unflatten(2, (heads, size)).permute(2, 1, 0, 3)
    return sums.flatten(2)[..., :tokens]


def _lower_halves(axes, image, weights, own):
    """The learner's weights, in the lower halves of cells that differ."""
    texts = {text.get_position(): text for text in axes.texts}
    for row, column in np.argwhere(np.abs(own - weights) > 0.005):
        color = image.to_rgba(own[row, column])
        look = {"fc": color, "ec": ink(color)}
        axes.add_patch(Rectangle((column - 0.5, row), 1, 0.5, **look))
        if len(own) > 8:
            continue
        words = f"{own[row, column]:.2f}"
        centre(axes, column, row + 0.25, words, color=ink(color))
        if (column, row) in texts:
            texts[column, row].set_y(row - 0.25)
    axes.set_xlabel(f"{axes.get_xlabel()}; lower halves: yours")


def _draw(model, attention, sentence, block, head):
    tokens, weights = attention_weights(model, sentence)
    chosen = weights[block - 1, head - 1]  # (tokens, tokens)
    own, words = None, ""
    if attention is not None:
        own, words = own_attention(attention, model, sentence, block, head)
    picture = head_map(chosen, tokens, block, head, own)
    picture.description += words
    return picture
