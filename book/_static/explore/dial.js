// The dial of Theorem 6: how fast the head grows, compared with the prompt, decides which direction the prompt takes.
import { frame } from "./frame.js";
import { plane } from "./plane.js";
import { HAIR, needed, py } from "./view.js";
import * as engine from "./engine.js";

const LABELS = [1, -1, 1],
  STARS = [
    [1, 1],
    [1, -1],
  ]; // Figure 3; the third token is the one to drag, all others are at the origin
const FIRST = { third: [0.5, 1.5], ratio: 0 };
const SPAN = [-1, 1]; // decades of the ratio
const DIAMOND = "m0 -8l8 8l-8 8l-8 -8z";

const check = ({ third }) => needed(third.length === 2, "two coordinates of the token");

/** The limit for the ratio 10^log. */
export function turned({ third }, log) {
  const tokens = [...STARS, third];
  return engine.jointLimit(
    tokens.map((x, i) => x.map((part) => LABELS[i] * part)),
    tokens.map((x) => [x]),
    10 ** log,
  );
}

const degrees = (u) => (Math.atan2(u[1], u[0]) * 180) / Math.PI;

export function told({ third, ratio }, found) {
  if (!found)
    return `No head separates the labels, or no prompt these tokens from the origin, ${HAIR}: no limit is known.`;
  const { prompt, relaxed, threshold, buffers } = found,
    gap = Math.abs(degrees(prompt) - degrees(relaxed.theta)),
    c = 10 ** ratio,
    off = ["first", "second", "third"].filter((_, i) => buffers[i] > 0),
    inputs = `${off.join(" and ")} input${off.length > 1 ? "s" : ""}`;
  if (!off.length)
    return "All three inputs are on the label margin: every ratio has the same limit, the max-margin direction.";
  const which =
    buffers[2] > 0 ? "" : `The ${inputs} ${off.length > 1 ? "are" : "is"} off the label margin, the third is on it. `;
  if (threshold < 1e-9)
    return (
      `${which}The relaxed direction leaves the ${inputs} a margin of 1 anyway: every ratio above 10⁻⁹ has the same limit, ` +
      "the max-margin direction."
    );
  const [least, most] = SPAN.map((log) => 10 ** log);
  const here =
    c < threshold
      ? `is ${gap < 0.05 ? "less than 0.1" : gap.toFixed(1)}° from the relaxed direction, and reaches it${threshold > most ? " only" : ""}`
      : "is on the relaxed direction, which it reaches";
  const beyond =
    threshold > most ? ", beyond the end of this dial" : threshold < least ? ", below the start of this dial" : "";
  const there =
    String(third) === String(FIRST.third) ? " The paper's figure, with equal rates, sits exactly there." : "";
  return (
    `${which}The head grows ${c.toFixed(2)} times as fast as the prompt. The prompt ${here} at c* = ` +
    `${threshold < 0.1 ? threshold.toPrecision(2) : threshold.toFixed(2)}${beyond}.${there}`
  );
}

export function python({ third, ratio }) {
  return [
    "import torch",
    "from lib.joint import JointProblem",
    "from lib.joint_paths import joint_limit",
    "",
    `tokens = [[[0, 0], [1, 1]], [[0, 0], [1, -1]], [[0, 0], ${py(third)}]]`,
    "problem = JointProblem(torch.tensor(tokens, dtype=torch.float64), [1, -1, 1])",
    `limit = joint_limit(problem, selected=[1, 1, 1], ratio=10 ** ${ratio})`,
    "print(limit.prompt, limit.threshold)",
  ];
}

export function dial(root, tag) {
  let key = "",
    angles = []; // of the curve, as long as the token stays
  const ui = frame(root, {
    tag,
    title: "Turn the dial.",
    hint: "How fast does the head grow, compared with the prompt? Drag the third token, too.",
    first: FIRST,
    check,
    python,
    render,
  });
  const view = plane(ui.stage, { name: "Tokens, and the direction of the prompt", ratio: 0.5, ui });
  const chart = plane(ui.below(), { name: "Direction of the prompt against the ratio", ratio: 0.2, ui });
  ui.slider("c = r / R, head to prompt", {
    key: "ratio",
    min: SPAN[0],
    max: SPAN[1],
    step: 0.01,
    show: (x) => (10 ** x).toFixed(2),
  });

  function render(state) {
    const found = turned(state, state.ratio);
    ui.say(() => told(state, found));
    if (!chart.width) return;
    view.look([-0.6, 2.8, -1.3, 2]);
    if (found) {
      const { prompt, tight, relaxed } = found;
      view.ray("tight", tight.theta, "dashed", "max-margin");
      view.ray("relaxed", relaxed.theta, "dotted", "relaxed");
      const tip = prompt.map((part) => 2.2 * part);
      view.trail("prompt", [0, 0, ...tip], "path wide c2");
      const half = tip.map((part) => part / 2);
      view.beside("p", half, 0, 18, "prompt", "c2");
      curve(state, found);
    } else chart.tidy();
    [...STARS, [0, 0]].forEach((at, k) => {
      view.mark(`token ${k}`, at, DIAMOND, k < 2 ? "dot i0" : "none");
      view.beside(`Y ${k}`, at, 10, k < 2 ? -6 : 18, k < 2 ? `Y = ${k ? "−1" : "+1"}` : "all others");
    });
    view.handle("third", state.third, {
      name: "token of the third input, Y = +1",
      value: `at ${state.third}`,
      look: "chosen c3",
      draw: DIAMOND,
      done: ui.done,
      move: (third) => ui.change({ third }),
    });
    view.beside("third name", state.third, 14, -8, "third, Y = +1", "c3");
    view.tidy();
  }

  /** Angle of the prompt above the relaxed direction, against the ratio; the pin is where the paper's figure is. */
  function curve(state, { relaxed }) {
    const angle = (log) => Math.abs(degrees(turned(state, log).prompt) - degrees(relaxed.theta)),
      now = `${state.third} ${ui.moving()}`,
      step = ui.moving() ? 0.1 : 0.05,
      logs = Array.from({ length: Math.round((SPAN[1] - SPAN[0]) / step) + 1 }, (_, k) => SPAN[0] + k * step);
    if (key !== now) angles = logs.map((log) => [log, angle(log)]);
    key = now;
    const most = Math.max(...angles.map(([, height]) => height), 1),
      name = (key, log, dx, text) => chart.beside(key, [log, 0], dx, 16, text);
    chart.chart([...SPAN, -0.5 * most, 1.4 * most], 12, 50);
    chart.segment("base", [SPAN[0], 0], [SPAN[1], 0], "axis");
    chart.segment("paper", [0, 0], [0, most], "thin dotted");
    chart.trail("curve", angles.flat(), "path c2");
    chart.dot("here", [state.ratio, angle(state.ratio)], 5, "c2");
    name("pin", 0, -40, "the paper: c = 1");
    name("left", SPAN[0], 0, "c = 0.1");
    name("right", SPAN[1], -36, "c = 10");
    chart.label("above", 12, 14, `angle to the relaxed direction, at most ${most.toFixed(0)}°`);
    chart.tidy();
  }
  ui.start();
  return ui;
}
