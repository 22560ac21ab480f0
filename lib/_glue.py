"""Give the page numbers, figures and tables of a notebook."""

import math
from numbers import Real


def tell(stem, **numbers):
    """Give numbers of this run to the prose: ``tell("theorem-2", log_time=9.2)`` glues ``theorem-2-log-time``.

    In a notebook of the book, that is; elsewhere nothing happens.

    Parameters
    ----------
    stem : str
        The chapter's name, with which all its keys begin.
    **numbers : float or str
        Finite numbers (0-d tensors and arrays too) or text. Underscores in names become hyphens.

    Raises
    ------
    ValueError
        If a value is neither.
    """
    if not stem or not isinstance(stem, str):
        raise ValueError(f"stem is {stem!r}: give the chapter's name")
    glued = {f"{stem}-{name.replace('_', '-')}": scalar(value) for name, value in numbers.items()}
    for key, value in glued.items():
        if not (value.strip() if isinstance(value, str) else is_finite(value)):
            raise ValueError(f"{key} is {value!r}: prose can only show one finite number or text")
    try:
        from IPython import get_ipython
        from myst_nb import glue
    except ImportError:  # a downloaded notebook: there is no page for the numbers
        return
    if get_ipython():
        for key, value in glued.items():
            glue(key, value, display=False)


def show(key, thing):
    """Show a figure or a table, and let the page place it: ``show("fig-theorem-2-offset", figure)``.

    A block of the page that has this key shows it where the block stands, which may be above the cell. Outside a
    notebook the thing is returned: where it is the last line of its cell, a run without a notebook finds its rows.

    Parameters
    ----------
    key : str
        ``fig-`` or ``tab-``, the chapter's name, a hyphen, and a name for the thing.
    thing : matplotlib.figure.Figure or Verdict or object
        Whatever a notebook can show.

    Returns
    -------
    object or None
    """
    try:
        from IPython import get_ipython
        from IPython.display import display
    except ImportError:
        return thing
    if not get_ipython():
        return thing
    try:
        from myst_nb import glue
    except ImportError:  # a downloaded notebook: there is no page to place it
        display(thing)
    else:
        glue(key, thing)
    if hasattr(thing, "savefig"):
        from matplotlib.pyplot import close

        close(thing)  # else the notebook shows it again when the cell ends
    return None


def scalar(value):
    """The Python number in a 0-d tensor or array, anything else as it is."""
    return value.item() if getattr(value, "ndim", None) == 0 else value


def is_finite(value):
    """Tell whether a value is one finite number."""
    return isinstance(value, Real) and math.isfinite(value)
