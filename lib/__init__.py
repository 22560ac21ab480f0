"""Study softmax attention as a token selector, and the SVMs that predict its choice: one problem, three papers.

Importing it changes nothing outside it: what a function returns has the dtype and device of what it is given.
"""


def notebook():
    """Set up a chapter's process: float64 by default, the runner's number of threads, the figures' theme.

    Threads are as many as ``OMP_NUM_THREADS`` says, one without it: the arrays are small, and a result must not
    depend on a machine's cores.
    """
    import os

    import torch

    from . import figures

    asked = os.environ.get("OMP_NUM_THREADS", "")
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(int(asked) if asked.isdecimal() and int(asked) else 1)
    figures.theme()
