"""A head of a trained layer as a problem: its logits, attention and answers are those of the layer itself."""

import pytest
import torch
from problems import refuses, seeded
from torch import nn

from heads import head_problem, layer_weights, record, state_weights
from lib.logspace import gradient
from lib.losses import logistic

N, T, D = 5, 6, 8
LABELS = torch.tensor([1.0, -1.0, 1.0, 1.0, -1.0], dtype=torch.float64)
READOUT = torch.randn(D, generator=seeded(1), dtype=torch.float64)


def tokens(*shape):
    return torch.randn(*(shape or (N, T, D)), generator=seeded(0), dtype=torch.float64)


def attention_layer(seed=0, **options):
    """A layer whose biases are not zero, as those of a new one are."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        layer = nn.MultiheadAttention(D, 2, **{"dtype": torch.float64, "batch_first": True} | options)
        for parameter in layer.parameters():
            nn.init.normal_(parameter, std=0.5)
    return layer.eval()


def encoder(seed=0, **options):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        layer = nn.TransformerEncoderLayer(D, 2, 12, **{"dtype": torch.float64, "batch_first": True} | options)
        for parameter in layer.parameters():
            nn.init.normal_(parameter, std=0.5)
    return layer


def same(first, second, tolerance=1e-12):
    torch.testing.assert_close(first, second, rtol=tolerance, atol=tolerance)


def margins(problem, theta):
    return problem.margins(problem.attention(theta))[0]


@pytest.mark.parametrize("head", [0, 1])
@pytest.mark.parametrize("options", [{}, {"bias": False}], ids=str)
def test_a_head_attends_and_answers_as_its_layer(options, head):
    layer, x = attention_layer(**options), tokens()
    out, attention = layer(x, x, x, average_attn_weights=False)
    problem, theta, scores = head_problem(layer_weights(layer), x, LABELS, READOUT, head, query=2)
    same(problem.attention(theta), attention[:, head, 2])
    same(margins(problem, theta), LABELS * (out[:, 2] @ READOUT))
    assert scores == "exact"
    assert problem.parameter_size == D * (D + (layer.in_proj_bias is not None))


def test_weights_stay_what_they_are_while_the_layer_trains_on():
    layer = attention_layer()
    before = layer_weights(layer)
    kept = [part.clone() for part in before[:-1]]
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.zero_()
    assert all(torch.equal(part, copy) for part, copy in zip(before[:-1], kept, strict=True))


def test_the_gradient_is_that_of_the_layer_in_its_query_and_key_matrices():
    # dL/dW_Q = scale W_K (dL/dW), by the chain rule, so the problem's gradient must give torch's own.
    layer, x = attention_layer(bias=False), tokens()
    problem, theta, _ = head_problem(layer_weights(layer), x, LABELS, READOUT, 1)
    logistic.value(LABELS * (layer(x, x, x)[0][:, 0] @ READOUT)).mean().backward()
    grad = gradient(problem, logistic, theta)
    dW = (grad.log_scale.exp() * grad.direction).unflatten(0, (D, D))
    key = layer.in_proj_weight[D:].detach()[D // 2 : D]
    same(key @ dW / (D // 2) ** 0.5, layer.in_proj_weight.grad[D // 2 : D])


def test_padding_and_a_causal_mask():
    layer, lengths = attention_layer(), [6, 4, 5, 6, 3]
    mask = torch.arange(T) < torch.tensor(lengths)[:, None]
    x = torch.where(mask[..., None], tokens(), 0.0)
    causal = nn.Transformer.generate_square_subsequent_mask(T, dtype=torch.float64)
    hidden = torch.zeros(N, T, dtype=torch.float64).masked_fill(~mask, -torch.inf)
    out, attention = layer(x, x, x, key_padding_mask=hidden, attn_mask=causal, average_attn_weights=False)
    problem, theta, _ = head_problem(
        layer_weights(layer), x, LABELS, READOUT, query=[4, 3, 4, 2, 2], mask=mask, causal=True
    )
    places = torch.arange(N), [4, 3, 4, 2, 2]
    same(problem.attention(theta), attention[places[0], 0, places[1]])
    same(margins(problem, theta), LABELS * (out[places] @ READOUT))
    assert problem.mask.sum(-1).tolist() == [5, 4, 5, 3, 3]


def renamed(layer):
    """The layer's weights as BERT has them, and their names by part."""
    parts = dict(zip(("query", "key", "value"), layer.in_proj_weight.detach().chunk(3), strict=True))
    biases = dict(zip(parts, layer.in_proj_bias.detach().chunk(3), strict=True))
    parts, biases = parts | {"out": layer.out_proj.weight.detach()}, biases | {"out": layer.out_proj.bias.detach()}
    state = {
        f"mine/{part}.{kind}": pair[part] for kind, pair in {"weight": parts, "bias": biases}.items() for part in parts
    }
    return state, {part: f"mine/{part}.weight" for part in parts}


def test_names_of_ones_own():
    layer = attention_layer()
    state, names = renamed(layer)
    for one, other in zip(state_weights(state, 2, names=names), layer_weights(layer), strict=True):
        assert torch.equal(torch.as_tensor(one), torch.as_tensor(other))


def test_slopes_are_the_first_order_of_what_attention_does_in_depth():
    first, second, x = attention_layer(0), attention_layer(1), tokens()

    def answer(shift=0.0):
        hidden = x + first(x, x, x)[0] + shift
        return second(hidden, hidden, hidden)[0][:, 0] @ READOUT

    received, slopes = record(first, answer)
    assert torch.equal(received, x)
    problem, theta, scores = head_problem(layer_weights(first), received, LABELS, slopes[:, 2], query=2)
    assert scores == "first order"
    # Attention of the one that asks moves a little to token 4: what the answer gains is the lead of its score.
    size, asking = 1e-5, torch.zeros(N, T, D, dtype=torch.float64)
    weights = layer_weights(first)
    moved = weights.out[0] @ weights.value[0]
    attention = problem.attention(theta)
    asking[:, 2] = size * (x[:, 4] - torch.einsum("nt,ntd->nd", attention, x)) @ moved.mT
    with torch.no_grad():
        gain = LABELS * (answer(asking) - answer(-asking)) / (2 * size)
    same(problem.scores[:, 4] - (attention * problem.scores).sum(-1), gain, 1e-7)


def turned(x):
    """Rotary positions: pairs of entries turn by an angle that grows with the place."""
    first, second = x.chunk(2, -1)
    angle = torch.arange(x.shape[-2])[:, None] / 10.0 ** torch.arange(first.shape[-1])
    return torch.cat([first * angle.cos() - second * angle.sin(), second * angle.cos() + first * angle.sin()], -1)


def attended(x, turn=lambda one: one, hidden=None):
    """Attention of the first token in head 1 of a layer, by its definition."""
    layer, hidden = attention_layer(), torch.zeros(N, T, dtype=torch.bool) if hidden is None else hidden
    query, key, _ = (x @ layer.in_proj_weight.mT + layer.in_proj_bias).detach().chunk(3, -1)
    query, key = turn(query[..., D // 2 :])[:, 3], turn(key[..., D // 2 :])
    return (torch.einsum("nh,nth->nt", query, key) / (D // 2) ** 0.5).masked_fill(hidden, -torch.inf).softmax(-1)


HIDDEN = torch.arange(T) >= torch.tensor([6, 4, 5, 4, 3])[:, None]
MISTAKEN = {  # what the model attends to, and how the problem is made
    "nothing": (attended(tokens(), hidden=HIDDEN), {"mask": ~HIDDEN}),
    "a layer norm": (attended(nn.functional.layer_norm(tokens(), (D,))), {}),
    "heads": (attended(tokens()), {"weights": state_weights(attention_layer().state_dict(), 4)}),
    "mask": (attended(tokens(), hidden=HIDDEN[1].expand(N, T)), {"mask": HIDDEN[1].expand(N, T)}),
    "rotary": (attended(tokens(), turned), {}),
    "place": (attended(tokens()), {"query": 0}),
}


@pytest.mark.parametrize("case", MISTAKEN)
def test_attention_that_the_model_gives_shows_what_was_mistaken(case):
    seen, changes = MISTAKEN[case]
    given = {"weights": layer_weights(attention_layer()), "tokens": tokens(), "labels": LABELS, "readout": READOUT}
    given |= {"head": 1, "query": 3, "attention": seen} | changes
    if case == "nothing":
        assert head_problem(**given).scores == "exact"
        return
    refuses(lambda: head_problem(**given), "differs from what is computed")


def test_slopes_of_frozen_layers_are_those_of_others():
    x, found = tokens(), []
    for frozen in (False, True):
        layer = nn.TransformerEncoder(encoder(), 2).eval().requires_grad_(not frozen)
        with torch.inference_mode(frozen):
            found.append(record(layer.layers[0].self_attn, lambda layer=layer: layer(x)[:, 0] @ READOUT))
    same(found[1][0], found[0][0])
    same(found[1][1], found[0][1])


def test_slopes_are_those_of_the_output_though_it_is_changed_in_place():
    layer, x = nn.Linear(D, D, dtype=torch.float64), tokens(N, D)
    same(record(layer, lambda: layer(x).mul_(3) @ READOUT)[1], 3 * READOUT.expand(N, D))


STATE, OWN = renamed(attention_layer())
WEIGHTS = layer_weights(attention_layer())
DROPS, FROZEN = attention_layer(dropout=0.5).train(), attention_layer().requires_grad_(False)
PLAIN = {f"{name}_proj.weight": torch.ones(8, 8) for name in ("q", "k", "v", "out")}


def head(**changes):
    return lambda: head_problem(WEIGHTS, **{"tokens": tokens(), "labels": LABELS, "readout": READOUT} | changes)


REFUSED = {
    "another layer": (lambda: layer_weights(nn.Linear(2, 2)), "layer is a Linear: give a MultiheadAttention or"),
    "tokens of the layer's own": (lambda: layer_weights(attention_layer(add_bias_kv=True)), "watch the model"),
    "a prefix without a layer": (lambda: state_weights(PLAIN, 2, "l.4."), "prefix is 'l.4.', the layers are ''"),
    "a name that is not there": (
        lambda: state_weights(STATE, 2, names=OWN | {"out": "mine/o.weight"}), "has no 'mine/o.weight': it has",
    ),
    "names without a part": (lambda: state_weights(STATE, 2, names={"query": "a"}), "names have no key"),
    "heads that do not divide": (lambda: state_weights(STATE, 3, names=OWN), "query matrix has 8 rows: 3 heads"),
    "keys of other heads": (
        lambda: state_weights(PLAIN | {"k_proj.weight": torch.ones(4, D)}, 4), "head have 2 entries, keys 1",
    ),
    "an output matrix of another width": (
        lambda: state_weights(STATE | {"mine/out.weight": torch.ones(D, 6)}, 2, names=OWN), "has 6 columns: 2 heads of",
    ),
    "a bias of another length": (
        lambda: state_weights(STATE | {"mine/out.bias": torch.ones(3)}, 2, names=OWN), "mine/out.bias has 3 entries",
    ),
    "a head that is not there": (head(head=2), "head is 2: the layer has 2, 0 to 1"),
    "a place that is not there": (head(query=6), "query is 6: there are 6 tokens, 0 to 5"),
    "tokens of another width": (head(tokens=tokens(N, T, 3)), "tokens have 3 entries, the layer takes 8"),
    "labels of another number": (head(labels=[1.0, -1.0]), "labels n = 2: give each"),
    "classes 0 and 1": (head(labels=[0.0, 1.0, 1.0, 0.0, 1.0]), "labels contain 0"),
    "a mask for all that ask": (head(mask=torch.ones(2, N, T, dtype=torch.bool)), "mask has shape (2, 5, 6)"),
    "a model in train mode": (
        lambda: record(DROPS, lambda: DROPS(tokens(), tokens(), tokens())[0][:, 0] @ READOUT), "take model.eval()",
    ),
    "a frozen model under no_grad": (
        lambda: record(FROZEN, torch.no_grad()(lambda: FROZEN(tokens(), tokens(), tokens())[0][:, 0] @ READOUT)),
        "run without detach and no_grad",
    ),
    "a mask that leaves none": (head(mask=torch.arange(N)[:, None].expand(N, T) != 2), "mask leaves input 2 no token"),
    "a word for a flag": (head(causal="no"), "causal is 'no'"),
    "the first token of a causal layer": (head(causal=True), "mask leaves an input 1 of 6 tokens"),
    "a readout of another width": (head(readout=torch.ones(3)), "readout has shape (3,): give 8 numbers"),
    "a run without the module": (lambda: record(attention_layer(), lambda: torch.zeros(2)), "was called 0 times"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_refused_in_a_sentence(case):
    refuses(*REFUSED[case])
