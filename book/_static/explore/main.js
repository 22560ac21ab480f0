// Start the figures of a page: <div class="explore" data-explore="playground" data-preset="1(b)"></div>;
// data-ask="score flow" names the questions under it.
import { make } from "./view.js";
import { playground } from "./playground.js";
import { heads } from "./heads.js";
import { road } from "./road.js";
import { dial } from "./dial.js";
import { ball } from "./ball.js";
import { cone } from "./cone.js";
import { story } from "./story.js";
import { quiz } from "./guide.js";
import { questionsOf } from "./questions.js";

const FIGURES = { playground, heads, road, dial, ball, cone, story };

/** All that lies beside an element, and beside what it lies in. */
function beside(element) {
  const found = [];
  for (let node = element; node !== document.body; node = node.parentElement)
    found.push(...[...node.parentElement.children].filter((other) => other !== node));
  return found;
}

/** Start each figure; the second of one kind on a page has its number in the address. */
function start() {
  const places = document.querySelectorAll("[data-explore]"),
    count = {};
  if (places.length) document.head.append(make("style", {}, STYLE));
  // to paint a frame the browser would otherwise walk through all of the page, drawings out of sight too
  if (places.length && innerWidth > 700) // where their height is reserved
    for (const { style } of document.querySelectorAll("svg.drawing")) style.contentVisibility = "auto";
  for (const root of places) {
    for (const other of beside(root)) other.classList.add("explore-apart");
    const name = root.dataset.explore,
      number = (count[name] = (count[name] ?? 0) + 1);
    const { preset, ask, review, words } = root.dataset;
    if ({ story: !review, heads: !words }[name]) continue; // alone, without its page
    const ui = FIGURES[name]?.(root, number > 1 ? `${name}${number}` : name, preset);
    const questions = questionsOf(name, preset, ask);
    if (ui && questions.length) quiz(ui, questions);
  }
}
if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
else start();
