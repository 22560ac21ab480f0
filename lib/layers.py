"""The earlier name of a part of :mod:`lib.models`."""

from .models import head_problem, layer_problem, record, recorded_problem  # noqa: F401
