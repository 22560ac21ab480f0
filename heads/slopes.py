"""Record what an attention layer receives while a model runs, and how its output moves the model's answer."""

from contextlib import contextmanager

import torch
from torch import Tensor


@contextmanager
def disable_fastpath():
    """Disable torch's fast path, in which an encoder does not call its layers, while the block runs."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


def record(module, run):
    """What a model's attention layer receives and how its output moves the answer: one run, one backward pass.

    Parameters
    ----------
    module : torch.nn.Module
        The attention layer, called with the tokens first.
    run : callable
        Without arguments; runs the model and returns its answers, shape (n,): what the label's sign is compared with,
        or minus the loss of each input, and then all labels are +1.

    Returns
    -------
    tokens : Tensor
        The first argument of the module: of a layer without ``batch_first`` transpose it for :func:`head_problem`.
    slopes : Tensor
        Gradient of the answers in the module's output, of its shape; at the query token it is the ``readout`` of
        :func:`head_problem`.

    Examples
    --------
    >>> from heads import head_problem, layer_weights
    >>> layer, last = torch.nn.MultiheadAttention(4, 2, batch_first=True), torch.nn.Linear(4, 1)
    >>> tokens = torch.randn(3, 5, 4)
    >>> received, slopes = record(layer, lambda: last(layer(tokens, tokens, tokens)[0][:, 0]).tanh()[:, 0])
    >>> head_problem(layer_weights(layer), received, [1, -1, 1], readout=slopes[:, 0]).scores
    'first order'
    """
    calls = []

    def keep(_, inputs, kwargs, outputs):
        output, *others = outputs if isinstance(outputs, tuple) else (outputs,)
        if not output.requires_grad:  # all before it may be frozen
            output = output.detach().requires_grad_()
        calls.append((inputs[0] if inputs else next(iter(kwargs.values())), output))
        passed = output.clone()  # which the model may change in place
        return (passed, *others) if isinstance(outputs, tuple) else passed

    hook = module.register_forward_hook(keep, with_kwargs=True)

    def random_states():
        return [torch.get_rng_state(), *(torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else [])]

    before = random_states()
    try:
        with disable_fastpath(), torch.inference_mode(False), torch.enable_grad():
            answers = run()
            total = answers.sum() if isinstance(answers, Tensor) else None
    finally:
        hook.remove()
    if len(calls) != 1:
        raise ValueError(f"the module was called {len(calls)} times: give one that the run calls once")
    if not all(map(torch.equal, before, random_states())):
        raise ValueError("the run draws random numbers, so that slopes differ from call to call: take model.eval()")
    tokens, output = calls[0]
    slopes = None
    if total is not None and total.requires_grad:
        (slopes,) = torch.autograd.grad(total, output, allow_unused=True)
    if slopes is None:
        raise ValueError("the answers do not depend on the module's output: run without detach and no_grad")
    return tokens.detach(), slopes
