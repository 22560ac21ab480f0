"""Show the built site on this machine alone: `make serve PORT=8000`."""

import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

SITE = Path("build/html")


def main(port):
    """Serve until interrupted."""
    if not port.isdecimal() or not 0 < int(port) < 65536:
        sys.exit(f"PORT is {port!r}: give a whole number from 1 to 65535")
    if not (SITE / "index.html").exists():
        sys.exit(f"there is no {SITE}/index.html: run make book")
    try:
        server = ThreadingHTTPServer(("127.0.0.1", int(port)), partial(SimpleHTTPRequestHandler, directory=SITE))
    except OSError as error:
        sys.exit(f"PORT is {port}, which cannot be had ({error.strerror.lower()}): take another")
    print(f"http://127.0.0.1:{port}/", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        print()


if __name__ == "__main__":
    main(sys.argv[1])
