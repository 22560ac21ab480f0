// What each figure says at random settings and starts, against runs that are far longer: the sentences that are false.
const { dot, length, oneMinusCosine, endOf, at, unit, descend, flow } = engineModule;
let seed = 1;
const random = () => (seed = (seed * 1664525 + 1013904223) % 4294967296) / 4294967296;
const pick = (...list) => list[Math.floor(random() * list.length)];
const near = (low, high, step = 0.01) => +(low + Math.round((random() * (high - low)) / step) * step).toFixed(3);
const point = (size) => [near(-size, size), near(-size, size)];
const turn = (a, b) => 2 * Math.asin(Math.min(Math.sqrt(oneMinusCosine(a, b) / 2), 1)) * (180 / Math.PI);
const number = (text, pattern) => +(text.match(pattern)?.[1] ?? "none").replaceAll(",", "");
const like = (said, real, share = 0.06) => Math.abs(said - real) <= share * Math.abs(real);
const rays = (count, half = Math.PI) => Array.from({ length: count + 1 }, (_, k) => half * ((2 * k) / count - 1));
const heading = (angle) => [Math.cos(angle), Math.sin(angle)];
const highest = (list, value) => list.map((one) => [value(one), one]).reduce((a, b) => (b[0] > a[0] ? b : a))[1];
/** Keys of which the first is ahead of both others in one direction, but by a ten billionth. */
const beside = ([x, y]) => [[x - 1, y + 1e-10], [x + 1, y + 1e-10]];
const vague = (text) => text.includes("by more than 10⁻⁹");
const TENTH = { kind: "normalised", size: 0.1 };

/** Whether a run tends to a choice: after a hundred times the steps, or late in the flow into which others go over. */
function reaches({ selected, separator }, problem, loss, start, rule) {
  const run = (steps) => endOf(descend(problem, loss, start, rule, steps, 2, steps));
  let end = rule.kind === "normalised" ? run(1e5) : rule.kind === "flow" ? start : run(2e4);
  if (rule.kind !== "normalised") for (let k = 0; k < 4; k++) end = endOf(flow(problem, loss, end, 2000).path);
  return String(engineModule.selectedAt(problem, end)) === String(selected) && oneMinusCosine(end, separator.theta) < 1e-3;
}
/** Mean score of one input. */
const score = ({ keys: [keys], scores: [scores] }, p) => {
  const logits = keys.map((key) => dot(key, p)), odds = logits.map((z) => Math.exp(z - Math.max(...logits)));
  return odds.reduce((sum, o, t) => sum + o * scores[t], 0) / odds.reduce((a, b) => a + b);
};

const CHECKS = {
  playground(k, wrong) {
    const base = playgroundModule.preset(pick("1(a)", "1(b)", "1(c)", "5", "8")), far = pick(0, 0.5, 1.5);
    const tokens = Array.from({ length: k % 5 ? base.keys[0].length : 8 }), starts = [point(3), point(3)];
    const keys = base.keys.map((row) => tokens.map((_, t) => (row[t] ?? point(1)).map((x) => near(x - far, x + far))));
    const scores = base.scores.map((row) => tokens.map((_, t) => pick(row[t] ?? 0, near(-1, 2, 0.05))));
    const [loss, step] = [pick(...engineModule.losses), pick("normalised", "constant", "flow")];
    const state = { ...base, keys, scores, starts, loss, step,
      size: pick(0.02, 0.1, 0.5, 1), shown: pick(0, 300, 1000) };
    const solved = playgroundModule.solve(state), text = playgroundModule.told(state, solved),
      { choices, ends } = solved;
    ends.forEach(({ place }, n) => place < 0 ||
      reaches(choices[place], solved.problem, loss, starts[n], { kind: step, size: state.size }) || wrong(state, n, text));
    const open = ends.filter(({ place }) => place < 0).length,
      best = ends.filter((one) => choices[one.place]?.best).length;
    const told = [/(\d+) to the best/, /(\d+) to another/, /(\d+) undecided/].map((part) => number(text, part) || 0);
    if (text.includes("→") && String(told) !== String([best, 2 - best - open, open])) wrong(text);
    if (text.includes("None of these starts") && best < 2) wrong(text);
    const now = solved.runs.flatMap(({ path, times }, n) => {
      const step = times ? engineModule.placeAt(times, state.shown / 10) : state.shown, p = at(path, step);
      return ends[n].place >= 0 && length(p) ? turn(p, choices[ends[n].place].separator.theta) : [];
    });
    if (Math.max(...now) > 0.01 && !like(number(text, /farthest is ([\d.]+)°/), Math.max(...now))) wrong(state, text, now);
    if (/A second limit|further/.test(text) && text.includes("direction is known")) wrong(text);
    const a = point(2), thin = { ...state, keys: [[a, ...beside(a)]], scores: [[1, 0, 0]] };
    const words = playgroundModule.told(thin, playgroundModule.solve(thin));
    if (k % 20 === 0 && !(vague(words) && words.includes("10⁻⁶"))) wrong(thin, words);
    const all = pick(96, 6432), won = pick(0, 1, Math.floor(random() * all), all - 1, all), unknown = pick(0, 1, all - won);
    const [, first, , second] = playgroundModule.mapped(won, unknown, all).match(/view (.*?) choose best(, (.*?) are)?/);
    for (const [share, count] of [[first, won], [second ?? "0 %", unknown]])
      if ((share === "0 %") !== !count || (share === "100 %") !== (count === all)) wrong(share, count, all);
  },
  road(k, wrong) {
    const state = { wanted: k % 9 ? near(-8, -1, 0.1) : -1, size: near(0.02, 1, 0.02), high: near(2, 20, 1) };
    const found = roadModule.journey(state), text = roadModule.told(state, found), last = k % 30 ? 3e4 : 2e5;
    const problem = { keys: playgroundModule.PRESETS[5].keys, scores: [[0, state.high], [0, 1]] };
    const off = (path, step) => oneMinusCosine(at(path, step), found.solution.theta) > +(10 ** state.wanted).toPrecision(2);
    const parts = [/constant step [\d.]+ (?:about )?([\d,]+)/, /steps of [\d.]+ needs (?:about )?([\d,]+)/];
    ["constant", "normalised"].forEach((kind, n) => {
      const path = descend(problem, "logistic", [0, 0], { kind, size: state.size }, last),
        { steps, reached } = found;
      let step = last;
      while (step && !off(path, step)) step--;
      if (!off(path, last)
        && !like(number(text, parts[n]), step + 1, step < [2e4, 5e3][n] ? 0 : 0.1)) wrong(state, text, step);
      if (steps <= last && turn(reached[n], at(path, steps)) > 2 && length(reached[n]) > 1) wrong(state, text, reached);
    });
    const { path, times } = flow(problem, "logistic", [0, 0], 250), j = times.findLastIndex((_, n) => off(path, n));
    const log = (found.logs[0] + Math.log10(state.size)) * Math.LN10;
    if (found.logs[0] > 5 && times[j + 1] && (log < times[j] - 0.2 || log > times[j + 1] + 0.2)) wrong(state, text);
  },
  dial(k, wrong) {
    const third = k % 5 ? [near(-0.5, 2.7), near(-1.2, 1.9)] : pick([0.5, 1.5], [0, 0], [1, 1], [0.5, 1.02]);
    const state = { third, ratio: near(-1, 1) }, found = dialModule.turned(state, state.ratio);
    const close = { third: [1e-10 - 1, 1], ratio: 0 };
    if (!vague(dialModule.told(close, dialModule.turned(close, 0)))) wrong("no limit");
    if (!found) return;
    const text = dialModule.told(state, found), rows = [[1, 1], [1, -1], third];
    const leads = (u, c) => rows.map((row, i) => (dot(u, row) < 0 ? -9 : dot(u, row) + c * found.buffers[i]));
    const prompt = (c) => highest(rays(6000, Math.PI / 2).map(heading), (u) => Math.min(...leads(u, c)));
    const off = turn(prompt(10 ** state.ratio), found.relaxed.theta),
      said = number(text, /is ([\d.]+)° from the rel/) || 0;
    const same = text.includes("max-margin direction"); // at every ratio
    if (same ? turn(prompt(0.1), prompt(10)) > 0.1 : Math.abs(said - off) > 0.1) wrong(state, text, off);
    if (text.includes("paper's figure") && Math.abs(found.threshold - 1) > 1e-3) wrong(state, text);
  },
  ball(k, wrong) {
    const rows = [[near(-0.5, 2), near(-0.5, 2)], [near(-0.5, 2), near(-0.5, 2)]];
    const state = { rows, norm: pick(1.05, 1.3, 2, 3, 10, 20), grown: 1, path: true };
    const over = pick(-1e-4, -5e-7, 1e-8, 5e-7, 1e-4), hair = k % 10 === 0; // beyond one row's touching point
    if (hair) {
      const q = 1 / (1 - 1 / state.norm), heading = [1, near(0.5, 1)], other = [near(0.1, 0.4), near(1, 2)];
      const touch = heading.map((x) => x ** (q - 1) / heading.reduce((sum, one) => sum + one ** q, 0));
      state.rows = [heading, other.map((x) => (x * (1 + over)) / dot(other, touch))];
    }
    const solved = ballModule.grow(state);
    const { theta, feasible, margins } = solved.solution;
    if (!feasible || length(theta) > 20) return;
    const text = ballModule.told(state, solved), sphere = rays(6000).map((angle) => unit(heading(angle), state.norm));
    const best = highest(sphere, (u) => Math.min(...state.rows.map((row) => dot(row, u))));
    if (turn(best, theta) > (state.norm === 2 ? 0.1 : 1)) wrong(state, text, best);
    const held = hair ? over < 0 : margins.every((margin) => margin < 1 + 1e-5);
    if (text.includes("corner") !== held) wrong(state, text, margins);
    if (!vague(ballModule.told({ ...state, rows: beside([0, 0]) }, ballModule.grow({ ...state, rows: beside([0, 0]) })))) wrong("no wedge");
    const size = 10 * length(theta, state.norm), here = (u) => score(solved.problem, [size * u[0], size * u[1]]);
    const lowest = highest(sphere, here), off = turn(lowest, theta),
      said = number(text, /risk is (?:less than )?([\d.]+)°/);
    if (here(lowest) < 1 - 1e-9 && Math.abs(said - off) > 0.06 * off + 0.1) wrong(state, text, off);
  },
  cone(k, wrong) {
    const spot = point(1),
      others = k % 7 ? [point(1), point(1)] : pick([spot, spot], [[0, 0], [0, 0]], [[0, 0.6], [0, -0.6]]);
    const state = { others, score: pick(near(-0.5, 1.5, 0.05), 0.5, 0),
      turn: pick(0, 1, near(-30, 30, 1)), opening: near(2, 30, 1) };
    const found = coneModule.walk(state), text = coneModule.told(state, found);
    if (!found.feasible && !vague(text)) wrong(state, text);
    const thin = { ...state, others: beside([1, 0]) };
    if (!vague(coneModule.told(thin, coneModule.walk(thin)))) wrong("no direction");
    if (!found.feasible) return;
    const middle = Math.atan2(found.axis[1], found.axis[0]), { bounded, settled, local, last, points, problem } = found;
    const inside = rays(1000, (state.opening * Math.PI) / 180).map((angle) => heading(middle + angle));
    const most = (size) => Math.max(...inside.map(([x, y]) => score(problem, [size * x, size * y])));
    const sizes = Array.from({ length: 100 }, (_, j) => last * 2 ** (j / 50 - 1)).filter((size) => size >= 1);
    if (bounded && last < 15 && !like(number(text, /at length ([\d.]+)/), highest(sizes, most))) wrong(state, text);
    if (!bounded && score(problem, points[16]) < most(length(points[16])) - 1e-9) wrong(state, "is not the lowest risk");
    if (settled && (state.turn || (text.includes("position") && coneModule.apart(others)))) wrong(state, text);
    const general = new Set([0.5, state.score, 0]).size === 3 && coneModule.apart(others) > 0.05;
    if (!bounded && general && settled !== local) wrong(state, text, found.angles.at(-1));
  },
  story(k, wrong) {
    const view = new Proxy({}, { get: (_, name) => (name === "width" ? 600 : () => []) }), none = () => {};
    const scene = { view, far: { width: 0 }, kept: (_, __, compute) => compute(), handle: none, bars: none, counts: none };
    const first = { ...sceneModule.SCENE, best: "thin", norm: 3, rule: "gradient", shown: near(0, 1000, 1) };
    const said = (name, by) => storyModule.STEPS[name].draw(scene, { ...first, ...storyModule.STEPS[name].first, ...by });
    const problem = { keys: [first.keys], scores: [first.scores] }, choices = engineModule.locallyOptimal(problem);
    const starts = first.starts.map(([x, y]) => [near(x - 1, x + 4), near(y - 1, y + 1)]), ends = said("starts", { starts });
    const ending = (best) => starts.filter((p) =>
      choices.some((one) => one.best === best && reaches(one, problem, "logistic", p, TENTH))).length;
    const told = [/From (\d)/, /and from (\d)/].map((part) => number(ends, part)), open = number(ends, /steps: (\d)/) || 0;
    if (told[0] + told[1] + open !== 6) wrong(ends);
    if (k % 15 === 0 && [true, false].some((best, n) => told[n] > ending(best))) wrong(starts, ends);
    const text = said("speed", { shown: first.shown }), { path, times } = flow(problem, "logistic", [0, 0], 150);
    const long = length(at(descend(problem, "logistic", [0, 0], TENTH, 1000), first.shown));
    const j = times.findIndex((_, n) => length(at(path, n)) >= long),
      digits = text.match(/10([⁰¹²³⁴⁵⁶⁷⁸⁹]+)/)?.[1] ?? "";
    const power = +[...digits].map((digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹".indexOf(digit)).join("") * Math.LN10;
    if (digits && (power < times[j - 1] - 1.4 || power > times[j] + 1.4)) wrong(first.shown, text);
    for (const name of ["direction", "sharpens", "norm", "picks", "rounding", "optimiser"]) {
      const words = said(name, { shown: pick(0, first.shown), keys: [point(2), point(2), [0, 0]], norm: near(1.05, 4) });
      if (/unknown|NaN|e-\d|nowhere|\b(0|100) %/.test(words)) wrong(name, words);
    }
    if (!vague(said("direction", { keys: [[0, 0], ...beside([0, 0])] }))) wrong("no max-margin");
  },
  /** No answer is shown where another setting than the one it is asked of may change it. */
  questions(k, wrong) {
    const all = Object.entries(questionsModule.QUESTIONS), [name, one] = all[k % all.length], shown = one.show();
    const by = { size: 0.04, high: 2, loss: "exponential", epsilon: -4, opening: 2, turn: 5, norm: 1.5, step: "constant",
      rows: [[2, 0.3], [0.3, 2]], scores: [[1, 0.2, 0.1]], keys: [[[0, 1], [1, 0.3], [0, 0.1]]], third: [0.3, 1] };
    for (const key in by) if (key in shown && one.seen({ ...shown, [key]: by[key] })) wrong(name, key, one.told());
    if (!one.seen(shown)) wrong(name, "does not show its answer");
  },
};
const truth = ([name, count]) => {
  const found = [];
  const wrong = (...all) => found.push(all.map((one) => (typeof one === "string" ? one : JSON.stringify(one))).join(" | "));
  for (let k = 0; k < count; k++) CHECKS[name](k, wrong);
  return found;
};
