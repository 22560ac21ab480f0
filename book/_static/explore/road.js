// One road, three speeds: all step rules end on one line beside the ray, and differ in how fast they move along it.
import { frame } from "./frame.js";
import { plane } from "./plane.js";
import { LOOKS, counts, make, py, small } from "./view.js";
import { PRESETS } from "./playground.js";
import * as engine from "./engine.js";

const FIRST = { wanted: -4, size: 0.1, high: 10 };
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
const AGE = Math.log10(4e26); // steps that 10⁹ a second make in the age of the universe

/**
 * Where on the road the direction is right to 1 - cos = 10^wanted, the decimal logarithm of the steps of each rule
 * to there, and how far each is when the first one has arrived.
 *
 * The road is r theta + across. Constant steps follow the flow, r = log t + along; normalised ones make the length
 * size t, Polyak's theta t / 2.
 */
export function journey({ wanted, size, high }) {
  const problem = inputs({ high }),
    selected = engine.optimalTokens(problem),
    solution = engine.separator(engine.differenceRows(problem, selected));
  const offset = engine.limitOffset(problem, "logistic", selected, solution),
    own = engine.length(solution.theta),
    cosine = 1 - 10 ** wanted;
  const way = (engine.length(offset.across) * cosine) / Math.sqrt(1 - cosine * cosine),
    total = Math.hypot(way, engine.length(offset.across));
  const logs = [
    (way / own - offset.along - Math.log(size)) / Math.LN10,
    Math.log10(total / size),
    Math.log10((2 * total) / own),
  ];
  const steps = 10 ** Math.min(...logs),
    along = (length) => Math.sqrt(Math.max(length * length - total * total + way * way, 0));
  return {
    solution,
    offset,
    way,
    logs,
    reached: [
      Math.max(own * (Math.log(steps * size) + offset.along), 0),
      along(steps * size),
      along((steps * own) / 2),
    ],
  };
}

/** A number that may have two hundred digits. */
const count = (log) => (log < 6 ? Math.round(10 ** log).toLocaleString("en") : power(Math.round(log)));
/** A power of ten. */
export const power = (exponent) => `10${[...String(exponent)].map((digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit]).join("")}`;

function told({ wanted, size }, { logs }) {
  const late = logs[0] - AGE;
  const compare = late > 0 ? ` At 10⁹ steps a second that is ${count(late)} ages of the universe.` : "";
  return (
    `For 1 − cos = ${small(10 ** wanted)} normalised descent with steps of ${size} takes ${count(logs[1])} steps, ` +
    `Polyak's step ${count(logs[2])}, gradient descent with the constant step ${size} takes ` +
    `${count(logs[0])}.${compare}`
  );
}

export function python({ wanted, size, high }) {
  const { keys, scores } = inputs({ high });
  return [
    "import torch",
    "from lib import losses",
    "from lib.geometry import norm",
    "from lib.problem import Problem",
    "from lib.selection import limit_offset",
    "from lib.separators import att_svm",
    "",
    `problem = Problem(keys=${py(keys)}, scores=${py(scores)})`,
    "svm = att_svm(problem)",
    "offset = limit_offset(problem, losses.logistic, svm)",
    `cosine, size = 1 - 10**${wanted}, ${size}`,
    "way = norm(offset.across) * cosine / (1 - cosine**2) ** 0.5",
    "length = (way**2 + norm(offset.across) ** 2) ** 0.5",
    "log_steps = (way / norm(svm.theta) - offset.along) / torch.tensor(10.0).log() - torch.tensor(size).log10()",
    'print("GD: 10 to the", log_steps.item(), " NGD:", (length / size).item(),',
    '      " Polyak:", (2 * length / norm(svm.theta)).item())',
  ];
}

export function road(root, tag) {
  const ui = frame(root, {
    tag,
    title: "One road, three speeds.",
    hint: "How right should the direction be? The bars are logarithmic.",
    first: FIRST,
    python,
    render,
  });
  const view = plane(ui.stage, { name: "The ray, and the road beside it", ratio: 0.26, ui }),
    table = make("div", { class: "explore-count" });
  ui.slider("1 − cos to the limit", { key: "wanted", min: -8, max: -1, step: 0.1, show: (x) => small(10 ** x) });
  ui.slider("Step size", { key: "size", min: 0.02, max: 1, step: 0.02 });
  ui.slider("C, score of one input", { key: "high", min: 2, max: 20, step: 1 });
  ui.add(table);

  function render(state) {
    const found = journey(state),
      { offset, solution, way, logs, reached } = found;
    ui.say(() => {
      const most = Math.max(...logs);
      counts(
        table,
        RULES.map(([name, look], k) => [name, look, logs[k] / most, count(logs[k])]),
      );
      return told(state, found);
    });
    if (!view.width) return;
    // The ray lies level; across is to scale with it, so that the angle at the pin is the angle that is asked for.
    const far = Math.max(way * 1.15, 3),
      side =
        Math.sign(engine.dot([-solution.theta[1], solution.theta[0]], offset.across)) * engine.length(offset.across);
    const back = Math.min(-0.06 * far, ...reached.map((x) => x - 0.1 * far)),
      tall = Math.max(0.12 * far, (0.5 * Math.abs(side) * view.height) / (view.height - 76)); // and room for names
    view.look([back, far, side / 2 - tall, side / 2 + tall]);
    const end = view.window[1];
    view.segment("ray", [0, 0], [end, 0], "dashed");
    view.segment("road", [0, side], [end, side], "path c0");
    view.segment("angle", [0, 0], [way, side], "thin");
    let free = 0; // where the next name may begin
    for (const [k] of [...reached.entries()].sort(([, a], [, b]) => a - b)) {
      const [name, look] = RULES[k],
        short = name.split(/\W/)[0],
        [x, y] = view.to([reached[k], side]),
        left = Math.max(x - 12, free);
      view.dot(`dot ${k}`, [reached[k], side], 7 - k, look);
      view.label(`name ${k}`, left, y + (side > 0 ? -12 : 22), short, look);
      free = left + 8 * short.length + 8;
    }
    view.label("after", 8, 14, `where each is after ${count(Math.min(...logs))} steps`);
    view.beside("limit", [way / 2, 0], 0, side > 0 ? 18 : -8, "max-margin direction");
    view.tidy();
  }
  ui.start();
  return ui;
}
