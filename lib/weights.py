"""The earlier name of a part of :mod:`lib.models`."""

from .models import layer_weights, state_weights  # noqa: F401
