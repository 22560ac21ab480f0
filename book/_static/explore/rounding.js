// The race of Figure 1(b): the published recipe in 32 and in 64 bits against the exact gradient.
import { frame } from "./frame.js";
import { circle, plane } from "./plane.js";
import { LOOKS } from "./looks.js";
import { button, clamp, make, play, plural, py, small, still } from "./view.js";
import { PRESETS } from "./playground.js";
import * as engine from "./engine.js";

const LAST = 1000,
  DRAWN = 200; // iterations that were run, and that the paper draws
const { keys, scores, starts: STARTS } = PRESETS["1(b)"];
const PROBLEM = { keys, scores };
const RUNS = ["32 bits", "64 bits", "log space"];
const COLOURS = RUNS.map((run) => LOOKS[run]);
const ROUNDOFF = 2 ** -24;
const CROSS = "m-4 -4l8 8m0 -8l-8 8";
const FIRST = { epsilon: -9, size: 0.1, at: DRAWN, start: 5 };

/** All runs from all starts, and the choice to which each exact run tends. */
export function race({ epsilon, size }) {
  const rule = { kind: "normalised", size },
    recipe = (round) => (start) => engine.descendTextbook(PROBLEM, "logistic", start, size, LAST, 10 ** epsilon, round),
    exact = (start) => ({ path: engine.descend(PROBLEM, "logistic", start, rule, LAST) });
  const runs = [recipe(Math.fround), recipe((x) => x), exact].map((way) => STARTS.map(way)),
    choices = engine.locallyOptimal(PROBLEM),
    home = runs[2].map(({ path }) => engine.outcome(PROBLEM, "logistic", rule, engine.endOf(path), choices).place);
  return { choices, runs, frame: around([...runs[0], ...runs[1]]), home, lines: [] };
}

/**
 * The window that holds all that rounded runs will do, and some room: [left, right, bottom, top]. The exact ones leave
 * it along their rays.
 */
function around(runs) {
  const ends = [0, 1].map((axis) =>
    runs.flatMap(({ path }) => Array.from(path).filter((x, k) => k % 2 === axis && Number.isFinite(x))),
  );
  return ends.flatMap((values) => {
    const low = values.reduce((a, b) => Math.min(a, b)),
      high = values.reduce((a, b) => Math.max(a, b)),
      room = 0.06 * (high - low);
    return [low - room, high + room];
  });
}

/** The choice on whose side each run is after so many steps, nearest in angle: a row of them for each kind of run. */
const sides = ({ choices, runs }, at) =>
  runs.map((run) =>
    run.map(({ path }) => {
      const away = choices.map((one) => engine.oneMinusCosine(engine.at(path, at), one.separator.theta));
      return away.indexOf(Math.min(...away));
    }),
  );

/** How many of the starts of local choices are on the side of the best one after so many steps, run by run. */
export const crossed = (solved, at) =>
  sides(solved, at).map(
    (row) =>
      row.filter((side, k) => solved.choices[side]?.best && solved.choices[solved.home[k]]?.best === false).length,
  );

/** How far the dots of one start are from each other at most, after so many steps. */
export const spread = ({ runs }, at) =>
  Math.max(
    ...STARTS.flatMap((_, k) => {
      const dots = runs.map((run) => engine.at(run[k].path, at));
      return dots.flatMap((one, i) => dots.slice(0, i).map((other) => engine.apart(one, other)));
    }),
  );

export function told({ epsilon, size, at, start }, solved) {
  const locals = solved.home.filter((place) => place >= 0 && !solved.choices[place].best).length,
    over = crossed(solved, at),
    [rough, finer, exact] = sides(solved, at),
    stuck = RUNS.filter((_, kind) => moved(solved.runs[kind][start].path, at, size) < 0.5),
    agree = String(rough) === String(exact) && String(finer) === String(exact);
  const carried =
    `${plural(locals, "start")} that ${locals === 1 ? "tends" : "tend"} to the local limit, ` +
    `32 bits have carried ${over[0]} over to the other side, 64 bits ${over[1]} and exact gradients ${over[2]}.`;
  if (at === LAST && over[0] > 0 && over[2] === 0) return `The late turn is rounding, not training: of the ${carried}`;
  const apart = `The runs of a start are at most ${small(spread(solved, at))} apart.`,
    which = at < 20 ? apart : agree ? `All three agree on the side of each start. ${apart}` : `Of the ${carried}`;
  const published = at === DRAWN && epsilon === FIRST.epsilon && size === FIRST.size;
  const pin = published ? " Here the paper stops drawing; its axes end earlier." : "";
  const stall = ` From start ${start + 1}, drawn wide, the last step of ${stuck.join(" and ")} is not half of a full one: the gradient is small beside ε.`;
  return `After ${plural(at, "step")}, ε = 1e${epsilon}. ${which}${stuck.length && at > 0 ? stall : ""}${pin}`;
}

/** Length of the last step, in steps of full size. */
const moved = (path, at, size) => (at ? engine.apart(engine.at(path, at), engine.at(path, at - 1)) / size : 1);

/** The configuration in Python. */
export function python({ epsilon, size }) {
  return [
    "import torch",
    "from lib import losses, published",
    "from lib.datasets import figure_1",
    "from lib.descent import normalised, run",
    "from lib.problem import from_tokens",
    "",
    `data, starts = figure_1("b"), torch.tensor(${py(STARTS.map((at) => [...at, 0]))}, dtype=torch.float64)`,
    `bits = {dtype: published.descend(data, losses.logistic, starts, ${size}, ${LAST}, 1e${epsilon}, dtype)`,
    "        for dtype in (torch.float32, torch.float64)}",
    `exact = run(from_tokens(*data), losses.logistic, starts, normalised(${size}), ${LAST}).theta`,
    "for dtype, path in bits.items():",
    "    print(dtype, (path[-1] - exact[-1]).norm(dim=-1))",
  ];
}

export function rounding(root, tag) {
  let solved = null,
    key = "",
    stop = null;
  const ui = frame(root, {
    tag,
    title: "The race of Figure 1(b).",
    first: FIRST,
    python,
    render,
    hint: "One recipe, three ways to compute its gradient. Press Play, or drag the iteration.",
  });
  const view = plane(ui.stage, { name: "Paths of three runs", ratio: 0.5, ui });
  const tall = (width) => (innerWidth < 800 ? 0.4 * width : view.height);
  const chart = plane(ui.beside(), { name: "Size of the gradient against the iteration", tall, ui });

  const pressed = button("Play", toggle, { class: "explore-play" });
  ui.stage.append(pressed);
  ui.slider("Iteration", { key: "at", min: 0, max: LAST, step: 1 });
  ui.presets("Go to", [
    ["Where the paper stops", () => ({ at: DRAWN })],
    ["the end", () => ({ at: LAST })],
  ]);
  ui.more();
  ui.slider("ε", { key: "epsilon", min: -20, max: -4, step: 1, show: (x) => `1e${x}` });
  ui.slider("Step size", { key: "size", min: 0.02, max: 0.5, step: 0.02 });
  ui.slider("Start in the panel of gradients", {
    key: "start",
    min: 0,
    max: STARTS.length - 1,
    step: 1,
    show: (x) => `${x + 1}`,
  });

  function toggle() {
    if (stop) return rest();
    if (still()) return ui.set({ at: LAST });
    if (ui.state().at >= LAST) ui.change({ at: 0 });
    pressed.textContent = "Pause";
    stop = play((passed) => {
      const ahead = still() ? LAST : Math.max(Math.round(passed / 12), 1); // it may be asked for meanwhile
      const at = Math.min(ui.state().at + ahead, LAST);
      ui.change({ at });
      if (at === LAST) rest();
    });
  }
  function rest() {
    stop();
    stop = null;
    pressed.textContent = "Play";
    ui.done();
  }

  function render(state) {
    const { at, start } = state,
      now = JSON.stringify([state.epsilon, state.size]);
    if (now !== key) [key, solved] = [now, race(state)];
    if (view.width) drawPaths(at, start);
    if (chart.width) drawSizes(state);
    ui.say(() => told(state, solved));
  }
  function drawPaths(at, start) {
    view.look(solved.frame);
    solved.choices.forEach(({ separator, best }, k) =>
      view.ray(`ray ${k}`, separator.theta, "dashed", best ? "global" : "local"),
    );
    for (const kind of [2, 1, 0]) {
      const paths = solved.runs[kind].map(({ path }) => path);
      view.trails(
        `runs ${kind}`,
        paths.toSpliced(start, 1).map((path) => [path, at]),
        `path ${COLOURS[kind]}`,
      );
      view.trail(`wide ${kind}`, paths[start], `path ${COLOURS[kind]} wide`, at);
      view.marks(
        `dots ${kind}`,
        paths.map((path) => engine.at(path, at)),
        circle(4),
        `dot ${LOOKS.path}`,
      );
      if (kind === 0 && at > DRAWN)
        view.marks(
          "pins",
          paths.map((path) => engine.at(path, DRAWN)),
          CROSS,
          "none",
        );
    }
    const names = RUNS.map((run, kind) => [["···", "–··", "—"][kind] + ` ${kind < 2 ? run : "exact"}`, LOOKS.path]);
    view.legend(view.width - 118, 68, at > DRAWN ? [...names, ["× paper stops", ""]] : names);
    view.tidy();
  }

  /** Logarithms of the gradient that 32 bits compute from a start and of the true one there, step by step. */
  function sizesOf(start) {
    const { path, sizes } = solved.runs[0][start],
      shown = (log) => Math.max(log, -24);
    return Array.from({ length: LAST / 4 }, (_, k) => {
      const { direction, logScale } = engine.gradient(PROBLEM, "logistic", engine.at(path, 4 * k)),
        truth = (logScale + Math.log(engine.length(direction))) / Math.LN10;
      return [4 * k, shown(Math.log10(sizes[4 * k])), shown(truth)];
    });
  }
  /** The two over the iterations, and the levels below which they are nothing. */
  function drawSizes({ at, start, epsilon }) {
    const found = (solved.lines[start] ??= sizesOf(start)),
      levels = [epsilon, Math.log10(ROUNDOFF)],
      lowest = Math.min(...levels, ...found.flatMap(([, ...logs]) => logs)),
      [low, high] = [Math.floor(lowest - 1), 1.5];
    chart.chart([0, LAST, low, high], 40, 92);
    const upright = (k, look) => chart.segment(look, [k, low], [k, high], look);
    upright(at, "axis");
    upright(DRAWN, "thin dotted");
    levels.forEach((decade, k) => chart.segment(`level ${k}`, [0, decade], [LAST, decade], k ? "dotted" : "dashed"));
    const ends = [
      ["in 32 bits", found.at(-1)[1], COLOURS[0]],
      ["true value", found.at(-1)[2], COLOURS[2]],
      ["ε", epsilon, ""],
      ["roundoff", levels[1], ""],
    ];
    for (const c of [1, 2]) {
      const points = found.flatMap((row) => [row[0], row[c]]);
      chart.trail(`size ${c}`, points, `path ${ends[c - 1][2]}`);
    }
    let under = -99;
    const lines = ends
      .sort((a, b) => b[1] - a[1])
      .map(([, decade]) => (under = Math.max(chart.to([0, decade])[1] + 4, under + 15, 30)));
    const lift = Math.max(under - chart.height + 4, 0);
    ends.forEach(([text, , look], k) => chart.label(text, chart.width - 86, lines[k] - lift, text, look));
    const step = low < -14 ? -8 : -4;
    for (let decade = 0; decade > low; decade += step)
      chart.label(`decade ${decade}`, 2, clamp(chart.to([0, decade])[1] + 4, 12, chart.height - 2), `1e${decade}`);
    chart.label("what", 44, 13, `gradient at start ${start + 1}'s 32-bit run`);
    chart.tidy();
  }
  ui.start();
  return ui;
}
