"""Move each random number that torch draws to one of its two neighbours, or leave it: data off by their last bit."""

import torch
from torch.overrides import TorchFunctionMode

DRAWS = ("rand", "randn", "rand_like", "randn_like", "normal", "normal_", "uniform_", "exponential_")


class Neighbours(TorchFunctionMode):
    """The mode of torch in which draws are so moved; by a generator of its own, so that no other draw changes."""

    def __init__(self):
        super().__init__()
        self.generator = torch.Generator().manual_seed(1)

    def __torch_function__(self, function, types, args=(), kwargs=None):
        """Call a function of torch; move what it draws."""
        drawn = function(*args, **(kwargs or {}))
        if getattr(function, "__name__", "") not in DRAWS or not drawn.is_floating_point():
            return drawn
        ways = torch.randint(-1, 2, drawn.shape, generator=self.generator).to(drawn) * torch.inf
        with torch.no_grad():
            return drawn.copy_(torch.where(ways.isnan(), drawn, torch.nextafter(drawn, ways)))
