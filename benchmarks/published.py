"""The style of the authors' experiments: one autograd module a trial, in float32, and one cvxpy problem an SVM.

Written here from the formulas, to be timed and to be compared with the library.
"""

import warnings

import cvxpy
import torch

from lib.geometry import dual

EPSILON = 1e-8  # in the normaliser, against division by zero


class Attention(torch.nn.Module):
    """One layer of one trial: f(X_i) = v . X_i^T softmax(X_i p), or softmax(X_i W z_i) with queries.

    tokens (n, T, d), head (d,), theta (d,), or (d, e) with queries (n, e); head and theta as they start.
    """

    def __init__(self, tokens, head, theta, queries=None):
        super().__init__()
        self.register_buffer("tokens", tokens)
        self.register_buffer("queries", queries)
        self.head = torch.nn.Parameter(head.clone())
        self.theta = torch.nn.Parameter(theta.clone())

    def forward(self):
        """Return the outputs, shape (n,)."""
        if self.queries is None:
            logits = self.tokens @ self.theta
        else:
            logits = (self.tokens @ (self.queries @ self.theta.T)[..., None])[..., 0]
        attention = torch.softmax(logits, dim=-1)
        return (attention[..., None] * self.tokens).sum(-2) @ self.head


def descend(model, labels, step_size, iterations, norm=2.0, train_head=False):
    """Final head and theta of normalised (mirror) descent on the logistic risk; a trained head moves by equal steps."""
    trained = [model.theta, model.head] if train_head else [model.theta]
    model.head.requires_grad_(train_head)
    for _ in range(iterations):
        model.zero_grad()
        torch.log(1 + torch.exp(-labels * model())).mean().backward()
        with torch.no_grad():
            for parameter in trained:
                step = step_size * parameter.grad / (torch.linalg.vector_norm(parameter.grad, dual(norm)) + EPSILON)
                parameter.copy_(_moved(parameter, step, norm))
    return model.head.detach(), model.theta.detach()


def _moved(parameter, step, norm):
    if norm == 2:
        return parameter - step
    mirrored = parameter.sign() * parameter.abs() ** (norm - 1) - step
    return mirrored.sign() * mirrored.abs() ** (1 / (norm - 1))


def svm(rows, norm=2.0, time_limit=60.0):
    """Shortest theta in the l_p norm with rows theta >= 1, rows of shape (m, D); TimeoutError if it takes longer."""
    theta = cvxpy.Variable(rows.shape[-1])
    problem = cvxpy.Problem(cvxpy.Minimize(cvxpy.norm(theta, norm)), [rows.numpy() @ theta >= 1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that the solution may be inaccurate, which the status says too
        problem.solve(solver=cvxpy.CLARABEL, time_limit=time_limit)
    if problem.status == cvxpy.USER_LIMIT:
        raise TimeoutError(f"not solved in {time_limit:g} s")
    return theta.value
