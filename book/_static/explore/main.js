// Start the figures of a page: <div class="explore" data-explore="playground" data-preset="1(b)"></div>.
import { make } from "./view.js";
import { playground } from "./playground.js";
import { rounding } from "./rounding.js";
import { road } from "./road.js";
import { dial } from "./dial.js";
import { ball } from "./ball.js";

const FIGURES = { playground, rounding, road, dial, ball };

/** Start each figure; the second of one kind on a page has its number in the address. */
function start() {
  const places = document.querySelectorAll("[data-explore]"), count = {};
  if (places.length) document.head.append(make("style", {}, STYLE));
  for (const root of places) {
    const name = root.dataset.explore, number = (count[name] = (count[name] ?? 0) + 1);
    FIGURES[name]?.(root, number > 1 ? `${name}${number}` : name, root.dataset.preset);
  }
}
if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
else start();
