"""Sphinx extension: the links from code to the pages of the library are put into pages on all cores.

sphinx_codeautolink takes every page apart with its menus, one after the other, which is a third of the site's time.
"""

from abreast import each
from sphinx.util import logging
from sphinx_codeautolink import extension

calls = []  # what sphinx_codeautolink asks for; processes that are copies of this one find it here
link_html = extension.link_html


def later(*arguments, **options):
    """Note a page in place of `link_html`."""
    calls.append((arguments, options))


def link(number):
    """Put the links of one call into its page; return what went wrong."""
    said = []
    extension.block.logger.warning = lambda message, *_, **__: said.append(message)
    arguments, options = calls[number]
    link_html(*arguments, **options)
    return [f"{arguments[0]}: {message}" for message in said]


def link_all(app, exception):
    """Put the links into all pages that were noted."""
    for said in each(link, range(len(calls))) if exception is None else ():
        for message in said:
            logging.getLogger(__name__).warning(message)


def setup(app):
    """Take the place of `link_html`, and come after all pages are noted."""
    extension.link_html = later
    app.connect("build-finished", link_all, priority=600)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
