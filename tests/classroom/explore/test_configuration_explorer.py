import pytest
import torch

from classroom.explore import explore_configuration
from classroom.explore.configuration import data_path, shape_bars
from gptlib import GPTModel, check_config
from gptlib.config import GPT_CONFIG_124M

SMALL = {
    "vocab_size": 101,
    "context_length": 16,
    "emb_dim": 24,
    "n_heads": 3,
    "n_layers": 2,
}


def shapes(**values):
    return {label: shape for label, _, shape in data_path(**values)}


def test_the_notes_shapes():
    stops = shapes(batch=2, tokens=4)
    assert list(stops.values()) == [
        (2, 4),
        (2, 4, 768),
        (4, 768),
        (2, 4, 768),
        (2, 12, 4, 64),
        (2, 4, 3072),
        (2, 4, 768),
        (2, 4, 768),
        (2, 4, 50257),
    ]


def test_the_shapes_are_those_of_the_model():
    cfg = GPT_CONFIG_124M | SMALL
    model, seen = GPTModel(cfg).eval(), {}
    parts = {
        "token embedding": model.tok_emb,
        "position embedding": model.pos_emb,
        "sum, after dropout": model.drop_emb,
        "in a block, feed-forward": model.trf_blocks[0].ff.layers[0],
        "after 2 blocks": model.trf_blocks,
        "final norm": model.final_norm,
        "output head: logits": model.out_head,
    }
    for label, part in parts.items():
        part.register_forward_hook(
            lambda part, given, out, label=label: seen.update(
                {label: tuple(out.shape)}
            )
        )
    ids = torch.zeros(5, 7, dtype=torch.long)
    with torch.no_grad():
        model(ids)
        x = torch.zeros(5, 7, 24)
        _, weights = model.trf_blocks[0].att(x, return_weights=True)
    stops = shapes(batch=5, tokens=7, **SMALL)
    assert {label: stops[label] for label in parts} == seen
    assert stops["token IDs"] == ids.shape
    assert stops["in a block, attention"] == (*weights.shape[:3], 24 // 3)


def test_one_block_is_not_blocks(control):
    assert "after 1 block" in shapes(batch=1, tokens=1, n_layers=1)
    explorer = explore_configuration()
    control(explorer, "n_layers").value = 1
    assert "In the only block, attention" in explorer.description


def test_check_config_explains_heads_that_do_not_divide():
    with pytest.raises(ValueError) as wanted:
        check_config(GPT_CONFIG_124M | {"n_heads": 7})
    with pytest.raises(ValueError) as got:
        data_path(batch=2, tokens=4, n_heads=7)
    assert str(got.value) == str(wanted.value)


def test_too_many_tokens_are_explained():
    with pytest.raises(ValueError, match=r"17 tokens.*context_length=16"):
        data_path(batch=2, tokens=17, **SMALL)
    assert data_path(batch=2, tokens=16, **SMALL)


def test_each_control_over_its_range(sweep):
    impossible = sweep(explore_configuration())
    assert any("not divisible by n_heads=13" in told for told in impossible)
    assert any("2048 tokens" in told for told in impossible)


def test_an_impossible_setting_and_the_way_back(control):
    explorer = explore_configuration()
    control(explorer, "n_heads").value = 13
    assert "choose n_heads among the divisors" in explorer.words.value
    assert "gpt-stale" in explorer.picture._dom_classes
    control(explorer, "n_heads").value = 16
    assert "12 blocks, attention" in explorer.description
    assert "in 16 heads of 48 features" in explorer.description
    assert "gpt-stale" not in explorer.picture._dom_classes


def test_blocks_and_context_change_no_shape_and_the_words_say_so(control):
    explorer = explore_configuration()
    same = "All 9 shapes are those of the start."
    assert same in explorer.description
    for label in ("n_layers", "context_length"):
        start = explorer.description
        control(explorer, label).value = control(explorer, label).max
        assert same in explorer.description != start
        explorer.reset.click()
    changed = [
        ("vocab_size", 40257, 1),
        ("n_heads", 16, 1),
        ("emb_dim", 1536, 7),
        ("batch", 8, 8),
        ("tokens", 1024, 9),
    ]
    for label, value, count in changed:
        control(explorer, label).value = value
        assert f" {count} of 9 shapes (◆) " in explorer.description, label
        explorer.reset.click()


def test_the_largest_setting_fits_the_axis(control):
    explorer = explore_configuration()
    control(explorer, "n_heads").value = 16
    for label in ("vocab", "context", "emb", "batch", "tokens"):
        control(explorer, label).value = control(explorer, label).max
    assert "(16, 2048, 100257)" in explorer.description
    assert "gpt-impossible" not in explorer.words.value


def test_the_picture():
    stops = data_path(batch=2, tokens=4)
    drawn = shape_bars(stops, "Words.")
    (axes,) = drawn.axes
    (bars,) = axes.containers
    assert [bar.get_width() for bar in bars][-1] == 2 * 4 * 50257
    assert axes.get_xscale() == "log" and axes.yaxis.get_inverted()
    assert axes.texts[4].get_text() == "(2, 12, 4, 64)"
    (axes,) = shape_bars(stops, "Words.", [4]).axes
    assert axes.texts[4].get_text() == "(2, 12, 4, 64) ◆"
    assert axes.texts[3].get_text() == "(2, 4, 768)"
    assert drawn.description == (
        "Words. Most values: 402,056, output head: logits; "
        "fewest: 8, token IDs."
    )
