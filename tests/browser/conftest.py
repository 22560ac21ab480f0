"""The built site, served on this machine, in the system's Chromium. Each page is loaded once for all tests."""

import functools
import gzip
import os
import shutil
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from playwright.sync_api import sync_playwright

BROWSERS = (
    "chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge",
    *(f"/Applications/{name}.app/Contents/MacOS/{name}" for name in ("Google Chrome", "Chromium", "Microsoft Edge")),
)  # fmt: skip
SET = "() => document.fonts.ready.then(() => true)"
SEEN = """() => Promise.all([...document.images].map((image) => {
    image.loading = "eager";
    return image.complete || new Promise((done) => { image.onload = image.onerror = done; });
}))"""
MEASURE = Path(__file__).with_name("measure.js").read_text("utf-8")
PLACES = """() => ["figure :is(img, svg)", ".findings"].map((name) => {
    const one = document.querySelector(`article ${name}`);
    return one && (one.getBoundingClientRect().top + scrollY) / innerHeight;
})"""
OPEN = "() => document.querySelectorAll('details').forEach((one) => { one.open = true; })"
DRAWN = "() => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))"


@functools.cache
def weight(path):
    """Bytes of a file as hosts send it: text compressed."""
    return len(path.read_bytes() if path.suffix in (".png", ".woff2") else gzip.compress(path.read_bytes()))


class Quiet(SimpleHTTPRequestHandler):
    """Serve without a line on the terminal for each file."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass


@pytest.fixture(scope="session")
def site(built):
    return built / "build/html"


@pytest.fixture(scope="session")
def address(site):
    handler = functools.partial(Quiet, directory=site)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="session")
def browser():
    """The system's Chromium, or a browser made of it."""
    if (path := next(filter(None, map(shutil.which, BROWSERS)), None)) is None:
        (pytest.fail if os.environ.get("REQUIRE_BROWSER") else pytest.skip)("no chromium on this machine")
    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()


@pytest.fixture
def from_disk(browser):
    """Open a page from disk, by finger at the width of a phone; it has no error and asks no other machine."""
    opened = []

    def open_page(address, width=1280, **options):
        phone = width < 600
        size = {"width": width, "height": 844 if phone else 900}
        page = browser.new_context(viewport=size, has_touch=phone, is_mobile=phone, **options).new_page()
        opened.append((page, wrong := []))
        page.on("console", lambda message: wrong.append(message.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda asked: asked.url.startswith(("file:", "blob:", "about:")) or wrong.append(asked.url))
        page.goto(address)
        return page

    yield open_page
    for page, wrong in opened:
        assert wrong == []
        page.context.close()


class Visit:
    """A page as loaded, with what it asked for, what that weighs, and what went wrong."""

    def __init__(self, browser, width=1280, scheme="light"):
        self.size = {"width": width, "height": 900}
        self.page = browser.new_page(viewport=self.size, color_scheme=scheme)
        self.requests, self.errors = [], []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("requestfailed", lambda request: self.errors.append(f"{request.url} did not come"))
        self.page.on("console", lambda message: message.type == "error" and self.errors.append(message.text))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))

    def open(self, url):
        """Load a page, which forgets the one before it."""
        self.requests.clear()
        self.errors.clear()
        self.page.set_viewport_size(self.size)
        self.page.goto(url)
        self.page.wait_for_function(SET)
        return self

    def at(self, width, look, theme="light"):
        """Measurements at another width and in another theme, without loading the page again."""
        self.page.set_viewport_size({"width": width, "height": 900 if width > 390 else 844})
        self.page.evaluate("theme => { document.documentElement.dataset.theme = theme }", theme)
        self.page.evaluate(DRAWN)
        return self.page.evaluate(look)


@pytest.fixture(scope="session")
def seen(site, address, browser):
    """Measurements of a page as a reader has it, on a desk, a tablet and a phone, by day and by night.

    All in one window: a window of its own for each page would load and compile the scripts anew, twice the time.
    """
    visit = Visit(browser)

    @functools.cache
    def look(name):
        visit.open(f"{address}/{name}.html")
        visit.page.evaluate(SEEN)
        page = {"first": [visit.at(1280, PLACES), visit.at(390, PLACES)]}
        visit.page.evaluate(OPEN)
        for width_name, width in {"phone": 390, "tablet": 768, "desk": 1280}.items():
            page[width_name] = visit.at(width, MEASURE)
        page["dark"] = visit.at(1280, MEASURE, "dark")
        page["foreign"] = [url for url in visit.requests if not url.startswith((address, "data:", "blob:"))]
        paths = {urlsplit(url).path for url in visit.requests if url.startswith(address)}
        page |= {
            "errors": [*visit.errors],
            "weight": sum(weight(site / unquote(path).lstrip("/")) for path in paths),
        }
        return page

    return look


@pytest.fixture
def visit(address, browser):
    """Open a page of the book: ``visit("book/intro")``."""
    visits = []

    def open_page(name, **options):
        visits.append(Visit(browser, **options))
        return visits[-1].open(f"{address}/{name}.html")

    yield open_page
    for each in visits:
        each.page.close()
