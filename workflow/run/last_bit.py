"""Perturb every random draw of torch by at most one ulp (unit in the last place)."""

import torch
from torch.overrides import TorchFunctionMode

DRAWS = ("rand", "randn", "rand_like", "randn_like", "normal", "normal_", "uniform_", "exponential_")


class UlpNoise(TorchFunctionMode):
    """The mode of torch in which draws are perturbed, by a separate generator, so that no other draw changes."""

    def __init__(self):
        super().__init__()
        self.generator = torch.Generator().manual_seed(1)

    def __torch_function__(self, function, types, args=(), kwargs=None):
        """Call a function of torch; perturb what it draws."""
        drawn = function(*args, **(kwargs or {}))
        if getattr(function, "__name__", "") not in DRAWS or not drawn.is_floating_point():
            return drawn
        signs = torch.randint(-1, 2, drawn.shape, generator=self.generator).to(drawn) * torch.inf
        with torch.no_grad():
            return drawn.copy_(torch.where(signs.isnan(), drawn, torch.nextafter(drawn, signs)))
