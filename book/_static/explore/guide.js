// What leads a reader through a figure: marks that say what to do first, and questions to answer before one looks.
import { button, make, still, turn, write } from "./view.js";

/**
 * Marks above a figure, one at a time: the next one comes when one is done, and after the last they are gone.
 *
 * marksOf(state) gives those of a configuration, {words, at, done(state, from)}: at is the selector of what to take
 * hold of, from the state in which the mark appeared; while that is not there, nothing is said. Where name(state)
 * changes they begin anew, unless the reader has sent them away or done them all.
 */
export function coach(ui, marksOf, name) {
  const number = make("b", { "aria-hidden": "true" });
  const words = make("span", { "aria-live": "polite" });
  const node = make("p", { class: "explore-coach" }, number, words, button("Got it", next));
  let place = 0;
  let from = null;
  let over = false;
  let pointed = null;

  function next() {
    place += 1;
    from = ui.state();
    over ||= place >= marksOf(from).length;
    show();
  }
  function show() {
    const due = over ? null : marksOf(ui.state())[place],
      at = due ? ui.box.querySelector(due.at) : null,
      mark = at && !at.hidden ? due : null;
    node.classList.toggle("over", !mark); // its room stays: nothing jumps under a finger that drags
    if (mark) {
      write(number, String(place + 1));
      write(words, mark.words);
    }
    if (at !== pointed) pointed?.classList.remove("explore-pointed");
    if (at?.classList.contains("explore-pointed") === false) at.classList.add("explore-pointed");
    pointed = at;
  }
  ui.above(node);
  ui.watch((state) => {
    if (from === null || name(state) !== name(from)) {
      place = 0;
      from = state;
    } else if (!over && marksOf(state)[place].done(state, from)) return next();
    show();
  });
}

/**
 * Questions under a figure: choose first, then turn the figure, or let it be turned, and see.
 *
 * Each is {ask, options, answer(), told(), show(), seen(state)}: the place of the right option and what there is to say
 * of it, both computed; the state that shows it; whether they are true of a state. The answer goes when they are not.
 */
export function quiz(ui, questions) {
  const node = make("div", { class: "explore-quiz" }, make("strong", {}, "Predict, then drag."));
  questions.forEach((one, k) => node.append(question(ui, one, `${ui.tag} question ${k + 1}`.replaceAll(" ", "-"))));
  ui.under(node);
}

function question(ui, { ask, options, answer, told, show, seen }, id) {
  let guess = -1;
  let open = true;
  const said = make("p", { class: "explore-answer", "aria-live": "polite" });
  const choices = options.map((text, k) => button(text, () => choose(k), { "aria-pressed": "false" }));
  // the answer is under the drawing, at the end of the screen: as much as possible of the drawing is above it
  const look = () => ui.sentence.scrollIntoView({ block: "end", behavior: still() ? "instant" : "smooth" });
  const reveal = button("Show me", () => ui.set(show()), { hidden: "" });

  function choose(k) {
    guess = k;
    said.ariaLive = "polite";
    choices.forEach((each, at) => each.setAttribute("aria-pressed", String(at === k)));
    judge(ui.state());
  }
  /** Say the answer while the state shows it. */
  function judge(state) {
    open = guess < 0 || !seen(state);
    const right = open ? -1 : answer();
    turn(reveal, "hidden", !open || guess < 0);
    choices.forEach((each, at) => each.classList.toggle("right", at === right));
    if (!open) write(said, `${guess === right ? "Right." : `It is “${options[right]}”.`} ${told()}`);
    else if (guess >= 0) write(said, "Now try it in the figure, or let it show you.");
  }
  ui.watch((state) => {
    const before = open;
    judge(state);
    if (open || !before) return;
    said.ariaLive = "off"; // the sentence says it
    ui.remark(said.textContent);
    // a drawing that is dragged is in view, and a slider comes to rest first
    if (ui.stage.contains(document.activeElement)) return;
    if (ui.moving()) ui.box.addEventListener("change", look, { once: true });
    else look();
  });
  return make(
    "div",
    { role: "group", "aria-labelledby": id },
    make("p", { id }, ask),
    make("div", { class: "explore-row" }, ...choices, reveal),
    said,
  );
}
