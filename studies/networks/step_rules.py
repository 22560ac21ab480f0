"""Train the stacked parameters of an ensemble by the step rules of the library, or by torch's Adam."""

import torch

from lib import checks, geometry
from lib.logspace import LogScaled
from lib.rules import apply_rule, constant, normalised


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
            gradient, before = flat([weight.grad for weight in weights]), flat(weights)
            rule = normalised(group["step_size"], order) if group["normalised"] else constant(group["step_size"])
            step = apply_rule(rule, LogScaled(gradient, torch.zeros_like(gradient[:, 0])), before, 0)
            mirrored = geometry.mirror_map(before, order) + step
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
        If the name is none of these, a p is not above 1, or a step size is not above 0 or not finite.
    """
    parameters = list(parameters.values())
    sizes = step_sizes(step_size, len(parameters[0]))
    step_size = sizes.to(parameters[0]) if sizes.ndim else step_size
    if name == "adam":
        return Adam(parameters, step_size)
    if name == "normalised":
        return MirrorDescent(parameters, step_size, normalised=True)
    return MirrorDescent(parameters, step_size, order_of(name))


def order_of(rule):
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


def step_sizes(step_size, members):
    """Step sizes as a tensor, of shape () or (members,); ValueError if one is not above 0 or not finite."""
    what = "a finite number above 0, or one for each member"
    sizes = checks.positive("step_size", checks.as_tensor("step_size", step_size, what).double())
    if sizes.ndim:
        checks.trailing_shape("step_size", sizes, members)
    return sizes
