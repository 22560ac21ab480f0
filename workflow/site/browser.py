"""The system's Chromium, in which the built site is tested and printed."""

import contextlib
import shutil

from playwright.sync_api import sync_playwright

from workflow.book.catalogue import BookError

BROWSERS = (
    "chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge",
    *(f"/Applications/{name}.app/Contents/MacOS/{name}" for name in ("Google Chrome", "Chromium", "Microsoft Edge")),
)  # fmt: skip
SET = "() => document.fonts.ready.then(() => true)"
SEEN = """() => Promise.all([...document.images].map((image) => {
    image.loading = "eager";
    return image.complete || new Promise((done) => { image.onload = image.onerror = done; });
}))"""


def browser_path():
    """Path of the system's Chromium, or of a browser made of it; None without one."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


@contextlib.contextmanager
def chromium():
    """Yield the system's Chromium; raise BookError where there is none."""
    if (path := browser_path()) is None:
        raise BookError("no chromium on this machine: install the package of that name, or Google Chrome")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()
