"""The checks of notebook 08: the greedy loop, its end, unequal prompts."""

import copy
import functools
import random

import pytest
import torch
from renamed import renamed

from classroom.checks.generation import batch_prompts, generate, stop_at_end
from gptlib import GPT2_CONFIGS, GPT_CONFIG_124M, generate_text_simple

LOOP = """
def answer(model, idx, max_new_tokens, context_size):
    for _ in range(max_new_tokens):
        context = idx[:, -context_size:]
        with torch.no_grad():
            logits = model(context)
        last = logits[:, -1, :]
        probas = torch.softmax(last, dim=-1)
        idx_next = torch.argmax(probas, dim=-1, keepdim=True)
        idx = torch.cat((idx, idx_next), dim=1)
    return idx
"""
WHILE = """
@torch.inference_mode()
def answer(model, idx, max_new_tokens, context_size):
    out = [idx]
    count = 0
    while count < max_new_tokens:
        text = torch.hstack(out)
        window = text[..., max(0, text.shape[1] - context_size):]
        best = model(window)[:, -1].max(dim=-1)
        out.append(best.indices[:, None])
        count += 1
    return torch.hstack(out)
"""
FILLED = """
def answer(model, idx, max_new_tokens, context_size):
    batch, n = idx.shape
    out = torch.zeros(batch, n + max_new_tokens, dtype=torch.long)
    out[:, :n] = idx
    for i in range(n, n + max_new_tokens):
        with torch.no_grad():
            scores = model(out[:, max(0, i - context_size):i])
        out[:, i] = scores[:, -1].topk(1).indices.squeeze(-1)
    return out
"""
SPACE = {
    "torch": torch,
    "random": random,
    "copy": copy,
    "generate_text_simple": generate_text_simple,
}


def made(source, *changes):
    """The function `answer` of a source, after replacing pieces of it."""
    for old, new in changes:
        assert old in source, old
        source = source.replace(old, new)
    space = dict(SPACE)
    exec(source, space)
    return space["answer"]


def recursive(model, idx, max_new_tokens, context_size):
    if max_new_tokens == 0:
        return idx
    with torch.no_grad():
        new = model(idx[:, -context_size:])[:, -1].argmax(-1).reshape(-1, 1)
    longer = torch.cat([idx, new], -1)
    return recursive(model, longer, max_new_tokens - 1, context_size)


def by_row(model, idx, max_new_tokens, context_size):
    rows = [made(LOOP)(model, row[None], max_new_tokens, context_size)
            for row in idx]  # fmt: skip
    return torch.cat(rows)


def by_list(model, idx, max_new_tokens, context_size):
    rows = idx.tolist()
    for _ in range(max_new_tokens):
        window = torch.tensor([row[-context_size:] for row in rows])
        with torch.no_grad():
            logits = model(window)
        for row, scores in zip(rows, logits, strict=True):
            row.append(int(scores[-1].argmax()))
    return torch.tensor(rows)


def mode_restored(model, idx, max_new_tokens, context_size):
    before = model.training
    model.eval()
    out = made(LOOP)(model, idx, max_new_tokens, context_size)
    model.train(before)
    return out


def refuses_training(model, idx, max_new_tokens, context_size):
    assert not model.training, "call model.eval() first"
    return made(LOOP)(model, idx, max_new_tokens, context_size)


def new_ones_joined_last(model, idx, max_new_tokens, context_size):
    text, new = idx.clone(), []
    for _ in range(max_new_tokens):
        with torch.no_grad():
            new.append(model(text[:, -context_size:])[:, -1]
                       .argmax(-1, True))  # fmt: skip
        text = torch.cat((text, new[-1]), 1)
    return torch.cat((idx, torch.cat(new, 1)), 1)  # fails for no new token


def on_a_copy(model, idx, max_new_tokens, context_size):
    """Who copies the model may set the copy's mode."""
    model = copy.deepcopy(model).eval()
    return made(LOOP)(model, idx, max_new_tokens, context_size)


class Generator:
    def __call__(self, model, idx, max_new_tokens, context_size):
        return generate_text_simple(model, idx, max_new_tokens, context_size)


def with_tail(model, idx, max_new_tokens, context_size, tail=None):
    return made(FILLED)(model, idx, max_new_tokens, context_size)


RIGHT = {
    "loop": made(LOOP), "while": made(WHILE), "filled": made(FILLED),
    "recursive": recursive, "by_row": by_row, "by_list": by_list,
    "mode_restored": mode_restored, "refuses_training": refuses_training,
    "new_ones_joined_last": new_ones_joined_last, "object": Generator(),
    "library": generate_text_simple, "on_a_copy": on_a_copy,
    "partial": functools.partial(with_tail, tail=3),
    "no softmax": made(LOOP, ("torch.argmax(probas", "torch.argmax(last")),
    "decorated": made(LOOP, ("def answer", "@torch.no_grad()\ndef answer"),
                      ("with torch.no_grad()", "if True")),
    "forward": made(LOOP, ("model(context)", "model.forward(context)")),
    "int32 inside": made(LOOP, ("model(context)", "model(context.int())")),
    "eval": made(LOOP, ("    for", "    model.eval()\n    for")),
    "eval in the loop": made(WHILE, ("        text", "        model.eval()\n"
                                     "        text")),
    "size of the model": made(
        LOOP, ("    for", "    context_size = min(context_size, "
               "model.pos_emb.num_embeddings)\n    for")),
    "device of the model": made(
        LOOP, ("    for", "    idx = idx.to(next(model.parameters()).device)"
               "\n    for")),
    "vocabulary of the model": made(
        LOOP, ("logits[:, -1, :]", "logits.reshape(len(idx), -1, model."
               "out_head.out_features)[:, -1]")),
    "last of the window": made(LOOP, ("[:, -1, :]",
                                      "[:, context.shape[1] - 1]")),
    "gradients put back": made(
        LOOP, ("    for", "    before = torch.is_grad_enabled()\n"
               "    torch.set_grad_enabled(False)\n    for"),
        ("    return", "    torch.set_grad_enabled(before)\n    return")),
    "none refused": made(LOOP, ("    for", "    assert max_new_tokens > 0\n"
                                "    for")),
    "double": made(LOOP, ("model(context)", "model(context).double()")),
    "prints": made(LOOP, ("    return", "    print(idx)\n    return")),
    "if crop": made(LOOP, ("idx[:, -context_size:]", "idx if idx.size(1) <= "
                           "context_size else idx[:, -context_size:]")),
    "softmax on all": made(LOOP, ("logits[:, -1, :]",
                                  "logits.softmax(2)[:, -1, :]")),
}  # fmt: skip


@pytest.mark.parametrize("answer", RIGHT.values(), ids=RIGHT)
def test_right_loops_pass(answer):
    result = generate(answer)
    assert (result.status, result.mistake) == ("passed", None), result


@pytest.mark.parametrize(
    ("answer", "remarks"),
    [(made(LOOP), 0), (RIGHT["eval"], 1), (mode_restored, 0),
     (refuses_training, 0)],
)  # fmt: skip
def test_who_leaves_eval_mode_hears_of_it(answer, remarks):
    """`model.eval()` is the notebook's own mend, so it is no mistake."""
    message = generate(answer).message
    assert message.count("comes back in evaluation mode") == remarks


def test_learners_may_change_the_public_configurations(monkeypatch):
    for cfg in (GPT_CONFIG_124M, *GPT2_CONFIGS.values()):
        for key in cfg:
            monkeypatch.setitem(cfg, key, 7)
    assert generate(made(LOOP)).status == "passed"
    assert stop_at_end(made(STOP)).status == "passed"
    assert batch_prompts(made(BATCH)).status == "passed"


CROP = "idx[:, -context_size:]"
CHOICE = "torch.argmax(probas, dim=-1, keepdim=True)"
BEST = "best.indices[:, None]"
JOIN = "torch.cat((idx, idx_next), dim=1)"
WINDOW = "text[..., max(0, text.shape[1] - context_size):]"
COPY = ("    for _", "    start = idx\n    for _")
WRONG = [
    ("first-window-kept", LOOP, [(CROP, "idx[:, :context_size]")]),
    ("first-window-kept", WHILE, [(WINDOW, "text[..., :context_size]")]),
    ("not-cropped", LOOP, [(CROP, "idx")]),
    ("not-cropped", WHILE, [(WINDOW, "text")]),
    ("not-cropped", LOOP, [(CROP, "idx[-context_size:]")]),
    ("not-cropped", FILLED, [("max(0, i - context_size)", "0")]),
    ("not-cropped", FILLED, [("max(0, i - context_size)",
                              "max(0, n - context_size)")]),
    ("crop-off-by-one", LOOP, [(CROP, "idx[:, -context_size + 1:]")]),
    ("crop-off-by-one", LOOP, [(CROP, "idx[:, -context_size - 1:]")]),
    ("crop-off-by-one", LOOP, [(CROP, "idx[:, -context_size:-1]")]),
    ("crop-inverted", LOOP, [(CROP, "idx[:, :-context_size]")]),
    ("crop-inverted", LOOP, [(CROP, "idx[:, context_size:]")]),
    ("crop-start-negative", FILLED, [("max(0, i - context_size)",
                                      "i - context_size")]),
    ("crop-start-negative", WHILE, [(WINDOW, "text[..., text.shape[1] - "
                                     "context_size:]")]),
    ("reads-last-token-only", LOOP, [(CROP, "idx[:, -1:]")]),
    ("context-not-grown", LOOP, [COPY, (CROP, "start[:, -context_size:]")]),
    ("context-not-grown", WHILE, [("torch.hstack(out)\n        window",
                                   "idx\n        window")]),
    ("context-not-grown", LOOP, [
        ("    for _", f"    context = {CROP}\n    for _"),
        (f"        context = {CROP}\n        with", "        with")]),
    ("argmin", LOOP, [("argmax", "argmin")]),
    ("argmin", WHILE, [(".max(", ".min(")]),
    ("all-positions", LOOP, [(CHOICE, "logits.argmax(dim=-1)")]),
    ("all-positions", WHILE, [("[:, -1].max", ".max"),
                              (BEST, "best.indices")]),
    ("not-last-position", LOOP, [("logits[:, -1, :]", "logits[:, 0, :]")]),
    ("not-last-position", FILLED, [("scores[:, -1]", "scores[:, 0]")]),
    ("not-last-position", LOOP, [("logits[:, -1, :]", "logits[:, -2, :]")]),
    ("flattened", LOOP, [(CHOICE, "logits.argmax().reshape(1, 1)")]),
    ("flattened", LOOP, [(CHOICE, "torch.argmax(logits)")]),
    ("flattened", LOOP, [(CHOICE, "logits.argmax().view(1, 1)"
                          ".repeat(len(idx), 1)")]),
    ("flattened", WHILE, [(BEST, "model(window).flatten(1)"
                           ".argmax(1)[:, None]")]),
    ("batch-ignored", LOOP, [(CHOICE, "probas[0].argmax().view(1, 1)")]),
    ("batch-ignored", LOOP, [(CHOICE, "torch.full((len(idx), 1), "
                              "probas[0].argmax().item())")]),
    ("batch-ignored", LOOP, [(CHOICE, "probas.argmax(-1).item()"),
                             (JOIN, "torch.cat((idx, torch.tensor("
                              "[[idx_next]])), dim=1)")]),
    ("batch-ignored", LOOP, [("return idx", "return idx[:1]")]),
    ("keepdim-missing", LOOP, [(", keepdim=True", "")]),
    ("keepdim-missing", WHILE, [(BEST, "best.indices")]),
    ("keepdim-missing", LOOP, [(JOIN, "torch.hstack((idx, idx_next))"),
                               (", keepdim=True", "")]),
    ("wrong-axis", LOOP, [(CHOICE, "probas.argmax(dim=0, keepdim=True)")]),
    ("wrong-axis", LOOP, [(CHOICE, "logits.argmax(dim=1)")]),
    ("wrong-axis", WHILE, [(BEST, "model(window).max(1).indices[:, -1:]")]),
    ("wrong-axis", LOOP, [("logits[:, -1, :]", "logits[:, :, -1]")]),
    ("softmax-wrong-axis", LOOP, [("softmax(last, dim=-1)",
                                   "softmax(last, dim=0)")]),
    ("softmax-wrong-axis", LOOP, [("logits[:, -1, :]",
                                   "logits.softmax(1)[:, -1, :]")]),
    ("values-not-ids", WHILE, [(BEST, "best.values[:, None]")]),
    ("values-not-ids", LOOP, [(CHOICE, "probas.amax(-1, keepdim=True)")]),
    ("several-ids", LOOP, [(CHOICE, "probas.topk(2).indices")]),
    ("second-best", LOOP, [(CHOICE, "probas.sort().indices[:, -2:-1]")]),
    ("prepended", LOOP, [(JOIN, "torch.cat((idx_next, idx), dim=1)")]),
    ("prepended", WHILE, [("out.append(", "out.insert(0, ")]),
    ("joined-on-wrong-axis", LOOP, [("dim=1)", "dim=0)")]),
    ("last-token-overwritten", LOOP, [("((idx,", "((idx[:, :-1],")]),
    ("window-slid", LOOP, [("((idx,", "((idx[:, 1:],")]),
    ("text-replaced", LOOP, [(JOIN, "idx_next")]),
    ("token-twice", LOOP, [("(idx, idx_next)", "(idx, idx_next, idx_next)")]),
    ("one-token-too-many", LOOP, [("range(max_new_tokens)",
                                   "range(max_new_tokens + 1)")]),
    ("one-token-too-many", WHILE, [("count <", "count <=")]),
    ("one-token-too-few", LOOP, [("range(max_new_tokens)",
                                  "range(1, max_new_tokens)")]),
    ("one-token-too-few", LOOP, [("return idx", "return idx[:, :-1]")]),
    ("returns-too-early", LOOP, [("    return", "        return")]),
    ("returns-too-early", WHILE, [("    return", "        return")]),
    ("prompt-counted", LOOP, [("range(max_new_tokens)",
                               "range(max_new_tokens - idx.shape[1])")]),
    ("prompt-counted", LOOP, [("for _ in range(max_new_tokens):",
                               "while idx.shape[1] < max_new_tokens:")]),
    ("stops-at-context", LOOP, [
        ("    return", "        if idx.shape[1] >= context_size: break\n"
         "    return")]),
    ("stops-at-context", LOOP, [
        ("        context =", "        if idx.shape[1] >= context_size: "
         "break\n        context =")]),
    ("rounds-from-context", LOOP, [("range(max_new_tokens)",
                                    "range(context_size)")]),
    ("prompt-missing", LOOP, [COPY, ("return idx",
                                     "return idx[:, start.shape[1]:]")]),
    ("prompt-missing", FILLED, [("return out", "return out[:, n:]")]),
    ("prompt-missing", WHILE, [("return torch.hstack(out)",
                                "return torch.hstack(out[1:])")]),
    ("last-token-only", LOOP, [("return idx", "return idx_next")]),
    ("prompt-cropped", LOOP, [("return idx",
                               "return idx[:, -context_size:]")]),
    ("prompt-cropped", LOOP, [("context = ", "context = idx = ")]),
    ("prompt-cropped", LOOP, [("    for _", f"    idx = {CROP}\n    for _")]),
    ("batch-axis-lost", LOOP, [("return idx", "return idx.squeeze(0)")]),
    ("batch-axis-lost", LOOP, [("return idx", "return idx[0]")]),
    ("prompt-twice", LOOP, [COPY, ("return idx",
                                   "return torch.cat((start, idx), 1)")]),
    ("samples", LOOP, [(CHOICE, "torch.multinomial(probas, 1)")]),
    ("samples", LOOP, [(CHOICE, "torch.distributions.Categorical(probas)"
                        ".sample()[:, None]")]),
    ("samples", LOOP, [("    for", "    torch.manual_seed(1)\n    for"),
                       (CHOICE, "torch.multinomial(probas, 1)")]),
    ("gradient-kept", LOOP, [("with torch.no_grad()", "if True")]),
    ("gradient-kept", WHILE, [("@torch.inference_mode()\n", "")]),
    ("gradient-kept", LOOP, [("with torch.no_grad()", "if True"),
                             ("model(context)", "model(context).detach()")]),
    ("gradient-left-off", LOOP, [("with torch.no_grad()",
                                  "if not torch.set_grad_enabled(False)"),
                                 ("if not torch.set_grad_enabled(False)",
                                  "torch.set_grad_enabled(False)\n"
                                  "        if True")]),
    ("mode-changed", LOOP, [("    return", "    model.train()\n    return")]),
    ("model-frozen", LOOP, [
        ("    for", "    model.requires_grad_(False)\n    for")]),
    ("input-overwritten", LOOP, [
        (JOIN, f"{JOIN}\n        start.resize_(idx.shape).copy_(idx)"),
        COPY]),
    ("input-overwritten", LOOP, [(JOIN, "idx\n        idx[:, -1:] = "
                                  "idx_next")]),
    ("stops-early", LOOP, [
        ("    return", "        if (idx_next == 50256).all(): break\n"
         "    return")]),
    ("stops-early", LOOP, [
        ("        idx = ", "        if (idx_next == idx[:, -1:]).all(): "
         "break\n        idx = ")]),
    ("limit-ignored", LOOP, [("for _ in range(max_new_tokens)",
                              "while True")]),
    ("not-cropped", LOOP, [("for _ in range(max_new_tokens)", "while True"),
                           (CROP, "idx"), (CHOICE, "logits.argmax(-1)")]),
    ("float-ids", LOOP, [("return idx", "return idx.float()")]),
    ("not-a-tensor", LOOP, [("return idx", "return idx.tolist()")]),
    ("not-a-tensor", LOOP, [("return idx", "return idx, logits")]),
    ("returns-none", LOOP, [("return idx", "print(idx)")]),
    ("returns-none", WHILE, [("return torch.hstack(out)",
                              "torch.hstack(out)")]),
    ("wrong-values", LOOP, [("dim=-1, keepdim=True)",
                             "dim=-1, keepdim=True) // 2 * 2")]),
    # Right for most callers.
    ("stops-early", LOOP, [("range(max_new_tokens)",
                            "range(min(max_new_tokens, 30))")]),
    ("position-of-whole-text", LOOP, [("[:, -1, :]",
                                       "[:, idx.shape[1] - 1]")]),
    ("not-last-position", LOOP, [("[:, -1, :]", "[:, len(context) - 1]")]),
    ("not-last-position", LOOP, [("[:, -1, :]", "[:, context_size - 1]")]),
    ("not-cropped", LOOP, [("-context_size:",
                            "-model.pos_emb.num_embeddings:")]),
    ("model-taken-apart", LOOP, [("model(context)",
                                  "model.trf_blocks(context)")]),
    ("generator-used", LOOP, [("    for", "    torch.manual_seed(0)\n"
                               "    for")]),
    ("generator-used", LOOP, [("    for", "    random.seed(0)\n    for")]),
    ("generator-used", LOOP, [("softmax(last,", "softmax(last + 1e-9 * "
                               "torch.rand(1),")]),
    ("samples", LOOP, [(CHOICE, "probas.topk(2).indices[:, random.randrange("
                        "2)][:, None]")]),
    ("not-repeatable", LOOP, [
        ("context_size):", "context_size, seen=[]):"),
        ("    return idx", "    seen += [1]\n"
         "    return idx if len(seen) < 5 else torch.cat((idx, idx), 1)")]),
    ("dropout-in-evaluation", LOOP, [
        ("    for", "    model.train()\n    for"),
        ("    return", "    model.eval()\n    return")]),
    ("gradients-turned-on", LOOP, [
        ("    for", "    torch.set_grad_enabled(False)\n    for"),
        ("    return", "    torch.set_grad_enabled(True)\n    return")]),
    ("gradients-left", LOOP, [
        ("    for", "    for p in model.parameters():\n"
         "        p.grad = torch.zeros_like(p)\n    for")]),
    ("weights-changed", LOOP, [
        ("    return", "    model.tok_emb.weight.data.mul_(0.5)\n"
         "    return")]),
    ("exception", LOOP, [("    for", "    flat = idx.view(-1)\n    for")]),
    ("wrong-shape", LOOP, [("    return idx", "    return idx.unique(dim=0) "
                            "if len(idx) > 3 else idx")]),
    ("wrong-shape", LOOP, [("    for", "    idx = idx[:3]\n    for")]),
    ("exception", LOOP, [("(max_new_tokens):", "(max_new_token):")]),
    # Two at once: the first is named.
    ("first-window-kept", LOOP, [(CROP, "idx[:, :context_size]"),
                                 ("argmax", "argmin")]),
    ("not-last-position", LOOP, [("logits[:, -1, :]", "logits[:, 0, :]"),
                                 ("range(max_new_tokens)",
                                  "range(max_new_tokens + 1)")]),
    ("not-cropped", LOOP, [(CROP, "idx"), COPY, (
        "return idx", "return idx[:, start.shape[1]:]")]),
]  # fmt: skip


def named(rows):
    return [f"{i}-{row[0]}" for i, row in enumerate(rows)]


@pytest.mark.parametrize(
    ("name", "source", "changes"), WRONG, ids=named(WRONG)
)
def test_wrong_loops_are_diagnosed(name, source, changes):
    result = generate(made(source, *changes))
    assert result.status == "failed"
    assert result.mistake == renamed(name, "generation"), result
    assert len(result.message) < 500
    assert torch.is_grad_enabled()


@pytest.mark.parametrize("shape", ["idx[0, 0]", "idx[0]", "idx[None]"])
def test_a_wrong_shape_is_a_message(shape):
    """Even where the ids, too, are wrong in a way of their own."""
    result = generate(made(LOOP, (CHOICE, f"{CHOICE} // 2 * 2"),
                           ("return idx", f"return {shape}")))  # fmt: skip
    assert result.mistake == "wrong-shape", result


def test_the_message_holds_input_and_both_results():
    message = generate(made(LOOP, ("argmax", "argmin"))).message
    for word in ("[[17, 4]]", "max_new_tokens=1", "context_size=8",
                 "expected [[17, 4, 5]]",
                 "least probable"):  # fmt: skip
        assert word in message, message


def test_the_message_of_a_missing_axis_holds_the_error():
    message = generate(made(LOOP, (", keepdim=True", ""))).message
    assert "RuntimeError" in message and "(batch, 1)" in message


CHECKS = [generate, stop_at_end, batch_prompts]


def docstring_only(model, idx, max_new_tokens, context_size, end_id=None):
    """Append tokens."""


def raising(model, idx, max_new_tokens, context_size, end_id=None):
    raise NotImplementedError


def raise_left(model, idx, max_new_tokens, context_size, end_id=None):
    for _ in range(max_new_tokens):
        with torch.no_grad():
            raise NotImplementedError("later")


def raise_above(model, idx, max_new_tokens, context_size, end_id=None):
    raise NotImplementedError
    return generate_text_simple(model, idx, max_new_tokens, context_size)


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("stub", [None, ..., docstring_only, raising])
def test_stubs_are_not_attempted(check, stub):
    assert check(stub).status == "not attempted"


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("written", [raise_left, raise_above])
def test_a_raise_that_was_left_is_told(check, written):
    result = check(written)
    assert (result.status, result.mistake) == ("failed", "raise-left")


@pytest.mark.parametrize("check", CHECKS)
def test_an_exception_names_line_and_cause(check):
    def answer(model, idx, max_new_tokens, context_size, end_id=None):
        return idx.no_such_thing  # here

    result = check(answer)
    assert result.mistake == "exception"
    for word in ("return idx.no_such_thing", "AttributeError"):
        assert word in result.message


@pytest.mark.parametrize("check", CHECKS)
def test_a_wrong_signature_is_a_message(check):
    assert check(lambda model: 1).mistake == "wrong-signature"


def test_softmax_on_whole_numbers_is_no_stub():
    """torch raises NotImplementedError for it."""
    result = generate(made(LOOP, ("softmax(last,", "softmax(last.long(),")))
    assert (result.status, result.mistake) == ("failed", "exception")


def test_a_one_dimensional_input_names_the_learners_line():
    result = generate(made(LOOP, ("model(context)", "model(context[0])")))
    assert result.mistake == "exception"
    assert "(batch, tokens)" in result.message


# --- stop at the end -----------------------------------------------------

STOP = """
def answer(model, idx, max_new_tokens, context_size, end_id):
    start = idx
    for _ in range(max_new_tokens):
        with torch.no_grad():
            logits = model(idx[:, -context_size:])
        idx_next = logits[:, -1].argmax(dim=-1, keepdim=True)
        idx = torch.cat((idx, idx_next), dim=1)
        if idx_next.item() == end_id:
            break
    return idx
"""
STOP_LIST = """
@torch.no_grad()
def answer(model, idx, max_new_tokens, context_size, end_id):
    text = idx[0].tolist()
    new = []
    while len(new) < max_new_tokens and end_id not in new:
        window = torch.tensor([(text + new)[-context_size:]])
        new.append(int(torch.argmax(model(window)[0, -1])))
    return torch.tensor([text + new])
"""


def stop_afterwards(model, idx, max_new_tokens, context_size, end_id):
    out = generate_text_simple(model, idx, max_new_tokens, context_size)
    tokens = idx.shape[1]
    for i in range(tokens, out.shape[1]):
        if out[0, i] == end_id:
            return out[:, : i + 1]
    return out


def stop_by_one(model, idx, max_new_tokens, context_size, end_id):
    for _ in range(max_new_tokens):
        idx = generate_text_simple(model, idx, 1, context_size)
        if (idx[:, -1] == end_id).all():
            return idx
    return idx


def stop_recursive(model, idx, max_new_tokens, context_size, end_id):
    if max_new_tokens == 0:
        return idx
    idx = generate_text_simple(model, idx, 1, context_size)
    if idx[0, -1] == end_id:
        return idx
    return stop_recursive(model, idx, max_new_tokens - 1, context_size, end_id)


RIGHT_STOPS = [
    made(STOP), made(STOP_LIST), stop_by_one, stop_recursive,
    made(STOP, ("    start", "    model.eval()\n    start")),
    made(STOP, ("    start", "    context_size = min(context_size, "
                "model.pos_emb.weight.shape[0])\n    start")),
    made(STOP, ("idx_next.item() == end_id", "int(idx[:, -1]) == end_id")),
    made(STOP, ("            break", "            max_new_tokens = 0\n"
                "            break")),
    made(STOP, ("idx_next.item() == end_id", "idx_next == end_id")),
    made(STOP, ("idx_next.item() == end_id",
                "torch.equal(idx_next, torch.tensor([[end_id]]))")),
    made(STOP, ("            break", "            return idx")),
    made(STOP, ("idx_next.item() == end_id", "end_id in idx_next")),
    made(STOP, ("idx_next.item() == end_id",
                "end_id in idx[:, start.shape[1]:]")),
    made(STOP, ("        with torch.no_grad()", "        done = False\n"
                "        with torch.no_grad()")),
]  # fmt: skip


def stop_with_flag(model, idx, max_new_tokens, context_size, end_id):
    done = False
    for _ in range(max_new_tokens):
        longer = generate_text_simple(model, idx, 1, context_size)
        idx = idx if done else longer
        done = done or bool(longer[0, -1] == end_id)
    return idx


def stop_a_round_late(model, idx, max_new_tokens, context_size, end_id):
    new = None
    for _ in range(max_new_tokens):
        longer = generate_text_simple(model, idx, 1, context_size)
        if new == end_id:
            break
        idx, new = longer, longer[0, -1]
    return idx


@pytest.mark.parametrize(
    ("answer", "calls"),
    [(stop_afterwards, 8), (stop_with_flag, 8), (stop_a_round_late, 4)],
)
def test_a_loop_that_is_cut_afterwards_has_not_stopped(answer, calls):
    """The task: it returns as soon as it has appended end_id."""
    result = stop_at_end(answer)
    assert result.mistake == "runs-on-after-end", result
    assert f"called {calls} times for 3 new tokens" in result.message


@pytest.mark.parametrize("answer", RIGHT_STOPS)
def test_right_stops_pass(answer):
    result = stop_at_end(answer)
    assert (result.status, result.mistake) == ("passed", None), result


TEST = "if idx_next.item() == end_id:"
WRONG_STOPS = [
    ("never-stops", STOP, [(TEST, "if False:")]),
    ("never-stops", STOP, [(TEST, "if idx_next is end_id:")]),
    ("never-stops", STOP_LIST, [(" and end_id not in new", "")]),
    ("end-id-hardcoded", STOP, [(TEST, "if idx_next.item() == 50256:")]),
    ("end-id-hardcoded", STOP_LIST, [("end_id not", "50256 not")]),
    ("end-dropped", STOP, [
        ("        idx = ", f"        {TEST} break\n        idx = ")]),
    ("end-dropped", STOP, [("            break",
                            "            return idx[:, :-1]")]),
    ("end-dropped", STOP_LIST, [("    return", "    if end_id in new: "
                                 "new.remove(end_id)\n    return")]),
    ("prompt-stops", STOP, [(TEST, "if (idx == end_id).any():")]),
    ("prompt-stops", STOP, [(TEST, "if end_id in idx:")]),
    ("prompt-stops", STOP_LIST, [("end_id not in new",
                                  "end_id not in text + new")]),
    ("prompt-stops", STOP, [(f"        {TEST}\n            break\n", ""),
                            ("        with", "        if idx[0, -1] == "
                             "end_id: break\n        with")]),
    ("one-past-end", STOP, [(TEST, "if idx[0, -2] == end_id and "
                             "idx.shape[1] > start.shape[1] + 1:")]),
    ("one-past-end", STOP_LIST, [("not in new", "not in new[:-1]")]),
    ("stop-inverted", STOP, [("== end_id", "!= end_id")]),
    ("stop-inverted", STOP_LIST, [("and end_id not in new",
                                   "and set(new) <= {end_id}")]),
    ("stops-late", STOP, [
        (TEST + "\n            break", TEST + "\n            n = "
         "max_new_tokens - (idx.shape[1] - start.shape[1])\n            "
         "return torch.cat((idx, torch.full((1, n), end_id)), 1)")]),
    ("limit-ignored", STOP, [("for _ in range(max_new_tokens)",
                              "while True")]),
    ("limit-ignored", STOP_LIST, [("len(new) < max_new_tokens and ", "")]),
    ("prompt-missing", STOP_LIST, [("[text + new])", "[new])")]),
    ("batch-axis-lost", STOP_LIST, [("tensor([text + new])",
                                     "tensor(text + new)")]),
    ("batch-axis-lost", STOP, [("    return idx", "    return idx[0]")]),
    ("first-window-kept", STOP, [("-context_size:", ":context_size")]),
    ("not-cropped", STOP_LIST, [("[-context_size:]", "")]),
    ("one-token-too-many", STOP, [("range(max_new_tokens)",
                                   "range(max_new_tokens + 1)")]),
    ("one-token-too-few", STOP, [("range(max_new_tokens)",
                                  "range(max_new_tokens - 1)")]),
    ("argmin", STOP, [("argmax", "argmin")]),
    ("keepdim-missing", STOP, [(", keepdim=True", "")]),
    ("not-last-position", STOP, [("logits[:, -1]", "logits[:, 0]")]),
    ("gradient-kept", STOP, [("with torch.no_grad()", "if True")]),
    ("stops-early", STOP, [("range(max_new_tokens)",
                            "range(min(30, max_new_tokens))")]),
    ("stops-early", STOP, [("== end_id", ">= end_id")]),
    ("stops-early", STOP, [("== end_id:", "== end_id or end_id in seen:"),
                           ("end_id):", "end_id, seen=[]):"),
                           ("        if idx", "        seen += idx_next\n"
                            "        if idx")]),
    ("stops-late", STOP, [(TEST, "if end_id and idx_next.item() == end_id:")]),
    ("stops-late", STOP, [(TEST, "if idx_next.item() is end_id:")]),
    ("position-of-whole-text", STOP, [("[:, -1]", "[:, idx.shape[1] - 1]")]),
    ("generator-used", STOP, [("    start", "    torch.manual_seed(123)\n"
                               "    start")]),
    ("mode-changed", STOP, [("            break", "            break\n"
                             "    model.train()")]),
    ("returns-none", STOP, [("    return idx", "    idx")]),
    ("returns-none", STOP, [("    return idx", ""),
                            ("            break", "            return idx")]),
    ("not-a-tensor", STOP_LIST, [("torch.tensor([text + new])",
                                  "text + new")]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "source", "changes"), WRONG_STOPS, ids=named(WRONG_STOPS)
)
def test_wrong_stops_are_diagnosed(name, source, changes):
    result = stop_at_end(made(source, *changes))
    assert result.status == "failed"
    assert result.mistake == renamed(name, "generation"), result
    assert len(result.message) < 500


def test_the_message_of_a_stop_holds_its_numbers():
    message = stop_at_end(made(STOP, (TEST, "if False:"))).message
    for word in ("[[4, 9, 2, 17]]", "end_id=20", "12, 5, 20]]"):
        assert word in message, message


# --- two prompts at once -------------------------------------------------

BATCH = """
def answer(model, prompts, max_new_tokens, context_size):
    rows = [list(prompt) for prompt in prompts]
    for _ in range(max_new_tokens):
        contexts = [row[-context_size:] for row in rows]
        longest = max(len(context) for context in contexts)
        padded = [c + [0] * (longest - len(c)) for c in contexts]
        with torch.no_grad():
            logits = model(torch.tensor(padded))
        for row, context, scores in zip(rows, contexts, logits):
            row.append(scores[len(context) - 1].argmax().item())
    return rows
"""
SINGLY = """
def answer(model, prompts, max_new_tokens, context_size):
    out = []
    for prompt in prompts:
        idx = torch.tensor([prompt])
        idx = generate_text_simple(model, idx, max_new_tokens, context_size)
        out.append(idx[0].tolist())
    return out
"""
RECT = """
def answer(model, prompts, max_new_tokens, context_size):
    longest = max(len(p) for p in prompts)
    rect = torch.tensor([p + [0] * (longest - len(p)) for p in prompts])
    rect = generate_text_simple(model, rect, max_new_tokens, context_size)
    rows = rect.tolist()
    return [r[:len(p)] + r[longest:] for r, p in zip(rows, prompts)]
"""
LEFT = """
def answer(model, prompts, max_new_tokens, context_size):
    longest = max(len(p) for p in prompts)
    rect = torch.tensor([[0] * (longest - len(p)) + p for p in prompts])
    rect = generate_text_simple(model, rect, max_new_tokens, context_size)
    rows = rect.tolist()
    return [r[longest - len(p):] for r, p in zip(rows, prompts)]
"""


def by_length(model, prompts, max_new_tokens, context_size):
    out = [None] * len(prompts)
    for length in {len(p) for p in prompts}:
        places = [i for i, p in enumerate(prompts) if len(p) == length]
        idx = torch.tensor([prompts[i] for i in places])
        idx = generate_text_simple(model, idx, max_new_tokens, context_size)
        for i, row in zip(places, idx.tolist(), strict=True):
            out[i] = row
    return out


def padded_tensor(model, prompts, max_new_tokens, context_size):
    rows = [torch.tensor(p) for p in prompts]
    for _ in range(max_new_tokens):
        cut = [r[-context_size:] for r in rows]
        ends = torch.tensor([len(c) - 1 for c in cut])
        idx = torch.nn.utils.rnn.pad_sequence(
            cut, batch_first=True, padding_value=7
        )
        with torch.inference_mode():
            last = model(idx)[torch.arange(len(cut)), ends]
        rows = [torch.cat((r, new)) for r, new in
                zip(rows, last.argmax(-1, keepdim=True),
                    strict=True)]  # fmt: skip
    return [r.tolist() for r in rows]


def each_once(model, prompts, max_new_tokens, context_size):
    """Equal prompts go on equally."""
    singly, done = made(SINGLY), {}
    for prompt in map(tuple, prompts):
        if prompt not in done:
            (done[prompt],) = singly(
                model, [[*prompt]], max_new_tokens, context_size
            )
    return [[*done[tuple(prompt)]] for prompt in prompts]


RIGHT_BATCHES = [
    made(BATCH), each_once,
    made(BATCH, ("    rows", "    model.eval()\n    rows")),
    made(BATCH, ("[list(prompt) for prompt in prompts]",
                 "copy.deepcopy(prompts)")),
    made(BATCH, ("max(len(context) for context in contexts)",
                 "context_size")),
    made(BATCH, ("    rows", "    context_size = min(context_size, "
                 "model.pos_emb.num_embeddings)\n    rows")),
    # Hint 3, word for word.
    made(BATCH, ("for row, context, scores in zip(rows, contexts, logits)",
                 "for row, context in enumerate(contexts)"),
         ("            row", "            length = len(context)\n"
          "            rows[row]"),
         ("scores[len(context) - 1]", "logits[row, length - 1]")),
 made(SINGLY), by_length, padded_tensor,
    made(BATCH, ("[0] *", "[28] *")), made(BATCH, ("[0] *", "c[-1:] *")),
    made(BATCH, ("list(prompt)", "prompt.copy()")),
    made(BATCH, (".argmax().item()", ".topk(1).indices.tolist()[0]")),
    made(BATCH, ("rows = [list(prompt) for prompt in prompts]",
                 "rows = [[*p] for p in prompts]"),
         ("scores[len(context) - 1]",
          "scores[:len(context)][-1].softmax(-1)")),
    made(SINGLY, ("idx[0].tolist()", "[int(i) for i in idx[0]]")),
]  # fmt: skip


@pytest.mark.parametrize("answer", RIGHT_BATCHES)
def test_right_batches_pass(answer):
    result = batch_prompts(answer)
    assert (result.status, result.mistake) == ("passed", None), result


@pytest.mark.parametrize(
    ("answer", "remarks"),
    [(made(BATCH), 0), (padded_tensor, 0), (made(SINGLY), 1),
     (each_once, 1), (by_length, 1)],
)  # fmt: skip
def test_who_runs_prompts_one_by_one_hears_of_it(answer, remarks):
    """The task asks for the ids alone, and a hint calls that loop right."""
    message = batch_prompts(answer).message
    assert message.count("calls the model once for each") == remarks


PLACE = "scores[len(context) - 1]"
FILL = "c + [0] * (longest - len(c))"
WRONG_BATCHES = [
    ("padded-left", LEFT, []),
    ("padded-left", BATCH, [(FILL, "[0] * (longest - len(c)) + c"),
                            (PLACE, "scores[-1]")]),
    ("reads-padding", RECT, []),
    ("reads-padding", BATCH, [(PLACE, "scores[-1]")]),
    ("reads-padding", BATCH, [(PLACE, "scores[longest - 1]")]),
    ("padding-kept", BATCH, [
        ("return rows", "m = max(map(len, rows))\n"
         "    return [r + [0] * (m - len(r)) for r in rows]")]),
    ("padding-kept", RECT, [("r[:len(p)] + r[longest:]", "r")]),
    ("padding-kept", LEFT, [("r[longest - len(p):]", "r")]),
    ("padding-by-id", BATCH, [
        ("return rows", "return [[i for i in r if i] for r in rows]")]),
    ("padding-by-id", BATCH, [(PLACE, "scores[sum(i != 0 for i in "
                               "context) - 1]")]),
    ("cut-to-shortest", SINGLY, [("[prompt]", "[prompt[:min(map(len, "
                                  "prompts))]]")]),
    ("cut-to-shortest", BATCH, [("list(prompt)", "prompt[-min(map(len, "
                                 "prompts)):]")]),
    ("lengths-evened", SINGLY, [("idx, max_new_tokens",
                                 "idx, max(map(len, prompts)) + "
                                 "max_new_tokens - len(prompt)")]),
    ("cropped-after-padding", BATCH, [
        ("row[-context_size:] for", "row for"),
        ("torch.tensor(padded)", "torch.tensor(padded)[:, -context_size:]"),
        (PLACE, "scores[-1]")]),
    ("first-window-kept", BATCH, [("-context_size:", ":context_size")]),
    ("first-window-kept", SINGLY, [
        ("idx = generate_text_simple(model, idx, max_new_tokens, "
         "context_size)",
         "for _ in range(max_new_tokens):\n"
         "            with torch.no_grad():\n"
         "                x = model(idx[:, :context_size])\n"
         "            idx = torch.cat((idx, x[:, -1:].argmax(-1)), 1)")]),
    ("not-cropped", BATCH, [("row[-context_size:]", "row")]),
    ("not-cropped", SINGLY, [("max_new_tokens, context_size)\n        out",
                              "max_new_tokens, 1000)\n        out")]),
    ("crop-off-by-one", BATCH, [("-context_size:", "-context_size - 1:")]),
    ("not-last-position", BATCH, [("len(context) - 1", "len(context) - 2")]),
    ("not-last-position", BATCH, [("len(context) - 1", "0")]),
    ("not-last-position", BATCH, [("len(context) - 1", "len(context)")]),
    ("not-cropped", BATCH, [("for context in contexts)",
                             "for context in rows)")]),
    ("padding-outside-vocabulary", BATCH, [("[0] *", "[-1] *")]),
    ("padding-outside-vocabulary", BATCH, [("[0] *", "[50256] *")]),
    ("argmin", BATCH, [("argmax", "argmin")]),
    ("one-token-too-many", BATCH, [("range(max_new_tokens)",
                                    "range(max_new_tokens + 1)")]),
    ("one-token-too-few", SINGLY, [("[0].tolist()", "[0, :-1].tolist()")]),
    ("returns-too-early", BATCH, [("    return", "        return")]),
    ("rows-missing", SINGLY, [("    return", "        return")]),
    ("prompt-missing", SINGLY, [("idx[0].tolist()",
                                 "idx[0, len(prompt):].tolist()")]),
    ("prompt-missing", BATCH, [("return rows", "return [r[len(p):] for r, p "
                                "in zip(rows, prompts)]")]),
    ("rows-reordered", SINGLY, [("in prompts:",
                                 "in sorted(prompts, key=len):")]),
    ("rows-reordered", BATCH, [("return rows", "return rows[::-1]")]),
    ("prompts-changed", BATCH, [("list(prompt)", "prompt")]),
    ("prompts-changed", BATCH, [("[list(prompt) for prompt in prompts]",
                                 "list(prompts)")]),
    ("not-padded", BATCH, [(FILL, "c")]),
    ("not-padded", SINGLY, [("    for", "    torch.tensor(prompts)\n"
                             "    for")]),
    ("not-lists", BATCH, [("return rows", "return [torch.tensor(r) for r in "
                           "rows]")]),
    ("not-lists", RECT, [("    rows = rect.tolist()\n", "    return rect\n"
                          "    rows = []\n")]),
    ("ids-are-tensors", BATCH, [(".item()", "")]),
    ("nested-too-deep", SINGLY, [("idx[0].tolist()", "idx.tolist()")]),
    ("returns-none", BATCH, [("return rows", "print(rows)")]),
    ("gradient-kept", BATCH, [("with torch.no_grad()", "if True")]),
    ("wrong-values", BATCH, [  # one prompt becomes what another one is
        ("for row, context, scores in zip(rows, contexts, logits)",
         "for row in rows"),
        (PLACE, "logits[rows.index(row), len(contexts[rows.index(row)]) - 1]",
         )]),
    ("rows-missing", SINGLY, [
        ("    out = []", "    out = {}"),
        ("out.append(idx[0].tolist())",
         "out[tuple(prompt)] = idx[0].tolist()"),
        ("return out", "return list(out.values())")]),
    ("rows-missing", BATCH, [("context_size):", "context_size, rows=[]):"),
                             ("rows = [list", "rows += [list")]),
    ("position-of-whole-text", BATCH, [("len(context) - 1",
                                        "len(row) - 1")]),
    ("wrong-length", BATCH, [("range(max_new_tokens)",
                              "range(min(max_new_tokens, 30))")]),
    ("wrong-length", BATCH, [
        ("    return", "        if all(r[-1] in (0, 50256) for r in rows): "
         "break\n    return")]),
    ("ids-not-int", BATCH, [(".item()", ".float().item()")]),
    ("ids-not-int", BATCH, [(".item()", ".numpy()[()]")]),
    ("generator-used", BATCH, [("    rows", "    torch.manual_seed(1)\n"
                                "    rows")]),
    ("mode-changed", SINGLY, [("    return", "    model.train()\n"
                               "    return")]),
    ("samples", BATCH, [(".argmax()", ".softmax(-1).multinomial(1)")]),
    ("limit-ignored", BATCH, [("for _ in range(max_new_tokens)",
                               "while True")]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "source", "changes"), WRONG_BATCHES, ids=named(WRONG_BATCHES)
)
def test_wrong_batches_are_diagnosed(name, source, changes):
    result = batch_prompts(made(source, *changes))
    assert result.status == "failed"
    assert result.mistake == renamed(name, "generation"), result
    assert len(result.message) < 500


def test_the_message_of_a_batch_holds_its_numbers():
    message = batch_prompts(made(BATCH, (PLACE, "scores[-1]"))).message
    for word in ("[[5, 7, 11, 13], [21, 4]]", "expected [[5, 7, 11, 13,"):
        assert word in message, message
