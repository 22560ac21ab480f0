// The first page: a prompt trains on the words of one review, and their shares of its attention fill the words.
import { softmax } from "./engine.js";
import { button, play, still, write } from "./view.js";

const PACE = 25; // milliseconds a step

/**
 * Attention at each step of normalised descent from zero, where the token best scores 1 and all others 0. With one
 * input the slope of the loss changes the gradient's length alone.
 */
export function trained({ keys, step, steps }, best) {
  const p = keys[0].map(() => 0),
    shares = [];
  for (let k = 0; k <= steps; k++) {
    const now = softmax(keys.map((key) => key.reduce((sum, x, c) => sum + x * p[c], 0)));
    const rise = p.map((_, c) => now.reduce((sum, a, t) => sum + a * (keys[best][c] - keys[t][c]), 0)),
      size = Math.hypot(...rise);
    shares.push(now);
    rise.forEach((x, c) => (p[c] += (step * x) / size));
  }
  return shares;
}

const percent = (share) => (share >= 0.995 ? "> 99 %" : share < 0.005 ? "< 1 %" : `${Math.round(100 * share)} %`);

export function landing(root) {
  const problem = JSON.parse(root.dataset.problem),
    words = [...root.querySelectorAll("button")],
    said = root.querySelector(".landing-said"),
    nameOf = (t) => words[t].firstChild.textContent;
  let best = problem.best,
    stop = () => {};
  const again = button("Train", () => train(best), { class: "landing-train" });

  function show(shares) {
    shares.forEach((share, t) => {
      words[t].style.setProperty("--share", share.toFixed(4));
      write(words[t].lastChild, percent(share));
    });
  }
  function train(wanted) {
    stop();
    best = wanted;
    words.forEach((word, t) => word.setAttribute("aria-pressed", String(t === best)));
    const run = trained(problem, best);
    let passed = still() ? Infinity : 0;
    const tick = (since) => {
      passed += Math.max(since, 0); // the first frame may have begun before it was asked for
      const at = Math.min(Math.floor(passed / PACE), problem.steps);
      show(run[at]);
      if (at < problem.steps) return false;
      const top = run[at].indexOf(Math.max(...run[at]));
      write(said, `After ${at} steps attention has picked “${nameOf(top)}” (${percent(run[at][top])}).`);
      return true;
    };
    write(said, `“${nameOf(best)}” scores 1. Before training each word has ${percent(run[0][0])} of the attention.`);
    if (!tick(0)) stop = play(tick);
  }
  words.forEach((word, t) => {
    word.disabled = false;
    word.addEventListener("click", () => train(t));
  });
  said.before(again);
  train(best);
}
