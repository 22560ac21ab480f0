"""The style of the authors' experiments: one autograd module a trial, in float32, and one cvxpy problem an SVM.

Written here from the formulas, to be timed and to be compared with the library.
"""

import warnings

import cvxpy
import torch

EPSILON = 1e-8  # in the normaliser, against division by zero


class Attention(torch.nn.Module):
    """One layer of one trial, f(X_i) = v . X_i^T softmax(X_i p): tokens (n, T, d), head v (d,); p starts at zero."""

    def __init__(self, tokens, head):
        super().__init__()
        self.register_buffer("tokens", tokens)
        self.register_buffer("head", head)
        self.prompt = torch.nn.Parameter(torch.zeros_like(head))

    def forward(self):
        """Return the outputs, shape (n,)."""
        attention = torch.softmax(self.tokens @ self.prompt, dim=-1)
        return (attention[..., None] * self.tokens).sum(-2) @ self.head


def descend(tokens, head, labels, iterations):
    """Prompt after normalised steps of length 1 on the logistic risk."""
    model = Attention(tokens.float(), head.float())
    for _ in range(iterations):
        model.zero_grad()
        torch.log(1 + torch.exp(-labels.float() * model())).mean().backward()
        with torch.no_grad():
            slope = model.prompt.grad
            model.prompt.copy_(model.prompt - slope / (torch.linalg.vector_norm(slope) + EPSILON))
    return model.prompt.detach()


def svm(rows):
    """Shortest x with rows x >= 1, rows of shape (m, d)."""
    x = cvxpy.Variable(rows.shape[-1])
    problem = cvxpy.Problem(cvxpy.Minimize(cvxpy.norm(x)), [rows.numpy() @ x >= 1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that the solution may be inaccurate, which the status says too
        problem.solve(solver=cvxpy.CLARABEL)
    return x.value
