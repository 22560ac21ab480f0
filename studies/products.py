"""Train keys and queries with weight decay by classes that people use: one constraint for each head of a matrix."""

import torch
from torch.nn.functional import softplus

from lib.steepest import QUINTIC


class Lion(torch.optim.Optimizer):
    """Lion by its published formula (Chen et al., 2023, arXiv:2302.06675, Algorithm 2), with the betas .9 and .99.

    torch has no class of it.
    """

    def __init__(self, params, lr, weight_decay):
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        """Go by the sign of what memory and gradient have together, then decay, then remember."""
        for group in self.param_groups:
            for part in group["params"]:
                memory = self.state[part].setdefault("mean", torch.zeros_like(part))
                way = (0.9 * memory + 0.1 * part.grad).sign()
                part.sub_(group["lr"] * (way + group["weight_decay"] * part))
                memory.lerp_(part.grad, 0.01)


def after_newton_schulz(value, steps=5):
    """What Muon's Newton-Schulz steps make of a singular value.

    Examples
    --------
    >>> round(after_newton_schulz(1.0), 3)
    0.696
    """
    a, b, c = QUINTIC
    for _ in range(steps):
        value = a * value + b * value**3 + c * value**5
    return value


def leads(kind, decay, tokens, queries, start, steps, **options):
    """Leads <x_h, K_h Q_h^T z_h> of heads h at the end, shape (heads,); each has one input of two tokens.

    Parameters
    ----------
    kind : class of torch.optim or like it
    decay : float
        Its step size is .003 over this.
    tokens, queries : Tensor, shape (heads, d)
        x_h, the better token less the other, and z_h.
    start : sequence of two Tensors, shape (d, heads * r)
        K and Q of all heads beside each other, as the optimiser has them.
    steps : int
    """
    weights, heads = [part.clone().requires_grad_() for part in start], len(tokens)
    made = kind(weights, lr=0.003 / decay, weight_decay=decay, **options)
    for _ in range(steps):
        made.zero_grad()
        seen = [torch.einsum("hd,dhr->hr", vectors, part.unflatten(-1, (heads, -1)))
                for vectors, part in zip((tokens, queries), weights, strict=True)]  # fmt: skip
        apart = (seen[0] * seen[1]).sum(-1)
        softplus(-apart.sigmoid()).sum().backward()
        made.step()
    return apart.detach()
