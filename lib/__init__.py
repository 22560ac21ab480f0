"""One problem, three papers: softmax attention as a token selector, and the SVMs that predict its choice.

Theory runs in float64 on one thread: the arrays are small, and a result must not depend on a machine's cores.
``OMP_NUM_THREADS`` overrides the thread count.
"""

import os

import torch

torch.set_default_dtype(torch.float64)
torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
