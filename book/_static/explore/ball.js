// Grow the l_p ball until it touches the wedge of two margins: the point that it touches is the separator of that norm.
import { frame } from "./frame.js";
import { circle, plane } from "./plane.js";
import { LOOKS } from "./looks.js";
import { bars, button, clamp, counts, degreesOf, HAIR, make, needed, play, py, small, still } from "./view.js";
import * as engine from "./engine.js";
import { ENTRIES, STEPS, WHOLE } from "./entries.js";

export const FIRST = {
  rows: [
    [0.9, 0.5],
    [0.2, 1.6],
  ],
  norm: 3,
  grown: 1,
  measure: false,
  path: false,
};
const MEASURES = [1.75, 2, 3]; // the q of the chapter on the Bregman divergence
const CORNERS = 240; // of the ball
const [LAST, BRIEF] = [3000, 300]; // steps: all of them, and those that lead out of sight
const LENGTHS = Array.from({ length: 41 }, (_, k) => 10 ** (k / 10 - 1)); // in lengths of the separator
const TOLD = [10, 100]; // of these: farther out the risk leaves no digits of the angle for large p

const check = ({ rows, norm }) =>
  needed(
    rows.length === 2 && rows.every((row) => row.length === 2) && norm >= 1.05 && norm <= 20,
    "two rows, and p from 1.05 to 20",
  );

const tokens = (rows) => [[[0, 0], ...rows.map(([x, y]) => [-x, -y])]];

/** The separator of the norm, and mirror descent on one input whose tokens differ by these rows. */
export function grow({ rows, norm }) {
  const problem = { keys: tokens(rows), scores: [[1, 0, 0]] },
    solution = engine.separator(rows, norm);
  return { problem, solution, path: trained({ norm }, problem, BRIEF) };
}
const trained = ({ norm }, problem, steps) =>
  engine.descend(problem, "logistic", [0, 0], { kind: "normalised", size: 0.1 }, steps, norm);
/** Where mirror descent ends, found once. */
const endOf = (state, solved) => (solved.end ??= engine.endOf(trained(state, solved.problem, LAST)));

/**
 * Where the divergence of mirror descent from the separator of each q levels off, and where it is at the end of the
 * path.
 */
export const plateaus = ({ rows, norm }, solved) =>
  MEASURES.map((q) => {
    const other = engine.separator(rows, q).theta,
      end = endOf({ norm }, solved);
    return [solved.solution.theta, end].map((at) => engine.divergence(other, at, norm));
  });

/**
 * Sizes of the entries of a separator in sixteen dimensions over the largest, for the p of the table that is
 * nearest to this one.
 */
export function entries(norm) {
  const last = STEPS - 1,
    k = Math.round(clamp(Math.log((norm - 1) / 0.05) / Math.log(380), 0, 1) * last);
  return { norm: 1 + 0.05 * 380 ** (k / last), sizes: ENTRIES.map((line) => (line.charCodeAt(k) - 48) / WHOLE) };
}

export function told({ norm, rows, grown, path: shown }, solved) {
  const { solution } = solved;
  if (!solution.feasible) return `No direction is ahead on both rows ${HAIR.replace("distance", "length")}: no wedge is in reach.`;
  const theta = solution.theta,
    held = solution.duals.every((dual) => dual > 0), // by both margins
    other = Math.max(...solution.margins),
    share = Math.min(...theta.map(Math.abs)) / Math.max(...theta.map(Math.abs));
  const shape =
    share < 0.02
      ? "nearly all of it is in one entry"
      : share > 0.98
        ? "both entries have nearly the same size"
        : `its smaller entry is ${share.toFixed(2)} of the larger`;
  const touch = held
    ? "at the corner, where both margins are 1"
    : other < 1 + 1e-9
      ? "where one margin is 1, the other within 10⁻⁹ of it"
      : "on one side: one margin is 1, the other more";
  if (grown < 1) return `The ball of p = ${norm} is growing.`;
  const off = degrees(endOf({ norm }, solved), theta);
  const angle = (length) => degreesOf(lowestOf(solved, norm).angles[LENGTHS.findIndex((one) => one > 0.99 * length)]);
  return (
    `For p = ${norm} the ball touches ${touch}. The separator is ` +
    `(${theta.map((x) => x.toFixed(2)).join(", ")}): ${shape}. ` +
    `After ${LAST} steps mirror descent is ${degreesOf(off)} from its direction.` +
    (shown
      ? ` The path of lowest risk is ${TOLD.map(angle).join(" and ")} away at 10 and 100 times the length.`
      : "")
  );
}

/** The path of lowest risk of a configuration, found once. */
const lowestOf = (solved, norm) => (solved.lowest ??= lowest({ norm }, solved));

export function python({ rows, norm }) {
  return [
    "import torch",
    "from lib import losses",
    "from lib.descent import normalised, run",
    "from lib.problem import Problem",
    "from lib.separators import att_svm",
    "",
    `problem, p = Problem(keys=${py(tokens(rows))}, scores=[[1, 0, 0]]), ${norm}`,
    'separator = att_svm(problem, norm=p, infeasible="mark")',
    "path = run(problem, losses.logistic, torch.zeros(2, dtype=torch.float64), normalised(0.1, p), 3000, norm=p)",
    "print(separator.theta, path.theta[-1])",
  ];
}

/** The angle of two directions in degrees, right where it is tiny. */
export const degrees = (a, b) =>
  2 * Math.asin(Math.min(Math.sqrt(engine.oneMinusCosine(a, b) / 2), 1)) * (180 / Math.PI);

/** The path of lowest risk in the norm, and the degrees of each of its points to the separator. */
export function lowest({ norm }, { problem, solution }) {
  const size = engine.length(solution.theta, norm);
  const path = engine.riskPath(
    problem,
    LENGTHS.map((length) => length * size),
    solution.theta,
    Math.PI,
    norm,
  );
  return { path, angles: LENGTHS.map((_, k) => degrees(engine.at(path, k), solution.theta)) };
}

/** The rim of the l_p ball, as points. */
export const rim = (norm, radius) =>
  Array.from({ length: CORNERS + 1 }, (_, k) => {
    const a = (2 * Math.PI * k) / CORNERS,
      power = norm < 2 ? 2 / norm : 1;
    const u = [Math.cos(a), Math.sin(a)].map((x) => Math.sign(x) * Math.abs(x) ** power);
    return engine.unit(u, norm).map((x) => radius * x);
  });

export function ball(root, tag, name) {
  let stop = () => {},
    solved = null,
    key = "";
  const ui = frame(root, {
    tag,
    title: "Grow the ball.",
    hint: "In the shaded wedge both margins are at least 1. Drag the rows, change p, watch where the ball touches.",
    first: { ...FIRST, path: name === "path" },
    check,
    python,
    render,
  });
  const dial = plane(ui.below(), { name: "Angle of the path of lowest risk to the separator", ratio: 0.2, ui });
  const view = plane(ui.stage, { name: "The wedge and the ball", ui });
  ui.slider("p", {
    get: ({ norm }) => Math.log(norm - 1),
    put: (x) => ({ norm: +(1 + Math.exp(x)).toPrecision(3) }),
    min: Math.log(0.05),
    max: Math.log(19),
    step: 0.01,
    show: (x) => (1 + Math.exp(x)).toPrecision(3),
  });
  ui.slider("Size of the ball", { key: "grown", min: 0, max: 1, step: 0.01, show: (x) => `${Math.round(100 * x)} %` });
  ui.toggle("measure", "Measure it with other q");
  ui.toggle("path", "The path of lowest risk");
  ui.add(make("div", { class: "explore-row" }, button("Grow", start)));
  ui.presets(
    "Norms",
    [1.05, 1.5, 2, 3, 10].map((norm) => [`p = ${norm}`, () => ({ norm, grown: 1 })]),
  );

  const measured = make("div", { class: "explore-count" }),
    sizes = make("div", { class: "explore-bars" });
  ui.add(measured);
  ui.add(sizes);

  function start() {
    stop();
    if (still()) return ui.set({ grown: 1 });
    ui.change({ grown: 0 });
    stop = play((passed) => {
      const grown = still() ? 1 : Math.min(ui.state().grown + passed / 1500, 1); // it may be asked for meanwhile
      ui.change({ grown });
      if (grown === 1) ui.done();
      return grown === 1;
    });
  }
  function render(state) {
    const { rows, norm, grown } = state,
      now = JSON.stringify([rows, norm]);
    if (now !== key) [key, solved] = [now, grow(state)];
    ui.say(words);
    dial.svg.style.display = state.path ? "block" : "none";
    if (!view.width) return;
    view.look([-2, 3, -1.5, 2.2]);
    view.axes();
    const { solution, path } = solved;
    if (solution.feasible) {
      const corners = view.beyond(rows),
        edge = rim(norm, grown * engine.length(solution.theta, norm));
      if (corners.length) view.area("back", "wedge", corners, "area none");
      view.area("back", "ball", edge, "area rim c0");
      view.ray("ray", solution.theta, "dashed", `${view.width < 500 ? "" : "separator, "}p = ${norm}`);
      view.legend(8, view.height - (state.path ? 44 : 27), [
        ["mirror descent", LOOKS.normalised],
        ...(state.path ? [["path of lowest risk", LOOKS.path]] : []),
        ["● where the ball touches", LOOKS.optimal],
      ]);
      view.trail("path", path, `path ${LOOKS.normalised}`);
      if (state.path) drawLowest(state);
      view.dot("touch", solution.theta, grown === 1 ? 6 : 3, LOOKS.optimal);
    }
    rows.forEach((row, k) => {
      view.across(`margin ${k}`, row, 1, "thin none");
      view.segment(`shaft ${k}`, [0, 0], row, "path");
      view.handle(`row ${k}`, row, {
        name: `difference row ${k + 1}`,
        value: `at ${row}`,
        look: "start",
        draw: circle(8),
        done: ui.done,
        move: (to) => ui.change({ rows: rows.with(k, to) }),
      });
      view.beside(`name ${k}`, row, 12, -8, `row ${k + 1}`);
    });
    view.tidy();
  }

  /** Draw what may wait, and say what there is. */
  function words() {
    const state = ui.state(),
      found = entries(state.norm),
      levels = state.measure && solved.solution.feasible ? plateaus(state, solved) : [],
      highest = Math.max(...levels.flat());
    bars(sizes, `16 entries of another separator, p = ${found.norm.toPrecision(3)}`, [found.sizes], () => "i0");
    counts(
      measured,
      levels.map(([level, at], k) => [
        `Divergence from q = ${MEASURES[k]}`,
        "i0",
        level / highest,
        `levels off at ${small(level)}, is ${small(at < 1e-12 ? 0 : at)}`,
      ]),
    );
    return told(state, solved);
  }

  /** The path of lowest risk in the plane, and its angle to the separator over its length, both logarithmic. */
  function drawLowest(state) {
    const { path, angles } = lowestOf(solved, state.norm),
      [low, high] = [-2, 3];
    view.trail("lowest", path, `path wide ${LOOKS.path}`);
    if (!dial.width) return;
    dial.chart([-1, 3, low, high], 44, 12);
    for (const decade of [2, 0, -2]) {
      dial.segment(`decade ${decade}`, [-1, decade], [3, decade], "axis");
      dial.label(`name ${decade}`, 2, clamp(dial.to([0, decade])[1] + 4, 12, dial.height - 2), `${10 ** decade}°`);
    }
    const points = angles.flatMap((angle, k) => [Math.log10(LENGTHS[k]), clamp(Math.log10(angle), low, high)]);
    dial.trail("angle", points, `path ${LOOKS.path}`);
    dial.label("what", 50, 13, "its angle to the ray, over length 0.1 to 1000");
    dial.tidy();
  }

  ui.start();
  return ui;
}
