"""Frames a second while a token of the playground is dragged, in a browser slowed down like a phone's.

Usage: ``python -m benchmarks.explore``. Six starts of 1000 steps each, or the flows from them, are computed and drawn
anew for each frame; sentence and bars follow ten times a second. The machine's load stands beside the numbers: they
are worth little where it is not below 1.
"""

import os
import shutil
import sys
import tempfile
from itertools import product
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "workflow"))
import explore  # noqa: E402

SLOWER = 4  # than this machine, as browsers' own tools slow down for a phone
SECONDS = 3
PRESETS = ("1(a)", "1(b)", "1(c)", "5", "8")
STEPS = ("normalised", "flow")
CHOOSE = """step => {
  const field = [...document.querySelectorAll("option")].find(one => one.value === step).parentNode;
  field.value = step;
  field.dispatchEvent(new Event("change"));
}"""
PAGE = """<!doctype html><meta charset="utf-8"><meta name="viewport" content="width=device-width"><body>
<div data-explore="playground" class="explore" data-preset="{}"></div><script>{}</script></body>"""
# Each frame moves the pointer, and counts when what that needs has been drawn.
DRAG = """seconds => new Promise(done => {
  const svg = document.querySelector(".explore-plane"), token = document.querySelector(".explore-handle.token circle");
  const hit = token.getBoundingClientRect();
  const [x, y] = [hit.x + hit.width / 2, hit.y + hit.height / 2], began = performance.now();
  let frames = 0, worst = 0, before = began;
  const send = (kind, dx, dy) => svg.dispatchEvent(new PointerEvent(kind,
    { clientX: x + dx, clientY: y + dy, pointerId: 1, bubbles: true, isPrimary: true }));
  svg.setPointerCapture = () => {};
  send('pointerdown', 0, 0);
  const tick = now => {
    worst = Math.max(worst, now - before);
    before = now;
    frames += 1;
    if (now - began > 1000 * seconds) { send('pointerup', 0, 0); return done([frames / (now - began) * 1000, worst]); }
    send('pointermove', 25 * Math.sin(frames / 9), 25 * Math.cos(frames / 7));
    requestAnimationFrame(tick);
  };
  requestAnimationFrame(tick);
})"""


def main():
    """Print frames a second for each preset."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as driver, tempfile.TemporaryDirectory() as folder:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        for preset, step in product(PRESETS, STEPS):
            page = browser.new_page(viewport={"width": 390, "height": 844})
            place = Path(folder, "page.html")
            place.write_text(PAGE.format(preset, explore.bundle(ROOT / explore.SOURCES)), "utf-8")
            page.goto(place.as_uri())
            page.evaluate(CHOOSE, step)
            page.context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": SLOWER})
            page.wait_for_timeout(500)
            rate, worst = page.evaluate(DRAG, SECONDS)
            load = os.getloadavg()[0]
            print(f"{preset}, {step}: {rate:.0f} frames a second, longest frame {worst:.0f} ms, load {load:.1f}")
            page.close()
        browser.close()


if __name__ == "__main__":
    main()
