"""The system's Chromium, in which the built site is tested and printed."""

import contextlib
import shutil

from playwright.sync_api import sync_playwright

from workflow.book.catalogue import BookError

SET = "() => window.MathJax?.startup?.promise.then(() => true) ?? true"
SEEN = """() => Promise.all([...document.images].map((image) => {
    image.loading = "eager";
    return image.complete || new Promise((done) => { image.onload = image.onerror = done; });
}))"""


@contextlib.contextmanager
def chromium():
    """Yield the system's Chromium; raise BookError where there is none."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        raise BookError("no chromium on this machine: install the package of that name")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()
