"""These need a SLURM that they may drain: `make test-cluster` makes one, and other calls of pytest pass them over."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # the small books of the other tests

if "SLURM_OF_THE_TESTS" not in os.environ:
    collect_ignore_glob = ["*"]
