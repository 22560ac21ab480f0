"""Study softmax attention as a token selector, and the SVMs that predict its choice: one problem, three papers.

Importing it changes nothing outside it. What the theory is given becomes float64 on the CPU, and so is what it answers.
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
