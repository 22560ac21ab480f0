"""Small networks with their attention exposed, and the training of several at once: a transformer, and readers.

A transformer is for images. A reader is the papers' model with tokens that are trained, of words or of patches; its
steps are compiled.

Members of an ensemble differ in their seed: initial weights, order of the examples, and, if the caller wants, the
examples themselves. Their parameters are stacked, the member first, so that one step trains them all and each is
what it would be alone. On the CPU all is float64, so that small runs can be repeated on another machine.

A training tells the logger ``lib.networks`` of every epoch. Nothing shows it or keeps it unless asked, as by
``logging.basicConfig(level=logging.INFO)`` in a notebook or program of one's own.
"""

import logging
import math
from contextlib import contextmanager
from itertools import chain
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.func import stack_module_state

from . import checks, geometry

LOG = logging.getLogger(__name__)


class Transformer(nn.Module):
    """Weights of a classifier that reads the token [CLS], put before the others; :func:`apply` runs it.

    Its blocks are those of ``torch.nn.TransformerEncoderLayer``, layer norms first and GELU within.

    Parameters
    ----------
    length, classes : int
        Tokens T of an input, and classes.
    features : int
        Length of a token: inputs are vectors (N, T, features), such as :func:`patches` of images, taken in the floats
        of the weights.
    width, depth, heads : int
        ``heads`` divides ``width``.
    hidden : int
        Width within a block's two-layer network.
    """

    def __init__(self, length, classes, features, *, width=16, depth=2, heads=2, hidden=32):
        super().__init__()
        like = {"dtype": torch.float64}
        sizes = {"length": length, "classes": classes, "features": features, "width": width, "depth": depth}
        for name, size in (sizes | {"heads": heads, "hidden": hidden}).items():
            checks.whole(name, size)
        if width % heads:
            raise ValueError(f"width is {width}, heads is {heads}: choose a width that the heads divide")
        self.heads = heads
        self.embed = nn.Linear(features, width, **like)
        self.cls = nn.Parameter(torch.randn(width, **like) / width**0.5)
        self.places = nn.Parameter(torch.randn(length + 1, width, **like) / width**0.5)
        more = {"activation": nn.functional.gelu, "batch_first": True, "norm_first": True}
        blocks = [nn.TransformerEncoderLayer(width, heads, hidden, 0.0, **more, **like) for _ in range(depth)]
        self.blocks, self.norm = nn.ModuleList(blocks), nn.LayerNorm(width, **like)
        self.head = nn.Linear(width, classes, **like)


def patches(images, size):
    """Square patches of images (N, channels, height, width), in reading order: (N, T, channels size^2)."""
    checks.whole("size", size)
    if images.ndim != 4:
        raise ValueError(f"images has shape {tuple(images.shape)}: give an array of shape (N, channels, height, width)")
    height, width = images.shape[2:]
    if height % size or width % size:
        raise ValueError(f"patch size is {size}, images are {height} x {width}: choose a divisor of both")
    cut = images.unfold(2, size, size).unfold(3, size, size)
    return cut.permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(1, 2)


def precision(device):
    """Return float64 for the CPU and float32 for a GPU, "cuda"; ValueError where there is none, or for another name."""
    if device not in ("cpu", "cuda"):
        raise ValueError(f"device is {device!r}: use cpu or cuda")
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError("device is cuda, but torch sees no GPU here: use device=cpu")
    return torch.float64 if device == "cpu" else torch.float32


def ensemble(seeds, *, device="cpu", **settings):
    """One :class:`Transformer` for each seed.

    Parameters
    ----------
    seeds : sequence of int
        The members' initial weights; torch's own generator is left as it was.
    device : str
        "cpu" or "cuda"; :func:`precision` says in which floats.
    **settings
        Of :class:`Transformer`.

    Returns
    -------
    network : Transformer
        Its structure; its own weights are not used.
    parameters : dict of Tensor
        Each with the members first.
    """
    dtype, numbers, members = precision(device), checks.seeds(seeds), []
    with torch.random.fork_rng():
        for seed in numbers:
            torch.manual_seed(seed)
            members.append(Transformer(**settings))
    parameters, _ = stack_module_state(members)
    return members[0].to(device, dtype), {
        name: value.detach().to(device, dtype).requires_grad_() for name, value in parameters.items()
    }


def apply(network, parameters, inputs):
    """Run all members at once.

    Parameters
    ----------
    network, parameters
        Of :func:`ensemble`.
    inputs : Tensor, shape (members, N, ...) or (N, ...)
        As :class:`Transformer` says; those without members are for all of them.

    Returns
    -------
    logits : Tensor, shape (members, N, classes)
    attention : Tensor, shape (members, N, depth, heads, T + 1)
        Of [CLS], token 0, in each block.
    """
    x = inputs.to(parameters["cls"].dtype)
    x = _linear(x if x.ndim == 4 else x.expand(len(parameters["cls"]), *x.shape), parameters, "embed")
    x = torch.cat([parameters["cls"][:, None, None].expand(*x.shape[:2], 1, -1), x], dim=2)
    x = x + parameters["places"][:, None]
    maps = []
    for k in range(len(network.blocks)):
        own = {
            name.removeprefix(f"blocks.{k}."): w for name, w in parameters.items() if name.startswith(f"blocks.{k}.")
        }
        last = k == len(network.blocks) - 1  # of which only [CLS] is read
        x, attention = _block(own, x, network.heads, last)
        maps.append(attention[..., 0, :])
    x = _layer_norm(x[:, :, 0], parameters, "norm")
    return _linear(x, parameters, "head"), torch.stack(maps, dim=2)


def _block(own, x, heads, last):
    """One block, of which the last is for [CLS] alone: tokens and attention (members, N, heads, asking, T + 1)."""
    read, attention = (_attend_once if last else _attend)(own, _layer_norm(x, own, "norm1"), heads)
    x = x[:, :, : read.shape[2]] + read
    inner = nn.functional.gelu(_linear(_layer_norm(x, own, "norm2"), own, "linear1"))
    return x + _linear(inner, own, "linear2"), attention


def _attend(own, x, heads):
    """What all tokens x (members, N, T + 1, width) read from each other, and their attention."""
    q, k, v = _affine(x, own["self_attn.in_proj_weight"], own["self_attn.in_proj_bias"]).chunk(3, dim=-1)
    q, k, v = (part.unflatten(-1, (heads, -1)).transpose(2, 3) for part in (q, k, v))
    attention = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
    return _linear((attention @ v).transpose(2, 3).flatten(3), own, "self_attn.out_proj"), attention


def _attend_once(own, x, heads):
    """The same of [CLS]: its query goes through the keys' matrix, the mean token through the values', not all tokens.

    The bias of the keys adds the same to the logits of all tokens, which changes nothing.
    """
    queries, keys, values = (w.unflatten(1, (heads, -1)) for w in own["self_attn.in_proj_weight"].chunk(3, dim=1))
    bias_q, _, bias_v = (b.unflatten(1, (heads, -1))[:, None] for b in own["self_attn.in_proj_bias"].chunk(3, dim=1))
    q = torch.einsum("mnw,mhew->mnhe", x[:, :, 0], queries) + bias_q
    towards = torch.einsum("mnhe,mhew->mnhw", q, keys) / q.shape[-1] ** 0.5
    attention = (towards @ x.mT)[:, :, :, None].softmax(-1)
    read = torch.einsum("mnhw,mhew->mnhe", attention[..., 0, :] @ x, values) + bias_v
    return _linear(read.flatten(2)[:, :, None], own, "self_attn.out_proj"), attention


def _affine(x, weight, bias):
    """x (members, N, ..., in) times weight (members, out, in), plus bias (members, out)."""
    return torch.baddbmm(bias[:, None], x.flatten(1, -2), weight.mT).unflatten(1, x.shape[1:-1])


def _linear(x, parameters, name):
    return _affine(x, parameters[f"{name}.weight"], parameters[f"{name}.bias"])


def _layer_norm(x, parameters, name):
    shape = (len(x), *[1] * (x.ndim - 2), -1)
    normed = nn.functional.layer_norm(x, x.shape[-1:])
    return normed * parameters[f"{name}.weight"].view(shape) + parameters[f"{name}.bias"].view(shape)


class MirrorDescent(torch.optim.Optimizer):
    """Mirror descent with the potential ``psi = |w|_p^p / p`` on all parameters; SGD where p = 2.

    Parameters
    ----------
    parameters : iterable of Tensor
        With the members first.
    step_size : float or Tensor of shape (members,)
    norm : float
        p, above 1.
    normalised : bool
        Divide a member's gradient by its dual norm over all its parameters: normalised SGD where p = 2.
    """

    def __init__(self, parameters, step_size, norm=2.0, normalised=False):
        super().__init__(parameters, {"step_size": step_size, "norm": norm, "normalised": normalised})

    @torch.no_grad()
    def step(self):
        """Take one step along the gradients that ``backward`` left."""
        for group in self.param_groups:
            weights, order = group["params"], group["norm"]
            gradient = flat([weight.grad for weight in weights])
            scale = torch.ones_like(gradient[:, 0]) * group["step_size"]
            if group["normalised"]:
                length = geometry.norm(gradient, geometry.dual(order))
                scale = torch.where(length > 0, scale / length, 0.0)
            mirrored = geometry.mirror_map(flat(weights), order) - scale[:, None] * gradient
            moved = geometry.inverse_mirror_map(mirrored, order).split([w[0].numel() for w in weights], dim=1)
            torch._foreach_copy_(weights, [part.view_as(w) for part, w in zip(moved, weights, strict=True)])


class Adam(torch.optim.Adam):
    """Adam of torch, whose moves are linear in its rate, with a step size for each member."""

    def __init__(self, parameters, step_size):
        super().__init__(parameters, 1.0)
        self.step_size = step_size

    @torch.no_grad()
    def step(self):
        """Take one step along the gradients that ``backward`` left."""
        weights = [weight for group in self.param_groups for weight in group["params"]]
        before = [weight.clone() for weight in weights]
        super().step()
        for weight, old in zip(weights, before, strict=True):
            size = torch.as_tensor(self.step_size, dtype=old.dtype, device=old.device).view(-1, *[1] * (old.ndim - 1))
            weight.copy_(old + size * (weight - old))


class Readers(NamedTuple):
    """Record of readers and of their training; all but the weights have the shape (len(at), members).

    at : list of int, numbers of steps.
    losses : mean logistic loss on all rows of a member; NaN, as all else, at looks after a member has stopped.
    paths : lengths of the gradients of all steps so far, together.
    tokens : soft sparsity of the attention, mean over rows and heads.
    weights : dict of Tensor, at the end: ``table`` (members, words, width), both others (members, heads, width).
    """

    at: list[int]
    losses: Tensor
    paths: Tensor
    tokens: Tensor
    weights: dict[str, Tensor]


def train_readers(
    places, values, labels, rows, seeds, step_size, *, rule="sgd", attention="trained", heads=1, batch=1, at=(0,),
    until=0.0,
):  # fmt: skip
    """Train the papers' model with tokens that are trained too, on the mean logistic loss: a fast network of one layer.

    A token is a sum of rows of a table, ``x_t = sum_k value_tk table[place_tk]``, 8 numbers wide; a head attends by a
    query and reads by a vector, ``f = sum_h v_h . sum_t softmax_t(q_h . x_t / sqrt(8)) x_t``. :func:`read` is the same
    by tensors.

    Parameters
    ----------
    places : Tensor of int, shape (N, T, k)
        Rows of the table that make a token, such as the number of a word.
    values : Tensor, shape (N, T, k)
        What they are multiplied with: 1 for words, the pixel for images.
    labels : Tensor, shape (N,)
        +1 or -1.
    rows : Tensor of int, shape (members, examples)
        Inputs of each member; those that do not fill the last batch of an epoch are left out of it.
    seeds : sequence of int
        Of the initial weights, and of the order in which a member sees its rows.
    step_size : float or sequence of float
    rule : str
        "sgd", "normalised" (the gradient by its length), or mirror descent "l1.1", "l3", ...
    attention : str
        "trained"; "never", its queries stay as drawn; or "alike", they stay zero, which is mean pooling.
    at : sequence of int
        Numbers of steps after which to look.
    until : float
        Loss at which a member stops, at a look. One that is no longer finite stops, too.

    Long runs log their progress every ten seconds, at level INFO.

    Returns
    -------
    Readers

    Raises
    ------
    ValueError
        If shapes do not fit, an entry is out of range or not finite, or a label is neither +1 nor -1.
    """
    normalised, norm = rule == "normalised", _order("sgd" if rule == "normalised" else rule)
    if attention not in ("trained", "never", "alike"):
        raise ValueError(f"attention is {attention!r}: use trained, never or alike")
    places = checks.indices("places", places, None, "N", "T", "k")
    values, labels = checks.tensor("values", values), checks.labels(labels)
    checks.last("values", values, *places.shape)
    checks.last("labels", labels, len(places))
    rows, seeds = checks.indices("rows", rows, len(places), "members", "examples"), checks.seeds(seeds)
    checks.last("rows", rows, len(seeds), rows.shape[1])
    checks.whole("heads", heads)
    checks.number("until", until, lambda loss: loss >= 0, "give a loss at which to stop, from 0 on")
    if not 0 < checks.whole("batch", batch) <= rows.shape[1]:
        raise ValueError(f"batch is {batch}, each member has {rows.shape[1]} examples: choose at most so many")
    from .kernels import LANES, readers  # imports numba

    shapes = {"table": (int(places.max()) + 1, LANES), "queries": (heads, LANES), "head": (heads, LANES)}
    looks = sorted({checks.whole("at", k, 0) for k in at}) if hasattr(at, "__iter__") else []
    if not looks:
        raise ValueError(f"at is {checks.shown(at)}: give the numbers of steps after which to look")
    weights = torch.stack([_drawn(shapes, seed, attention) for seed in seeds])
    sizes = _sizes(step_size, len(seeds)).expand(len(seeds)).tolist()

    found = readers(
        places, values.double(), labels.double(), rows, seeds, weights, sizes, heads=heads, batch=batch,
        normalised=normalised, norm=norm, still=attention != "trained", until=until, at=looks,
    )  # fmt: skip
    parts = weights.split([rows for rows, _ in shapes.values()], dim=1)
    return Readers(looks, *found.unbind(-1), dict(zip(shapes, parts, strict=True)))


def patch_places(images, size):
    """Places and values (N, T, k), for :func:`train_readers`, of square patches: their pixels, and where they lie."""
    pixels = patches(images, size).double()
    inputs, tokens, features = pixels.shape
    of_pixels = torch.arange(features).expand(inputs, tokens, -1)
    of_patches = (features + torch.arange(tokens)[:, None]).expand(inputs, -1, -1)
    ones = torch.ones(inputs, tokens, 1, dtype=pixels.dtype)
    return torch.cat([of_pixels, of_patches], -1), torch.cat([pixels, ones], -1)


def reached(record, level):
    """Steps (members,) of :class:`Readers` until the loss is at a level, and the path until then; infinite if never.

    Between two looks the logarithm of the loss is taken as straight.
    """
    above = record.losses.log() - math.log(checks.positive("level", level))
    there = above <= 0
    k = there.int().argmax(0)[None]
    steps = torch.tensor(record.at, dtype=above.dtype)[:, None].expand_as(above)
    (a, b), *ends = [[x.gather(0, j)[0] for j in ((k - 1).clamp_min(0), k)] for x in (above, steps, record.paths)]
    part = (a / (a - b)).clamp(0, 1).nan_to_num(0)  # 0 / 0 at the first look
    return tuple((u + part * (v - u)).where(there.any(0), math.inf) for u, v in ends)


def _drawn(shapes, seed, attention):
    """A reader's initial weights, one below the other: normal, tokens and head of length about 1."""
    generator = torch.Generator().manual_seed(seed)
    drawn = {name: torch.randn(shape, generator=generator, dtype=torch.float64) for name, shape in shapes.items()}
    drawn["table"] /= shapes["table"][1] ** 0.5
    drawn["head"] /= shapes["head"][1] ** 0.5
    drawn["queries"] *= attention != "alike"
    return torch.cat([*drawn.values()])


def read(weights, places, values):
    """Outputs (members, N) of readers and their attention (members, N, heads, T); weights as of :class:`Readers`."""
    table, queries, head = (weights[name] for name in ("table", "queries", "head"))
    tokens = torch.einsum("ntk,mntkw->mntw", values.to(table), table[:, places])
    attention = attend(tokens[:, :, None], queries[:, None] / table.shape[-1] ** 0.5)
    return torch.einsum("mnht,mntw,mhw->mn", attention, tokens, head), attention


def attend(tokens, queries):
    """Attention ``softmax(x_t . q)``, shape (..., T), of tokens (..., T, width) to queries (..., width)."""
    return (tokens @ queries[..., None])[..., 0].softmax(-1)


def _order(rule):
    """The p of mirror descent by its name, 2 for "sgd"."""
    if rule == "sgd":
        return 2.0
    try:
        order = float(rule.removeprefix("l")) if str(rule).startswith("l") else 0.0
    except ValueError:
        order = 0.0
    if not order > 1:
        raise ValueError(f"optimiser {rule!r} is unknown: use adam, sgd, normalised, or l1.1, l2, l3, ... (p > 1)")
    return order


def flat(parts):
    """All parameters, or parts like them, as one tensor (members, entries)."""
    return torch.cat([part.flatten(1) for part in parts], dim=1)


def optimiser(name, parameters, step_size):
    """Optimiser by name: "adam", "sgd", "normalised" (SGD with unit steps), or mirror descent, "l1.1", "l3", ...

    Parameters
    ----------
    name : str
    parameters : dict of Tensor
        Of :func:`ensemble`.
    step_size : float or sequence of float
        One for all members, or one for each.

    Raises
    ------
    ValueError
        If the name is none of these, a p is not above 1, or a step size is below 0 or not finite.
    """
    parameters = list(parameters.values())
    sizes = _sizes(step_size, len(parameters[0]))
    step_size = sizes.to(parameters[0]) if sizes.ndim else step_size
    if name == "adam":
        return Adam(parameters, step_size)
    if name == "normalised":
        return MirrorDescent(parameters, step_size, normalised=True)
    return MirrorDescent(parameters, step_size, _order(name))


def _sizes(step_size, members):
    """Step sizes as a tensor, of shape () or (members,); ValueError if one is below 0 or not finite."""
    sizes = checks.as_tensor("step_size", step_size, "a finite number, not below 0, or one for each member").double()
    for size in sizes.tolist() if sizes.ndim else [step_size]:
        checks.number("step_size", size, lambda size: 0 <= size < math.inf, "give a finite number, not below 0")
    if sizes.ndim:
        checks.last("step_size", sizes, members)
    return sizes


class Training(NamedTuple):
    """Record of a training of several members.

    losses : shape (steps, members), mean of each step's batch, before the step; infinite once a member has diverged.
    at : list of int, steps after which ``measured`` was taken, 0 for the start.
    measured : dict of Tensor, each of shape (len(at), ...).
    """

    losses: Tensor
    at: list[int]
    measured: dict[str, Tensor]


@contextmanager
def _one_thread():
    """Sums by several threads round otherwise, which training amplifies: with one, results are the same everywhere."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@_one_thread()
def train(
    network, parameters, step_rule, inputs, labels, rows, seeds, *, epochs, batch, at=(), measure=None,
    name="training",
):  # fmt: skip
    """Train all members on the mean cross-entropy, each on its own rows, in its own order.

    Parameters
    ----------
    network, parameters
        Of :func:`ensemble`; the parameters are changed.
    step_rule : torch.optim.Optimizer
        Over these parameters.
    inputs : Tensor, shape (N, ...)
    labels : Tensor of int, shape (N,) or (members, N)
    rows : Tensor of int, shape (members, examples)
        The examples of each member.
    seeds : sequence of int
        One for each member, for the order of its examples.
    epochs, batch : int
        Examples that do not fill the last batch of an epoch are left out of it.
    at : sequence of int
        Numbers of steps after which to measure; the start is 0. Default: before the first and after each epoch.
    measure : callable, optional
        ``measure(parameters)`` returns a dict of tensors; called without gradients.
    name : str
        What the line in the log, one an epoch, begins with.

    Returns
    -------
    Training

    Raises
    ------
    ValueError
        If the batch is larger than the number of examples.
    """
    rows, seeds = checks.indices("rows", rows, len(inputs), "members", "examples"), checks.seeds(seeds)
    labels = checks.indices("labels", labels, network.head.out_features, *["members", "N"][-labels.ndim :])
    examples = rows.shape[1]
    checks.whole("epochs", epochs)
    checks.last("rows", rows, len(seeds), examples)
    checks.last("labels", labels, len(inputs))
    checks.finite("inputs", inputs)
    if checks.whole("batch", batch) > examples:
        raise ValueError(f"batch is {batch}, each member has {examples} examples: choose a batch from 1 to {examples}")
    each = examples // batch
    at = sorted(set(at)) or [epoch * each for epoch in range(epochs + 1)]
    if at[0] < 0 or at[-1] > epochs * each:
        raise ValueError(f"at is {checks.shown(at)}: give numbers of steps from 0 to {epochs * each}")
    wanted, weights, labels = set(at), list(parameters.values()), labels.expand(len(seeds), -1)
    losses, measured = [], []
    for step, chosen in enumerate(chain(_batches(rows, seeds, epochs, batch), [None])):
        if step in wanted and measure:
            with torch.no_grad():
                measured.append(measure(parameters))
        if chosen is None:
            break
        loss = cross_entropy(apply(network, parameters, inputs[chosen])[0], labels.gather(1, chosen))
        for weight, slope in zip(weights, torch.autograd.grad(loss.sum(), weights), strict=True):
            weight.grad = slope
        step_rule.step()
        losses.append(loss.detach())
        if (step + 1) % each == 0:
            mean = torch.stack(losses[-each:]).mean()
            LOG.info("%s epoch %d of %d, loss %.4f", name, (step + 1) // each, epochs, mean)
    losses = torch.stack(losses)
    diverged = losses.isfinite().logical_not().cummax(0).values
    return Training(
        losses.masked_fill(diverged, torch.inf),
        at,
        {key: torch.stack([entry[key] for entry in measured]) for key in (measured[0] if measured else {})},
    )


def _batches(rows, seeds, epochs, batch):
    """Yield the rows (members, batch) of each step, every member's in an order of its own in each epoch."""
    examples = rows.shape[1]
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    for _ in range(epochs):
        order = torch.stack([torch.randperm(examples, generator=generator) for generator in generators])
        for start in range(0, examples - batch + 1, batch):
            yield rows.gather(1, order[:, start : start + batch].to(rows.device))


def cross_entropy(logits, labels):
    """Mean cross-entropy (members,) of logits (members, N, classes) at labels (members, N) or (N,)."""
    labels = labels.expand(logits.shape[:-1])
    return nn.functional.cross_entropy(logits.movedim(-1, 1), labels, reduction="none").mean(-1)


def accuracy(logits, labels):
    """Share (members,) of right answers; logits that are not finite give no answer."""
    right = (logits.argmax(-1) == labels) & logits.isfinite().all(-1)
    return right.double().mean(-1)


def linear_answers(features, labels, unseen, penalty=1.0):
    """Classes (N',) that least squares with a penalty give to unseen features: the linear baseline of a network.

    Parameters
    ----------
    features : Tensor, shape (N, d)
    labels : Tensor of int, shape (N,)
    unseen : Tensor, shape (N', d)
    penalty : float
        On the square of the weights, of features that are centred.

    Examples
    --------
    >>> features = torch.tensor([[0.0], [1.0], [4.0], [5.0]])
    >>> linear_answers(features, torch.tensor([0, 0, 1, 1]), features + 0.5).tolist()
    [0, 0, 1, 1]
    """
    checks.positive("penalty", penalty)
    middle = features.double().mean(0)
    rows, wanted = features.double() - middle, nn.functional.one_hot(labels).double()
    gram = rows.mT @ rows + penalty * torch.eye(rows.shape[1], dtype=rows.dtype, device=rows.device)
    weights = torch.linalg.solve(gram, rows.mT @ (wanted - wanted.mean(0)))
    return ((unseen.double() - middle) @ weights + wanted.mean(0)).argmax(-1)


def cls_map(attention):
    """Map of [CLS] on the tokens: last block, mean over heads, without what it gives itself.

    The map of Figure 6 (arXiv:2306.13596).

    Parameters
    ----------
    attention : Tensor, shape (..., depth, heads, T + 1)

    Returns
    -------
    Tensor, shape (..., T)
        Adds up to 1.
    """
    given = attention[..., -1, :, 1:].mean(-2)
    return given / given.sum(-1, keepdim=True)


def soft_sparsity(attention):
    """1 / sum of squares of probabilities along the last dimension: T if they are equal, 1 if one has all.

    The measure ``|s|_1 / |s|_2^2`` of Figure 7 (arXiv:2306.13596).
    """
    return 1 / attention.square().sum(-1)


def key_query_norm(parameters, network, layer=-1):
    """Frobenius norm of the key-query matrices ``W_Q^T W_K`` of all heads of a layer together, shape (members,).

    The norm of Figure 7 (arXiv:2306.13596), up to the paper's unknown way to combine its heads.
    """
    depth = len(network.blocks)
    if layer not in range(-depth, depth):
        raise ValueError(f"layer is {layer}: there are {depth}, from {-depth} to {depth - 1}")
    layer %= depth
    heads = network.blocks[layer].self_attn.num_heads
    queries, keys, _ = parameters[f"blocks.{layer}.self_attn.in_proj_weight"].detach().chunk(3, dim=1)
    queries, keys = queries.unflatten(1, (heads, -1)), keys.unflatten(1, (heads, -1))
    return torch.linalg.vector_norm(queries.mT @ keys, dim=(1, 2, 3))
