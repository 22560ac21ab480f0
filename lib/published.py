"""Follow the authors' published code: autograd through softmax in single precision, an epsilon in the quotient.

It is what their figures were made with. The book shows where it ends for another reason than a theorem's; everything
else is computed by :func:`lib.logspace.gradient`.
"""

import torch

from . import checks
from .geometry import norm

LOSSES = {"logistic": lambda u: torch.log(1 + torch.exp(-u)), "correlation": lambda u: -u}


def gradients(data, loss, p, dtype=torch.float32):
    """Gradients of the risk in the head and in p, by automatic differentiation in a precision.

    Parameters
    ----------
    data : lib.datasets.DataSet
        Tokens (..., n, T, d), labels, one head (d,) and one key matrix.
    loss : lib.losses.Loss
        The logistic or the correlation loss: those that the authors' code has.
    p : Tensor, shape (..., d)
    dtype : torch.dtype

    Returns
    -------
    (Tensor, Tensor)
        Shapes (d,), the sum over all p, and (..., d).
    """
    checks.loss(loss)
    if loss.name not in LOSSES:
        raise ValueError(f"loss is {loss.name!r}: the published recipe has {' and '.join(LOSSES)}")
    tokens, labels, head, key_matrix = (field.to(dtype) for field in data)
    head, p = (part.detach().to(dtype, copy=True).requires_grad_() for part in (head, p))
    attention = torch.softmax(torch.einsum("...ntd,...d->...nt", tokens @ key_matrix.mT, p), dim=-1)
    features = torch.einsum("...nt,...ntd->...nd", attention, tokens)
    risk = LOSSES[loss.name](labels * (features @ head)).mean(-1)
    return torch.autograd.grad(risk.sum(), (head, p))


def descend(data, loss, start, step_size, iterations, epsilon, dtype=torch.float32, head_epsilon=None):
    """Normalised descent as published: ``p <- p - step_size * g / (|g| + epsilon)``, and so the head if it is trained.

    Parameters
    ----------
    data, loss, dtype
        As in :func:`gradients`.
    start : Tensor, shape (..., d)
    step_size : float
    iterations : int
    epsilon : float or Tensor that broadcasts with p
    head_epsilon : float, optional
        Given, the head is trained as well, from that of the data; then there is one p.

    Returns
    -------
    Tensor of float64, shape (iterations + 1, ..., d)
        The positions of p.

    Examples
    --------
    >>> from lib.datasets import figure_1
    >>> from lib.losses import by_name
    >>> start = torch.tensor([[0.0, -1.5, 0.0]])
    >>> descend(figure_1("b"), by_name("logistic"), start, 0.1, 100, 1e-9).shape
    torch.Size([101, 1, 3])
    """
    path, epsilon = [start.to(dtype)], torch.as_tensor(epsilon, dtype=dtype, device=start.device)
    for _ in range(checks.integer("iterations", iterations)):
        of_head, of_p = gradients(data, loss, path[-1], dtype)
        path.append(path[-1] - step_size * of_p / (norm(of_p)[..., None] + epsilon))
        if head_epsilon is not None:
            data = data._replace(head=data.head.to(dtype) - step_size * of_head / (norm(of_head) + head_epsilon))
    return torch.stack(path).double()
