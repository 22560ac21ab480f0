// The cone of Theorem 4: where the path of lowest risk goes that must stay near one direction.
import { frame } from "./frame.js";
import { plane, square } from "./plane.js";
import { LOOKS } from "./looks.js";
import { clamp, degreesOf, HAIR, needed, py } from "./view.js";
import * as engine from "./engine.js";

export const FIRST = {
  others: [
    [0, 0.6],
    [0, -0.6],
  ],
  score: 0.2,
  turn: 0,
  opening: 15,
};
const KEPT = [1, 0]; // the token that the direction selects
const SCORE = 0.5; // its score; that of the third token is 0
const DECADES = [0, 3];
const LENGTHS = Array.from({ length: 46 }, (_, k) => 10 ** (k / 15));
const AFAR = [1e4, 1e5, 1e6]; // where it shows whether the path goes on, and settles
const SETTLED = 0.01; // degrees
const RADIAN = Math.PI / 180;
const SNAP = 0.045; // tokens let go closer than that lie on one spot; less than a step of the arrow keys
/** How far tokens B and C are from each other. */
export const apart = ([b, c]) => Math.hypot(b[0] - c[0], b[1] - c[1]);

const check = ({ others }) => {
  needed(others.length === 2 && others.every((at) => at.length === 2), "two coordinates of each of two tokens");
};
const turned = ([x, y], angle) => {
  const [c, s] = [Math.cos(angle * RADIAN), Math.sin(angle * RADIAN)];
  return [c * x - s * y, s * x + c * y];
};
/** Degrees from one direction to another, counterclockwise. */
const between = (a, b) => Math.atan2(a[0] * b[1] - a[1] * b[0], engine.dot(a, b)) / RADIAN;

/** The direction, the path in its cone, and what became of it: bounded, settled on it, or neither. */
export function walk({ others, score, turn, opening }) {
  const problem = { keys: [[KEPT, ...others]], scores: [[SCORE, score, 0]] };
  const solution = engine.separator(engine.differenceRows(problem, [0]));
  if (!solution.feasible) return { feasible: false, problem };
  const axis = turned(engine.unit(solution.theta), turn);
  const along = (lengths) => {
    const path = engine.riskPath(problem, lengths, axis, opening * RADIAN);
    return lengths.map((_, k) => engine.at(path, k));
  };
  const points = along([...LENGTHS, ...AFAR]),
    far = engine.length(points.at(-1)),
    bounded = far < 0.9 * AFAR.at(-1),
    span = far > LENGTHS.at(-1) ? 15 : 1, // afar the grid has one length in a decade
    fine = Array.from({ length: 201 }, (_, k) => far * 10 ** ((span * (k - 100)) / 1500)).filter((size) => size >= LENGTHS[0]),
    last = bounded ? engine.length(along(fine).at(-1)) : far;
  const angles = points.map((p) => between(axis, p)),
    [before, end] = angles.slice(-2).map(Math.abs),
    settled = !bounded && (end < SETTLED || end < before / 3); // a third in ten times the length
  points.length = LENGTHS.length;
  return {
    ...{ feasible: true, problem, solution, axis, points, angles, last, bounded, settled },
    local: Math.abs(turn) < 1e-9 && engine.locallyOptimal(problem).some(({ selected }) => selected[0] === 0),
  };
}

export function told({ opening, others }, found) {
  if (!found.feasible) return `No direction puts token A ahead of both others ${HAIR}.`;
  const { angles, last, bounded, settled, local } = found,
    [there, end] = [LENGTHS.length - 1, -1].map((k) => Math.abs(angles.at(k))), // at length 1000, and afar
    kind = `q is ${local ? "" : "not "}locally optimal`,
    from = `${last.toPrecision(2)}${last > 1.002 ? "" : " or before"}`;
  if (bounded)
    return `The path stops growing at length ${from}: a longer p in the cone has no lower risk, and ${kind}.`;
  const why = apart(others) === 0 ? ": these keys are not in general position" : "";
  if (settled && !local) return `The path settles on q although ${kind}${why}.`;
  if (settled) return `The path grows and settles on q: ${kind}. At length 1000 it is ${degreesOf(there)} away.`;
  const edge = end > 0.98 * opening ? ", the edge of the cone" : "";
  return `The path grows, but leaves q: ${kind}. It goes ${degreesOf(end)} away${edge}.`;
}

export function python({ others, score, turn, opening }) {
  return [
    "import math, torch",
    "from lib.losses import logistic",
    "from lib.paths import regularization_path",
    "from lib.problem import Problem",
    "from lib.separators import att_svm",
    "",
    `problem = Problem(keys=${py([[KEPT, ...others]])}, scores=${py([[SCORE, score, 0]])})`,
    `svm, turn = att_svm(problem, selected=[0]), math.radians(${turn})`,
    "turned = torch.tensor([[math.cos(turn), -math.sin(turn)], [math.sin(turn), math.cos(turn)]], dtype=torch.float64)",
    `axis, opening = turned @ svm.theta, 1 - math.cos(math.radians(${opening}))`,
    "radii = torch.logspace(0, 3, 46, dtype=torch.float64)",
    "path = regularization_path(problem, logistic, radii, cone=(axis, opening))",
    "print(path.theta[-1])",
  ];
}

export function cone(root, tag) {
  const ui = frame(root, {
    tag,
    title: "Keep it in the cone.",
    hint:
      "The path is the query of lowest risk up to each length, in the cone around q. " +
      "Raise the score of token B above that of A, 0.5.",
    first: FIRST,
    check,
    python,
    render,
  });
  const view = plane(ui.stage, { name: "Keys, the cone around q and the path in it", ratio: 0.42, ui });
  const chart = plane(ui.below(), { name: "Angle of the path to q against its length", ratio: 0.2, ui });
  ui.slider("Score of token B", { key: "score", min: -0.5, max: 1.5, step: 0.05 });
  ui.slider("Turn q away", { key: "turn", min: -30, max: 30, step: 1, show: (x) => `${x}°` });
  ui.slider("Half-angle of the cone", { key: "opening", min: 2, max: 30, step: 1, show: (x) => `${x}°` });

  function render(state) {
    const found = walk(state);
    ui.say(() => told(state, found));
    if (!view.width) return;
    view.look([-0.8, 4, -1.1, 1.1]);
    view.axes();
    if (found.feasible) {
      const { axis, solution, points } = found,
        edges = [state.opening, -state.opening].map((angle) => turned(axis, angle).map((x) => 12 * x));
      view.area("back", "cone", [[0, 0], ...edges], "area none");
      view.ray("q", axis, "dashed", "q", false);
      if (Math.abs(state.turn) > 0) view.ray("limit", solution.theta, "dashed c0", "max-margin of A");
      view.trail("path", points.flat(), `path wide ${LOOKS.path}`);
      view.dot("end", points.at(-1), 5, LOOKS.path);
      view.beside("path name", points[0], 4, -12, "path", LOOKS.path);
    }
    view.mark("kept", KEPT, "m-8 -8h16v16h-16Z", `dot ${LOOKS.selected}`);
    view.beside("A", KEPT, 12, 22, `A: ${SCORE}`, LOOKS.selected);
    state.others.forEach((at, k) => {
      view.handle(`other ${k}`, at, {
        name: `key of token ${"BC"[k]}`,
        value: `at ${at}`,
        look: "token",
        draw: square(8),
        done: () => {
          const there = ui.state().others;
          if (apart(there) < SNAP) ui.change({ others: there.with(k, there[1 - k]) });
          ui.done();
        },
        move: (to) => ui.change({ others: state.others.with(k, to) }),
      });
      view.beside(`name ${k}`, at, 12, k ? 20 : -10, `${"BC"[k]}: ${k ? 0 : state.score}`);
    });
    view.tidy();
    if (chart.width) drawAngles(state, found);
  }

  /** The angle to q, over the length, on a logarithmic scale; the path ends where it stops growing. */
  function drawAngles({ opening }, found) {
    chart.chart([...DECADES, -1.4 * opening, 2.1 * opening], 44, 12);
    for (const angle of [-opening, 0, opening]) {
      chart.segment(`angle ${Math.sign(angle)}`, [DECADES[0], angle], [DECADES[1], angle], angle ? "axis" : "dashed");
      chart.label(`name ${Math.sign(angle)}`, 2, clamp(chart.to([0, angle])[1] + 4, 12, chart.height - 2), `${angle}°`);
    }
    if (found.feasible) {
      const line = found.points.map((p, k) => [Math.log10(engine.length(p)), found.angles[k]]);
      chart.trail("path", line.flat(), `path ${LOOKS.path}`);
      chart.dot("end", line.at(-1), 5, LOOKS.path);
    }
    chart.label("what", 50, 13, "angle to q, over lengths from 1 to 1000");
    chart.tidy();
  }
  ui.start();
  return ui;
}
