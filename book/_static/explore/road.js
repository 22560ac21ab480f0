// One road, three speeds: all step rules end on one line beside the ray, and differ in how fast they move along it.
import { frame } from "./frame.js";
import { plane } from "./plane.js";
import { LOOKS } from "./looks.js";
import { counts, make, py } from "./view.js";
import { PRESETS } from "./playground.js";
import * as engine from "./engine.js";

export const FIRST = { wanted: -4, size: 0.1, high: 10 };
/**
 * The two inputs of Figure 5: a token of score C and one of score 1 pull with unequal strength, so the road lies
 * beside the ray.
 */
const inputs = ({ high }) => ({
  keys: PRESETS[5].keys,
  scores: [
    [0, high],
    [0, 1],
  ],
});
const RULES = [
  ["GD, constant step", LOOKS.GD],
  ["NGD, normalised", LOOKS.NGD],
  ["Polyak's step", LOOKS.Polyak],
];
const RUN = [20000, 5000, 1000]; // steps that are run of each rule
const LATER = 30; // log t to which the flow is followed from there
const AGE = Math.log10(4.35e26); // steps that 10⁹ a second make in the age of the universe

/** The 1 - cos that is asked for, of two digits, as it is told. */
const asked = (wanted) => Number((10 ** wanted).toPrecision(2));

/** What depends on no wanted angle: the ray, the road's offset from it, and the first steps of each rule. */
let ran = {};
function runs({ size, high }) {
  const name = `${size} ${high}`;
  if (ran.name === name) return ran;
  const problem = inputs({ high }),
    selected = engine.optimalTokens(problem),
    solution = engine.separator(engine.differenceRows(problem, selected)),
    descent = (kind, k) => engine.descend(problem, "logistic", [0, 0], { kind, size }, RUN[k]);
  const paths = [...["constant", "normalised"].map(descent), engine.polyak(problem, RUN[2])],
    offset = engine.limitOffset(problem, "logistic", selected, solution),
    later = engine.flow(problem, "logistic", engine.endOf(paths[0]), LATER);
  return (ran = { name, problem, solution, offset, paths, later });
}

/**
 * The decimal logarithm of the steps of each rule after which the direction stays right to 1 - cos = 10^wanted, and
 * where each is when the first one has come so far.
 *
 * Runs tell it as far as they go. Beyond, constant steps follow the flow, and all are on the road, r theta + across,
 * where the flow has r = log t + along, and normalised steps grow by the step size, Polyak's by half of theta.
 */
export function journey({ wanted, size, high }) {
  const found = runs({ size, high }),
    { problem, solution, offset, paths, later } = found,
    own = engine.length(solution.theta),
    aside = engine.length(offset.across),
    wrong = (path, k) => !(engine.oneMinusCosine(engine.at(path, k), solution.theta) <= asked(wanted));
  const cosine = 1 - asked(wanted),
    way = (aside * cosine) / Math.sqrt(1 - cosine * cosine),
    paces = [0, size, own / 2],
    long = (k) => engine.length(engine.endOf(paths[k]));
  const logs = paths.map((path, k) => {
    const until = (points, to) => {
      let last = to;
      while (last > 0 && !wrong(points, last)) last--;
      return last;
    };
    const last = until(path, RUN[k]);
    if (last < RUN[k]) return Math.log10(last + 1);
    if (k) return Math.log10(last + (Math.hypot(way, aside) - long(k)) / paces[k]);
    const end = later.times.length - 1,
      before = until(later.path, end);
    if (before === end) return (way / own - offset.along - Math.log(size)) / Math.LN10;
    const part = [...Array(50).keys()].find((x) => !wrong(later.path, before + (x + 1) / 50)) / 50,
      tau = later.times[before] + part * (later.times[before + 1] - later.times[before]);
    return Math.log10(last + Math.expm1(tau) / size);
  });
  const steps = Math.round(10 ** Math.min(...logs)),
    reached = paths.map((path, k) => {
      if (steps <= RUN[k]) return engine.at(path, steps);
      const more = steps - RUN[k],
        far = Math.sqrt((long(k) + more * paces[k]) ** 2 - aside ** 2) / own;
      if (!k) return engine.endOf(engine.flow(problem, "logistic", engine.endOf(path), Math.log1p(more * size)).path);
      return solution.theta.map((x, c) => far * x + offset.across[c]);
    });
  return { ...found, way, logs, reached, steps };
}

/** A number that may have two hundred digits; it is rounded where more steps than so many make it a prediction. */
const count = (log, most = 0) => {
  const sure = log <= Math.log10(most) + 1e-9,
    number = () => (sure ? Math.round(10 ** log) : +(10 ** log).toPrecision(2)).toLocaleString("en");
  return `${sure ? "" : "about "}${log < 9 ? number() : power(Math.round(log))}`;
};
/** A power of ten. */
export const power = (exponent) => `10${[...String(exponent)].map((digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit]).join("")}`;

export function told({ wanted, size }, { logs }) {
  const late = logs[0] - AGE,
    compare = late > 0 ? ` At 10⁹ steps a second that is ${count(late)} ages of the universe.` : "",
    steps = (k) => `${count(logs[k], RUN[k])} step${logs[k] ? "s" : ""}`;
  return (
    `For 1 − cos to stay below ${asked(wanted)} normalised descent with steps of ${size} needs ${steps(1)}, ` +
    `Polyak's rule ${steps(2)}, gradient descent with the constant step ${size} ${steps(0)}.${compare}`
  );
}

export function python({ wanted, size, high }) {
  const { keys, scores } = inputs({ high });
  return [
    "import torch",
    "from lib import losses",
    "from lib.descent import constant, normalised, polyak, run",
    "from lib.geometry import one_minus_cosine",
    "from lib.problem import Problem",
    "from lib.separators import att_svm",
    "",
    `problem = Problem(keys=${py(keys)}, scores=${py(scores)})`,
    "svm, start = att_svm(problem), torch.zeros(2, dtype=torch.float64)",
    `rules = {constant(${size}): ${RUN[0]}, normalised(${size}): ${RUN[1]}, polyak(problem, losses.logistic, [1, 1]): ${RUN[2]}}`,
    "for rule, steps in rules.items():",
    "    away = one_minus_cosine(run(problem, losses.logistic, start, rule, steps).theta[1:], svm.theta)",
    `    needed = 1 + max((k for k, x in enumerate(away, 1) if x > ${asked(wanted)}), default=0)`,
    '    print(needed if needed <= steps else "more")',
  ];
}

export function road(root, tag) {
  const ui = frame(root, {
    tag,
    title: "One road, three speeds.",
    hint: "How right should the direction be? The bars are logarithmic. Numbers with “about” are predicted, all others run.",
    first: FIRST,
    python,
    render,
  });
  const view = plane(ui.stage, { name: "The ray, and the road beside it", ratio: 0.26, ui }),
    table = make("div", { class: "explore-count" });
  ui.slider("1 − cos to the limit", { key: "wanted", min: -8, max: -1, step: 0.1, show: asked });
  ui.slider("Step size", { key: "size", min: 0.02, max: 1, step: 0.02 });
  ui.slider("C, score of one input", { key: "high", min: 2, max: 20, step: 1 });
  ui.add(table);

  function render(state) {
    const found = journey(state),
      { offset, solution, way, logs, reached, steps } = found;
    ui.say(() => {
      const most = Math.max(...logs, 1);
      counts(
        table,
        RULES.map(([name, look], k) => [name, look, logs[k] / most, count(logs[k], RUN[k])]),
      );
      return told(state, found);
    });
    if (!view.width) return;
    // The ray lies level; across is to scale with it, so that the angle at the pin is the angle that is asked for.
    const far = Math.max(way * 1.15, 3),
      side =
        Math.sign(engine.dot([-solution.theta[1], solution.theta[0]], offset.across)) * engine.length(offset.across);
    const [along, up] = [solution.theta, [-solution.theta[1], solution.theta[0]]].map((one) => engine.unit(one)),
      places = reached.map((at) => [engine.dot(along, at), engine.dot(up, at)]);
    const back = Math.min(-0.06 * far, ...places.map(([x]) => x - 0.1 * far)),
      tall = Math.max(0.12 * far, (0.5 * Math.abs(side) * view.height) / (view.height - 76)); // and room for names
    view.look([back, far, side / 2 - tall, side / 2 + tall]);
    const end = view.window[1];
    view.segment("ray", [0, 0], [end, 0], "dashed");
    view.segment("road", [0, side], [end, side], "path c2");
    view.segment("angle", [0, 0], [way, side], "thin");
    let free = 0; // where the next name may begin
    for (const [k] of [...places.entries()].sort(([, [a]], [, [b]]) => a - b)) {
      const [name, look] = RULES[k],
        short = name.split(/\W/)[0],
        [x, y] = view.to(places[k]),
        left = Math.max(x - 12, free);
      view.dot(`dot ${k}`, places[k], 7 - k, look);
      view.label(`name ${k}`, left, y + (side > 0 ? -12 : 22), short, look);
      free = left + 8 * short.length + 8;
    }
    view.label("after", 8, 14, `where each is after ${steps.toLocaleString("en")} step${steps > 1 ? "s" : ""}`);
    view.beside("limit", [way / 2, 0], 0, side > 0 ? 18 : -8, "max-margin direction");
    view.tidy();
  }
  ui.start();
  return ui;
}
