"""The built site, served on this machine, in the system's Chromium."""

import functools
import os
import shutil
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.sync_api import sync_playwright


class Quiet(SimpleHTTPRequestHandler):
    """Serve without a line on the terminal for each file."""

    def log_message(self, *_):
        pass


@pytest.fixture(scope="session")
def address(built):
    handler = functools.partial(Quiet, directory=built / "build/html")
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="session")
def browser():
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        reason = "no chromium on this machine: install the package of that name to test the built site"
        (pytest.fail if os.environ.get("REQUIRE_BROWSER") else pytest.skip)(reason)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


class Visit:
    """A page as loaded, with what it asked for and what went wrong."""

    def __init__(self, browser, url, width=1280, scheme="light"):
        self.context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.page = self.context.new_page()
        self.requests, self.errors = [], []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: message.type == "error" and self.errors.append(message.text))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.goto(url)
        self.page.wait_for_function("window.MathJax?.startup?.promise === undefined || window.MathJax.startup.promise")
        self.page.evaluate("window.MathJax?.startup?.promise")


@pytest.fixture
def visit(address, browser):
    """Open a page of the book: ``visit("book/intro")``."""
    visits = []

    def open_page(name, **options):
        visits.append(Visit(browser, f"{address}/{name}.html", **options))
        return visits[-1]

    yield open_page
    for each in visits:
        each.context.close()
