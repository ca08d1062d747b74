"""The check of notebook 08's attention with kept keys and values."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from classroom.checks.kept_attention import attend, cached_attention


def heads_of(att, x):
    batch, tokens, emb = x.shape
    return x.view(batch, tokens, att.num_heads, -1).transpose(1, 2)


def with_infinite_triangle(att, x, keys, values):
    """A mask of numbers that is added, views, matmul."""
    batch, new, emb = x.shape
    kept = keys.shape[2]
    q = heads_of(att, att.W_query(x))
    keys = torch.cat([keys, heads_of(att, att.W_key(x))], 2)
    values = torch.cat([values, heads_of(att, att.W_value(x))], 2)
    mask = torch.full((new, kept + new), float("-inf")).triu(kept + 1)
    scores = torch.matmul(q, keys.mT) / (emb / att.num_heads) ** 0.5 + mask
    out = torch.softmax(scores, -1) @ values
    out = out.transpose(1, 2).contiguous().view(batch, new, emb)
    return att.out_proj(out), keys, values


def with_the_modules_mask(att, x, keys, values):
    """The rows of the newest tokens of the mask that `att` has."""
    kept = keys.size(2)
    seen = kept + x.size(1)
    keys = torch.cat((keys, att.split_heads(att.W_key(x))), dim=-2)
    values = torch.cat((values, att.split_heads(att.W_value(x))), dim=-2)
    q = att.split_heads(att.W_query(x))
    scores = torch.einsum("bhqd,bhkd->bhqk", q, keys)
    scores = scores.masked_fill(att.mask[kept:seen, :seen], -torch.inf)
    weights = (scores / keys.shape[-1] ** 0.5).softmax(-1)
    context = torch.einsum("bhqk,bhkd->bqhd", weights, values)
    return att.out_proj(context.flatten(2)), keys, values


def with_torchs_kernel(att, x, keys, values):
    """`attn_mask` is True where a token may look."""
    q, k, v = (
        att.split_heads(f(x)) for f in (att.W_query, att.W_key, att.W_value)
    )
    keys, values = torch.cat((keys, k), 2), torch.cat((values, v), 2)
    place = torch.arange(keys.shape[2])
    sees = place[-x.shape[1] :, None] >= place
    context = F.scaled_dot_product_attention(q, keys, values, attn_mask=sees)
    return [att.out_proj(context.transpose(1, 2).flatten(2)), keys, values]


def token_by_token(att, x, keys, values):
    """The notebook's function in a loop: nothing has to be hidden."""
    rows = []
    for token in x.split(1, dim=1):
        q, k, v = (
            att.split_heads(f(token))
            for f in (att.W_query, att.W_key, att.W_value)
        )
        keys, values = torch.cat((keys, k), 2), torch.cat((values, v), 2)
        weights = (q @ keys.mT / q.shape[-1] ** 0.5).softmax(-1)
        rows.append((weights @ values).transpose(1, 2).flatten(2))
    return att.out_proj(torch.cat(rows, 1)), keys, values


def with_gather(att, x, keys, values):
    """gptlib's own method, one query at a time."""
    kept, split = keys.shape[2], att.split_heads
    keys = torch.cat((keys, split(att.W_key(x))), 2)
    values = torch.cat((values, split(att.W_value(x))), 2)
    q = split(att.W_query(x))
    rows = [
        att.gather(
            q[:, :, i : i + 1],
            keys[:, :, : kept + i + 1],
            values[:, :, : kept + i + 1],
        )
        for i in range(x.shape[1])
    ]
    return att.out_proj(torch.cat(rows, 1)), keys, values


def head_by_head(att, x, keys, values):
    """Loops, a filled buffer, and weights of zero past a token."""
    kept, new, size = keys.shape[2], x.shape[1], keys.shape[3]
    more = [
        t.new_empty(*t.shape[:2], kept + new, size) for t in (keys, values)
    ]
    for room, old, layer in zip(
        more, (keys, values), (att.W_key, att.W_value), strict=True
    ):
        room[:, :, :kept] = old
        room[:, :, kept:] = att.split_heads(layer(x))
    keys, values = more
    out = torch.empty_like(x)
    for i in range(new):
        for h in range(att.num_heads):
            part = slice(h * size, (h + 1) * size)
            q = att.W_query(x)[:, i, part]
            scores = (keys[:, h, : kept + i + 1] @ q[..., None]).squeeze(-1)
            weights = F.softmax(scores * size**-0.5, dim=1)
            seen = values[:, h, : kept + i + 1]
            out[:, i, part] = (weights[..., None] * seen).sum(1)
    return att.out_proj(out), keys, values


@torch.no_grad()
def without_gradients(att, x, keys, values):
    return attend(att, x, keys, values)


class Attend:
    def __call__(self, att, x, keys, values):
        return with_the_modules_mask(att, x, keys, values)


RIGHT = [
    with_infinite_triangle, with_the_modules_mask, with_torchs_kernel,
    token_by_token, with_gather, head_by_head, without_gradients, Attend(),
]  # fmt: skip


@pytest.mark.parametrize("answer", RIGHT)
def test_right_answers_pass(answer):
    result = cached_attention(answer)
    assert (result.status, result.mistake) == ("passed", None), result


def causal(att, x, keys, values):
    q, k, v = (
        att.split_heads(f(x)) for f in (att.W_query, att.W_key, att.W_value)
    )
    keys, values = torch.cat((keys, k), 2), torch.cat((values, v), 2)
    context = F.scaled_dot_product_attention(
        q, keys, values, is_causal=x.shape[1] > 1
    )
    return att.out_proj(context.transpose(1, 2).flatten(2)), keys, values


def always_causal(att, x, keys, values):
    q, k, v = (
        att.split_heads(f(x)) for f in (att.W_query, att.W_key, att.W_value)
    )
    keys, values = torch.cat((keys, k), 2), torch.cat((values, v), 2)
    context = F.scaled_dot_product_attention(q, keys, values, is_causal=True)
    return att.out_proj(context.transpose(1, 2).flatten(2)), keys, values


def all_by_gather(att, x, keys, values):
    keys = torch.cat((keys, att.split_heads(att.W_key(x))), 2)
    values = torch.cat((values, att.split_heads(att.W_value(x))), 2)
    gathered = att.gather(att.split_heads(att.W_query(x)), keys, values)
    return att.out_proj(gathered), keys, values


def one_new_token(att, x, keys, values):
    """The notebook's function, as it stands."""
    q, k, v = (
        att.split_heads(f(x)) for f in (att.W_query, att.W_key, att.W_value)
    )
    keys, values = torch.cat((keys, k), 2), torch.cat((values, v), 2)
    weights = (q @ keys.mT / q.shape[-1] ** 0.5).softmax(-1)
    context = (weights @ values).transpose(1, 2).flatten(2)
    return att.out_proj(context), keys, values


def the_module(att, x, keys, values):
    """Never looks at what is kept."""
    keys = torch.cat((keys, att.split_heads(att.W_key(x))), 2)
    values = torch.cat((values, att.split_heads(att.W_value(x))), 2)
    return att(x), keys, values


def context_alone(att, x, keys, values):
    return attend(att, x, keys, values)[0]


def no_return(att, x, keys, values):
    attend(att, x, keys, values)


def pair_of_caches(att, x, keys, values):
    context, *kept = attend(att, x, keys, values)
    return context, kept


def in_place(att, x, keys, values):
    x -= 0  # the same numbers, and then others
    result = attend(att, x, keys, values)
    keys.mul_(2)
    return result


remembered = {}


def remembers(att, x, keys, values):
    """What came first under this shape is given again."""
    if x.shape in remembered:
        return attend(att, x + 1, keys, values)
    remembered[x.shape] = True
    return attend(att, x, keys, values)


def drops(att, x, keys, values):
    context, keys, values = attend(att, x, keys, values)
    return F.dropout(context, 0.1), keys, values


def seeds(att, x, keys, values):
    torch.manual_seed(1)
    return attend(att, x, keys, values)


def trains(att, x, keys, values):
    att.train()
    return attend(att, x, keys, values)


def first_row_only(att, x, keys, values):
    return attend(att, x[:1].expand_as(x), keys, values)


def three_heads(att, x, keys, values):
    old = att.num_heads
    att.num_heads = 3
    result = attend(att, x, keys, values)
    att.num_heads = old
    return result


def single_precision(att, x, keys, values):
    return tuple(t.float() for t in attend(att, x, keys, values))


def four_features(att, x, keys, values):
    x, scale = x.clone(), (keys.shape[-1] / 4) ** 0.5
    query = nn.Linear(x.shape[-1], x.shape[-1]).to(x.dtype)
    query.load_state_dict(att.W_query.state_dict())
    with torch.no_grad():
        for p in query.parameters():
            p *= scale
    kind = type(att)(x.shape[-1], x.shape[-1], 32, 0.0, att.num_heads, True)
    kind.to(x.dtype).load_state_dict(att.state_dict())
    kind.W_query = query
    return attend(kind, x, keys, values)


def new_ones_joined_in_vain(att, x, keys, values):
    q, k, v = (
        att.split_heads(f(x)) for f in (att.W_query, att.W_key, att.W_value)
    )
    torch.cat((keys, k), 2), torch.cat((values, v), 2)
    weights = (q @ keys.mT / q.shape[-1] ** 0.5).softmax(-1)
    context = (weights @ values).transpose(1, 2).flatten(2)
    return att.out_proj(context), keys, values


def masked(mask, width=0.5):
    """An answer with this mask, which is added: (new, seen) → numbers."""

    def answer(att, x, keys, values):
        q, k, v = (
            att.split_heads(f(x))
            for f in (att.W_query, att.W_key, att.W_value)
        )
        keys, values = torch.cat((keys, k), 2), torch.cat((values, v), 2)
        scores = q @ keys.mT / q.shape[-1] ** width
        weights = (scores + mask(x.shape[1], keys.shape[2])).softmax(-1)
        context = (weights @ values).transpose(1, 2).flatten(2)
        return att.out_proj(context), keys, values

    return answer


def times_infinity(new, seen):
    return torch.ones(new, seen).triu(seen - new + 1) * -torch.inf


def behind_all(new, seen):
    """`kept` counted after the new keys have joined."""
    return torch.full((new, seen), -torch.inf).triu(seen + 1)


def past(new, seen):
    return torch.full((new, seen), -torch.inf).triu(seen - new + 1)


def one_column_off(new, seen):
    return torch.full((new, seen), -torch.inf).triu(seen - new + 2)


def visible(new, seen):
    return torch.zeros(new, seen).masked_fill(
        torch.ones(new, seen).bool().tril(seen - new), -torch.inf
    )


def heads_merged(att, x, keys, values):
    context, *kept = attend(att, x, keys, values)
    return context, *(t.transpose(1, 2).flatten(2) for t in kept)


def no_biases(att, x, keys, values):
    att.W_query.bias = att.W_key.bias = att.W_value.bias = None
    return attend(att, x, keys, values)


def prompt_masked(att, x, keys, values):
    """For one new token after some, as the notebook's function does."""
    return (attend if keys.shape[2] == 0 else one_new_token)(
        att, x, keys, values
    )


def one_by_one_apart(att, x, keys, values):
    """What the function for one token returns to be kept is forgotten."""
    rows = [attend(att, t, keys, values)[0] for t in x.split(1, dim=1)]
    return torch.cat(rows, dim=1), keys, values


def after_three(new, seen):
    """Right for three kept tokens, as in the check's first case."""
    return torch.full((new, seen), -torch.inf).triu(4)


def by_eight(att, x, keys, values):
    """The root of GPT-2's 64 features of a head."""
    queries = att.split_heads(att.W_query(x))
    keys = torch.cat((keys, att.split_heads(att.W_key(x))), dim=2)
    values = torch.cat((values, att.split_heads(att.W_value(x))), dim=2)
    scores = queries @ keys.mT / 8 + past(x.shape[1], keys.shape[2])
    context = (scores.softmax(-1) @ values).transpose(1, 2).flatten(2)
    return att.out_proj(context), keys, values


WRONG = [
    ("new-ignored", new_ones_joined_in_vain),
    ("output-not-finite", masked(times_infinity)),
    ("mask-missing", masked(behind_all)),
    ("mask-inverted", masked(visible)),
    ("wrong-scale", masked(past, 1.0)),
    ("wrong-shape", heads_merged),
    ("bias-missing", no_biases),
    ("mask-at-upper-left", causal),
    ("mask-at-upper-left", always_causal),
    ("mask-at-upper-left", all_by_gather),
    ("mask-missing", one_new_token),
    ("mask-hides-kept", the_module),
    ("not-three-results", context_alone),
    ("not-three-results", pair_of_caches),
    ("input-overwritten", in_place),
    ("generator-used", seeds),
    ("random-values", drops),
    ("mask-for-prompt-only", prompt_masked),
    ("new-apart", one_by_one_apart),
    ("wrong-scale", by_eight),
    ("wrong-for-other-sizes", masked(after_three)),
    ("mode-changed", trains),
    ("wrong-values", first_row_only),
    ("wrong-scale", four_features),
    ("returns-none", no_return),
    ("wrong-signature", lambda att, x: x),
]


@pytest.mark.parametrize("mistake, answer", WRONG)
def test_wrong_answers_are_named(mistake, answer):
    remembered.clear()
    result = cached_attention(answer)
    assert (result.status, result.mistake) == ("failed", mistake), result


@pytest.mark.parametrize(
    "mistake, answer",
    [
        ("not-repeatable", remembers),
        ("exception", three_heads),
        ("dtype-fixed", single_precision),
    ],
)
def test_what_is_right_in_one_case_only_fails(mistake, answer):
    remembered.clear()
    result = cached_attention(answer)
    assert (result.status, result.mistake) == ("failed", mistake), result


def test_no_answer_is_given_away():
    """The words for the mask that is off leave the column to be found."""
    assert "kept + 1" not in cached_attention(causal).message
    off = cached_attention(masked(one_column_off))
    assert off.mistake == "mask-off-by-one"
    assert "itself" not in off.message


def test_two_mistakes_are_told_without_a_contradiction():
    """A context that is wrong is not called right beside it."""

    def answer(att, x, keys, values):
        return one_new_token(att, x, keys, values)[0], keys, values

    result = cached_attention(answer)
    assert "a second mistake" in result.message
    assert "fits, and" not in result.message


def test_another_shape_is_told_before_other_numbers():
    def answer(att, x, keys, values):
        context, *kept = attend(att, x, keys, values)
        return 2 * context, *(t[:, :, 1:] for t in kept)

    result = cached_attention(answer)
    assert result.mistake == "wrong-shape"
    assert "tensor of keys has shape (2, 3, 4, 4)" in result.message
