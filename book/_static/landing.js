// The first page: a prompt trains on the words of one review, and their shares of its attention fill the words.
// A script of its own: the one of all interactive figures would come later than two seconds.
const [PACE, EVEN] = [25, 800]; // milliseconds: a step, and how long the words are even at first

/**
 * Attention at each step of normalised descent from zero, where the token best scores 1 and all others 0. With one
 * input the slope of the loss changes the gradient's length alone.
 */
function trained({ keys, step, steps }, best) {
  const p = keys[0].map(() => 0),
    shares = [];
  for (let k = 0; k <= steps; k++) {
    const odds = keys.map((key) => Math.exp(key.reduce((sum, x, c) => sum + x * p[c], 0))),
      total = odds.reduce((a, b) => a + b),
      now = odds.map((x) => x / total);
    const rise = p.map((_, c) => now.reduce((sum, a, t) => sum + a * (keys[best][c] - keys[t][c]), 0)),
      size = Math.hypot(...rise);
    shares.push(now);
    rise.forEach((x, c) => (p[c] += (step * x) / size));
  }
  return shares;
}

const percent = (share) => (share >= 0.995 ? "> 99 %" : share < 0.005 ? "< 1 %" : `${Math.round(100 * share)} %`);

function landing(root) {
  const problem = JSON.parse(root.dataset.problem),
    words = [...root.querySelectorAll("button")],
    said = root.querySelector(".landing-said"),
    nameOf = (t) => words[t].firstChild.textContent;
  let best = problem.best,
    asked = 0;
  const again = Object.assign(document.createElement("button"), { type: "button", textContent: "Train" });

  function show(shares) {
    shares.forEach((share, t) => {
      words[t].style.setProperty("--share", share.toFixed(4));
      words[t].lastChild.textContent = percent(share);
    });
  }
  function train(wanted) {
    cancelAnimationFrame(asked);
    best = wanted;
    words.forEach((word, t) => word.setAttribute("aria-pressed", String(t === best)));
    const run = trained(problem, best),
      start = performance.now() + EVEN;
    const frame = (now) => {
      const passed = matchMedia("(prefers-reduced-motion: reduce)").matches ? Infinity : Math.max(now - start, 0),
        at = Math.min(Math.floor(passed / PACE), problem.steps);
      show(run[at]);
      if (at < problem.steps) return (asked = requestAnimationFrame(frame));
      const top = run[at].indexOf(Math.max(...run[at]));
      said.textContent = `After ${at} steps attention has picked “${nameOf(top)}” (${percent(run[at][top])}).`;
    };
    said.textContent = `“${nameOf(best)}” scores 1; each word began with ${percent(run[0][0])}.`;
    frame(start);
  }
  words.forEach((word, t) => {
    word.disabled = false;
    word.addEventListener("click", () => train(t));
  });
  again.className = "landing-train";
  again.addEventListener("click", () => train(best));
  said.before(again);
  train(best);
}
globalThis.document?.querySelectorAll(".landing").forEach(landing);
