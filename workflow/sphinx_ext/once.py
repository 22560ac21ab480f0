"""Do once what other extensions do on every page, or only where it matters. An extension of Sphinx.

The theme resolves the list of all pages anew for each page of the site and of the library's source, and it differs only
in where links begin and in which page is the current one. What links code to the library parses whole pages, of which
it changes the code.
"""

import posixpath
import re
from functools import cache, partial
from pathlib import Path

NOWHERE = "genindex"  # a page at the top that is in no list
LINK = re.compile(r'href="([^"#:]+)"')
ENTRY, TOP = '<li class="toctree-l1{}"><a class="{}reference internal" href="{}">', "</p>\n<ul{}>"
CODE = re.compile(
    r'<div class="(?:[\w-]+ )*highlight-[\w+-]+ notranslate"><div class="highlight"><pre>.*?</pre></div>\s*</div>',
    re.DOTALL,
)
MARK = "<!--code-->\n"


def share_list(app, page, template, context, doctree):
    """Give a page the list of all pages as it is for all, with its own links."""
    usual = context.get("toctree")
    if usual is None:
        return

    def listed(**options):
        shared = app.list_of_pages(tuple(sorted(options.items())))
        return own(shared, app.builder.get_target_uri(page)) or usual(**options)

    context["toctree"] = listed


def own(listed, here):
    """The list of pages, as seen from the root, for the page with this address; None for one in a list of a list."""
    before, found, after = listed.partition(ENTRY.format("", "", here))
    if found:
        above, start, items = before.rpartition(TOP.format(""))
        if not start:
            return None
        listed = above + TOP.format(' class="current"') + items + ENTRY.format(" current", "current ", "#") + after
    elif f'href="{here}"' in listed:
        return None
    folder = posixpath.dirname(here) or "."
    return LINK.sub(lambda link: f'href="{posixpath.relpath(link[1], folder)}"', listed)


def list_of_pages(app, options):
    """Sphinx's list of all pages with these options, as seen from the root."""
    return app.builder._get_local_toctree(NOWHERE, **dict(options))


def take_out_code(app, exception):
    """Leave in each page its code alone, and keep what is around it."""
    for name in app.env.found_docs if exception is None else ():
        page = Path(app.builder.get_outfilename(name))
        text = page.read_text("utf-8")
        app.around_code[page] = CODE.split(text)
        page.write_text("".join(f"{MARK}{block}\n" for block in CODE.findall(text)), "utf-8")


def put_back_code(app, exception):
    """Put the code, with its links, back into its page."""
    for page, (first, *others) in app.around_code.items():
        blocks = page.read_text("utf-8").split(MARK)[1:]
        parts = (block.removesuffix("\n") + rest for block, rest in zip(blocks, others, strict=True))
        page.write_text(first + "".join(parts), "utf-8")


def setup(app):
    """Register what comes before and after the others."""
    app.list_of_pages, app.around_code = cache(partial(list_of_pages, app)), {}
    app.connect("html-page-context", share_list, priority=100)
    app.connect("build-finished", take_out_code, priority=400)
    app.connect("build-finished", put_back_code, priority=600)
    return {"parallel_read_safe": True, "parallel_write_safe": False}
