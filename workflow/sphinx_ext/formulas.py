"""Load the parts of MathJax that the formulas need.

The single file that sphinx-mathjax-offline names has a menu as well, and is a third larger.
"""

PARTS = ["input/tex", "output/chtml", "a11y/assistive-mml"]  # assistive-mml: MathML for screen readers


def choose_parts(app, config):
    """Name the file that loads the parts; sphinx-mathjax-offline sets its own, whatever ``_config.yml`` says."""
    config.mathjax_path = "mathjax/startup.js"
    config.mathjax3_config = {"loader": {"load": PARTS}} | (config.mathjax3_config or {})


def setup(app):
    """Register the extension."""
    app.connect("config-inited", choose_parts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
