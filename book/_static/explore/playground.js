// Tokens to drag: where descent takes the prompt, and where every start of the plane ends.
import { LOOKS } from "./looks.js";
import { frame } from "./frame.js";
import { coach } from "./guide.js";
import { circle, plane, square, star } from "./plane.js";
import { bars, button, clamp, degreesOf, HAIR, make, needed, percent, plural, py, rounded, turn, write } from "./view.js";
import * as engine from "./engine.js";

const FEW = 12; // starts
const LAST = 1000; // step, and ten times the last log t
const LEVELS = [12, 24, 48, 96]; // columns of the map, from coarse to fine
const SIDE = 960; // width of its canvas
const UPRIGHT = [1, 0.5, 0, -0.5, -1, -1.5].map((y) => [0, y]),
  LEVEL = UPRIGHT.map(([, y]) => [y, 0]);
const STEPS = ["normalised", "constant", "flow"];
const BASE = { preset: "1(a)", loss: "logistic", step: "normalised", size: 0.1, shown: 1000, zoom: 1, map: false };
const THREE = [[[-0.1, 1], [1, 0], [0, 0]]]; // prettier-ignore
/** The data of the papers' figures; (c) is the draw of the chapter Figure 1, seed 0, to three digits. */
// prettier-ignore
export const PRESETS = {
  "1(a)": { keys: THREE, scores: [[1, 0.9, 0.9]], starts: UPRIGHT, view: [-4.5, 3.5, -1.8, 4.6] },
  "1(b)": { keys: THREE, scores: [[1, 0.9, 0]], starts: UPRIGHT, view: [-1.8, 5.2, -1.8, 4.2] },
  "1(c)": {
    keys: [
      [[0.538, -0.075], [-1.212, 1.2], [-1.177, 0.745], [-1.125, 0.827], [-0.759, -0.195], [-0.435, -0.096], [-0.273, -0.745]],
      [[1.014, 0.068], [-0.969, 0.873], [-1.252, 0.855], [-1.004, 1.042], [-0.465, -0.666], [-0.298, -0.549], [-0.473, -0.507]],
      [[1.092, 0.223], [-0.926, 0.963], [-1.629, 0.977], [-1.331, 1.183], [-0.269, -0.517], [-0.892, -0.456], [-0.776, -0.911]],
    ],
    scores: [0, 1, 2].map(() => [1, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5]),
    starts: LEVEL,
    view: [-2, 4.4, -1.6, 2.6],
  },
  5: {
    keys: [[[0, 0], [1, 1]], [[0, 0], [1, -1]]],
    scores: [[0, 10], [0, 1]],
    starts: [[0, 0]],
    view: [-0.5, 9, -5.2, 2.2],
  },
  8: {
    keys: [[[1, 0], [0, 0]], [[-2, 1], [0, 0]]],
    scores: [[1, 0], [1, 0]],
    starts: [[-2, -1.5], [2.5, -1]],
    view: [-2.8, 4.6, -2.2, 4.4],
  },
};
export const preset = (name) => ({ ...BASE, preset: name, ...PRESETS[name] });

/** Throw where a state is none. */
export function check({ keys, scores, starts, view, shown, preset: name }) {
  const inputs = keys.length,
    tokens = keys[0].length,
    every = (rows, count) => rows.every((row) => row.length === count);
  needed(inputs <= 3 && tokens >= 1 && tokens <= 8 && every(keys, tokens), "one to three inputs, one to eight tokens");
  needed(
    keys.every((row) => every(row, 2)) && every(starts, 2) && starts.length <= FEW,
    "two coordinates a token, and at most twelve starts",
  );
  needed(scores.length === inputs && every(scores, tokens), "one score a token");
  needed(Number.isInteger(shown) && shown >= 0 && shown <= 1000, "a time from 0 to 1000");
  needed(view.length === 4 && view[0] < view[1] && view[2] < view[3] && name in PRESETS, "a window");
}

/** What a configuration does: its choices, paths and ends. */
export function solve({ keys, scores, starts, loss, step, size }) {
  const problem = { keys, scores },
    choices = engine.locallyOptimal(problem);
  const rule = { kind: step, size },
    runs = starts.map((start) => engine.follow(problem, loss, start, rule, LAST)),
    ends = runs.map(({ path }) => engine.outcome(problem, loss, rule, engine.endOf(path), choices));
  return { problem, choices, runs, ends };
}

/**
 * Where the slider of time stands, 0 to 100, and what it shows there: steps in their logarithm, a flow in log t,
 * which it counts in.
 */
export const slid = ({ step, shown }) => (step === "flow" ? shown / 10 : shown ? 1 + 33 * Math.log10(shown) : 0);
export const shownAt = ({ step }, value) =>
  step === "flow" ? 10 * value : value ? Math.round(10 ** ((value - 1) / 33)) : 0;

const placed = ({ path, times }, shown) =>
  times ? engine.placeAt(times, shown / 10) : Math.min(shown, path.length / 2 - 1);
const pairs = (keys) =>
  keys.flatMap((row, i) =>
    row.flatMap((key, t) =>
      row.slice(0, t).flatMap((other, u) => (key[0] === other[0] && key[1] === other[1] ? [[i, u, t]] : [])),
    ),
  );
const named = (keys, i) => (keys.length > 1 ? ` of input ${i + 1}` : "");

/** What is special about a configuration, in sentences; nothing where nothing is. */
export function warnings({ keys, scores }, choices) {
  if (keys[0].length === 1)
    return [
      "Each input has one token left: attention has nothing to choose, " +
        "the gradient is zero, and every start stays where it is.",
    ];
  const found = [],
    tied = scores.map((row) => Math.max(...row) === Math.min(...row)),
    bests = scores.map((row) => row.filter((s) => s === Math.max(...row)).length);
  if (tied.every(Boolean))
    return [
      "All tokens have the same score: whatever is attended to costs the same, " +
        "the gradient is zero, and every start stays where it is.",
    ];
  tied.forEach((all, i) => all && found.push(`Input ${i + 1} has equal scores throughout and pulls nowhere.`));
  for (const [i, u, t] of pairs(keys)) {
    found.push(
      `Tokens ${u + 1} and ${t + 1}${named(keys, i)} lie on one spot: ` +
        "no direction tells them apart, so neither can be chosen alone.",
    );
  }
  bests.forEach(
    (count, i) =>
      count > 1 &&
      !tied[i] &&
      found.push(`${plural(count, "token")}${named(keys, i)} tie for the best score: there is not one best choice.`),
  );
  const best = engine.optimalTokens({ scores });
  if (bests.every((count) => count === 1) && !engine.separator(engine.differenceRows({ keys }, best)).feasible) {
    found.push(
      `No direction puts ${keys.length > 1 ? "the best tokens of all inputs" : "the best token"} ahead of all ` +
        `others ${HAIR}: no global max-margin direction is known.`,
    );
  }
  if (!choices.length) found.push("No choice is locally optimal, with margins compared to 10⁻⁶.");
  return found;
}

/** The largest 1 - cos to its direction of the runs that have one, at the time shown; none of those at the origin. */
export function standing({ shown }, { choices, runs, ends }) {
  const found = runs.flatMap((run, k) => {
    const point = engine.at(run.path, placed(run, shown)),
      { place } = ends[k];
    return place < 0 || !engine.length(point) ? [] : [engine.oneMinusCosine(point, choices[place].separator.theta)];
  });
  return Math.max(...found);
}

/** The sentence under the figure. */
export function told(state, { problem, choices, runs, ends }) {
  const special = warnings(state, choices),
    moves = !special[0]?.includes("stays where it is");
  if (!moves || !ends.length)
    return [...special, ends.length ? "" : "No start: click into the plane to add one."].join(" ").trim();
  const at = ends.filter(({ place }) => place >= 0),
    best = at.filter(({ place }) => choices[place].best).length,
    open = ends.length - at.length;
  const parts = [
    [best, "to the best tokens (global)"],
    [at.length - best, "to another locally optimal choice"],
    [open, `undecided after ${when(state, LAST)}`],
  ];
  const counts = parts
    .filter(([count]) => count)
    .map(([count, text]) => `${count} ${text}`)
    .join(", ");
  const locals = choices.filter((one) => !one.best).length,
    bests = choices.length - locals,
    second = `${bests > 1 ? "A further" : bests ? "A second" : "One"} limit exists`,
    single = state.keys.length === 1,
    what = single ? "a token that is not the best but outscores its" : "tokens not all the best that outscore their";
  const limits = locals
    ? ` ${locals > 1 ? `${locals} ${locals < choices.length ? "further " : ""}limits exist` : second}: ` +
      `${what} neighbours on the margin.` +
      (ends.length > best ? "" : " None of these starts goes there.")
    : "";
  const early = state.shown < LAST,
    now = standing(state, { choices, runs, ends }),
    so = early ? ` After ${when(state, state.shown)} the` : " The";
  const angle = now >= 0 ? `${so} farthest is ${degrees(now)} from its predicted direction.` : "";
  const slow = !early && now > 0.05 ? ` It is still turning: ${when(state, LAST)} is not enough here.` : "";
  const until = Math.min(...runs.map(({ times }) => times?.at(-1) ?? 100));
  const rest = until < 99 ? ` A flow can be followed to log t = ${until.toFixed(0)} only.` : "";
  return `${plural(ends.length, "start")} → ${counts}.${limits}${angle}${slow}${rest} ${special.join(" ")}`.trim();
}
/** An angle in degrees, from 1 - cos. */
const degrees = (away) => degreesOf(2 * Math.asin(Math.min(Math.sqrt(away / 2), 1)) * (180 / Math.PI));
const when = ({ step }, shown) => (step === "flow" ? `log t = ${shown / 10}` : plural(shown, "step"));

/** The configuration in Python. */
export function python({ keys, scores, starts, loss, step, size }) {
  if (keys[0].length < 2)
    return ["# One token in each input: there is nothing to choose, and lib.problem.Problem asks for two."];
  const [source, call, rest] =
    step === "flow"
      ? ["flow import", "log_time_flow", "[0, 100]"]
      : [`descent import ${step},`, "run", `${step}(${size}), 1000`];
  return [
    "import torch",
    "from lib import losses",
    `from lib.${source} ${call}`,
    "from lib.geometry import one_minus_cosine",
    "from lib.problem import Problem",
    "from lib.selection import locally_optimal_selections, selected_tokens",
    "",
    `problem = Problem(keys=${py(keys)}, scores=${py(scores)})`,
    `starts = torch.tensor(${py(starts)}, dtype=torch.float64).reshape(-1, 2)`,
    `ends = ${call}(problem, losses.${loss}, starts, ${rest}).theta[-1]`,
    "choices, separators = locally_optimal_selections(problem)",
    "for end, selected in zip(ends, selected_tokens(problem, ends)):",
    "    print(selected.tolist(), len(choices) and end.any() and one_minus_cosine(end, separators.theta))",
  ];
}

/** The worker's program: the engine, and an answer for each row of the map. */
function mapWorker() {
  const answer = "onmessage = ({ data }) => postMessage({ ...data, places: engine.basins(...data.given) });";
  const program = `const engine = (${makeEngine})(); ${answer}`;
  const address = URL.createObjectURL(new Blob([program], { type: "text/javascript" })),
    worker = new Worker(address);
  URL.revokeObjectURL(address);
  return worker;
}

/**
 * The map of starts on a canvas, coarse to fine, hatched where a start is undecided; tell gets the
 * numbers of starts that choose best, that are undecided, and of all, once it is fine.
 */
function basinMap(stage, tell) {
  const canvas = make("canvas", { "aria-hidden": "true" });
  stage.prepend(canvas);
  let worker = null,
    wanted = null,
    found = [],
    level = 0,
    row = 0,
    ends = [],
    busy = false;

  function next() {
    if (busy || !wanted || level === LEVELS.length) return;
    worker ||= Object.assign(mapWorker(), { onmessage: receive });
    const { key, problem, loss, rule, ratio } = wanted,
      [left, right, bottom, top] = wanted.window,
      columns = LEVELS[level],
      rows = Math.max(Math.round(columns * ratio), 1);
    busy = true;
    worker.postMessage({
      key,
      rows,
      given: [problem, loss, rule, 1000, left, right, top - ((row + 0.5) / rows) * (top - bottom), columns],
    });
  }
  function receive({ data: { key, rows, places } }) {
    busy = false;
    if (wanted && key === wanted.key) {
      paint(places, rows);
      ends = row ? [...ends, ...places] : places;
      row += 1;
      if (row === rows) [level, row] = [level + 1, 0];
      canvas.dataset.level = level;
      if (level === LEVELS.length)
        tell(...[true, undefined].map((best) => ends.filter((place) => found[place]?.best === best).length), ends.length);
    }
    next();
  }
  /** A row of the map over what is there, which is coarser. */
  function paint(places, rows) {
    const style = getComputedStyle(canvas),
      context = canvas.getContext("2d"),
      hatched = context.createPattern(hatch(), "repeat"),
      across = canvas.width / places.length,
      edge = (r) => Math.round((r * canvas.height) / rows);
    places.forEach((place, k) => {
      context.fillStyle = place < 0 ? hatched : style.getPropertyValue(`--x-${look(found, place)}`);
      context.clearRect(k * across, edge(row), across, edge(row + 1) - edge(row));
      context.fillRect(k * across, edge(row), across, edge(row + 1) - edge(row));
    });
  }
  /** Show the map of a configuration with these choices, or none. */
  function show(given, choices) {
    turn(canvas, "hidden", !given);
    if (!given) wanted = null;
    else if (wanted?.key !== given.key) {
      [wanted, found, level, row] = [given, choices, 0, 0];
      const height = Math.round(SIDE * given.ratio);
      if (canvas.height !== height) Object.assign(canvas, { width: SIDE, height }); // which clears it
      canvas.dataset.level = 0;
    }
    next();
  }
  new MutationObserver(() => {
    const given = wanted;
    wanted = null;
    if (given) show(given, found);
  }).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  return show;
}

/** A tile of slanting lines. */
function hatch() {
  const tile = make("canvas", { width: 12, height: 12 }),
    context = tile.getContext("2d");
  context.strokeStyle = "#777";
  context.lineWidth = 3;
  for (const x of [-12, 0, 12]) context.stroke(new Path2D(`M${x - 2} 14L${x + 14} -2`));
  return tile;
}

/** What a fine map shows: how many of all its starts choose best, and how many are undecided. */
export const mapped = (best, open, all) =>
  ` Of ${all.toLocaleString("en")} starts all over the view ${percent(best / all)} choose best` +
  (open ? `, ${percent(open / all)} are undecided (hatched).` : ".");

/** The colour of a choice: that of the best one, others in turn. */
const look = (choices, place) =>
  choices[place].best
    ? LOOKS.global
    : [LOOKS.local, "c3", "i1"][choices.slice(0, place).filter((one) => !one.best).length % 3];

const locals = (state) => engine.locallyOptimal(state).filter(({ best }) => !best).length;
/** What to do first with a preset, and what next. */
export function marksOf(now) {
  const third = now.keys[0].length > 2;
  const limits = (words, at) => ({ words, at, done: (state, from) => locals(state) !== locals(from) });
  const drag = (words, part, at) => ({
    words,
    at: `[data-key="${at}"]`,
    done: (state, from) => JSON.stringify(state[part]) !== JSON.stringify(from[part]),
  });
  const score = third ? '[data-mark="score"]' : "[none]",
    turning = (at) => drag("Now drag a circle. To which limit does its path turn?", "starts", at);
  return {
    "1(a)": [
      limits("Lower the score of token 3 until a second limit appears.", score),
      {
        words: "Lower the score of token 3 to 0. Which starts turn to a second limit?",
        at: score,
        done: ({ scores }) => scores[0][2] <= 0,
      },
    ],
    "1(b)": [
      limits("Raise the score of token 3 until the second limit is gone.", locals(now) ? score : "[none]"),
      turning("start 4"),
    ],
    "1(c)": [
      drag("Drag a star. Does the limit follow?", "keys", "token 0 0"),
      drag("Now drag a circle: the limit stays.", "starts", "start 0"),
    ],
    5: [
      {
        words: "Raise C to 100. Does the path bend?",
        at: '[data-mark="high"]',
        done: ({ scores }) => scores[0][1] >= 100,
      },
      {
        words: "Now choose another loss, under More.",
        at: ".explore-more > summary",
        done: (a, b) => a.loss !== b.loss,
      },
    ],
    8: [limits("Lower the shared direction until one limit is left.", '[data-mark="shared"]'), turning("start 1")],
  }[now.preset];
}

export function playground(root, tag, name) {
  let solved = null,
    key = "",
    chosen = [0, 2], // the third token, whose score makes the second limit
    followed = 0,
    armed = -1, // the start that the next drag near it takes
    shares = null; // of the map
  const first = preset(name in PRESETS ? name : "1(b)");
  const ui = frame(root, {
    tag,
    title: "Drag the tokens.",
    first,
    check,
    python,
    render,
    hint:
      "Points are keys, with their scores; a star scores best. Curves are the prompt p as it trains, from each circle. " +
      "Fine dots: half of the margin below a limit's key.",
  });
  // on a laptop the plane and its controls are on one screen; in a frame all of the figure is in sight
  const rest = "alone" in root.dataset ? 710 : 435,
    tall = (width) => (width < 500 ? 0.85 * width : Math.min(0.7 * width, Math.max(innerHeight - rest, 240)));
  const view = plane(ui.stage, { name: "The plane of keys and queries", tall, ui });
  const chart = plane(ui.below(), {
    name: "Angle of each run to the direction that the theorem predicts, over time",
    tall: (width) => clamp(0.2 * width, 84, innerHeight / 8),
    ui,
  });
  const map = basinMap(ui.stage, (...found) => {
    shares = found;
    ui.ask();
  });
  view.onEmpty((point) => {
    const { starts } = ui.state();
    if (starts.length < FEW) ui.set({ starts: [...starts, point] });
  });

  ui.presets(
    "Figure",
    ["1(a)", "1(b)", "1(c)", "5", "8"].map((figure) => [figure, () => preset(figure)]),
  );
  const token_ = ({ keys }) => {
    // the one that had the focus last, as long as it is there
    chosen = [Math.min(chosen[0], keys.length - 1), Math.min(chosen[1], keys[0].length - 1)];
    return chosen;
  };
  const scoring = (mark, figures) =>
    ui.slider((state) => `Score of token ${token_(state)[1] + 1}${named(state.keys, chosen[0])}`, {
      mark,
      min: -1,
      max: 2,
      step: 0.05,
      get: (state) => state.scores[token_(state)[0]][chosen[1]],
      put: (value) => rescored(...chosen, value),
      when: ({ preset: figure }) => figures.includes(figure),
    });
  scoring("score", ["1(a)", "1(b)", "1(c)"]);
  ui.slider("C, score of the upper token", {
    mark: "high",
    min: 1,
    max: 100,
    step: 1,
    when: ({ preset: figure, keys }) => figure === "5" && keys[0].length > 1,
    get: ({ scores }) => scores[0][1],
    put: (value) => rescored(0, 1, value),
  });
  ui.slider("Shared direction", {
    min: 0,
    max: 3,
    mark: "shared",
    step: 0.05,
    when: ({ preset: figure, keys }) => figure === "8" && keys.length === 2,
    get: ({ keys }) => -keys[1][0][0],
    put: (value) => moved(1, 0, [-value, 1]),
  });
  ui.slider("Time", {
    min: 0,
    max: 100,
    step: 1,
    get: (state) => slid(state),
    put: (value) => ({ shown: shownAt(ui.state(), value) }),
    show: () => when(ui.state(), ui.state().shown),
  });
  const attended = make("div", { class: "explore-bars" });
  // for a finger, to which starts that lie close together are one
  const following = button("Next start", () => {
    armed = followed = (followed + 1) % ui.state().starts.length;
    ui.ask();
  });
  ui.add(make("div", { class: "explore-row" }, attended, following), () =>
    turn(following, "hidden", ui.state().starts.length < 2),
  );
  ui.more();
  scoring("more score", ["8"]); // where the shared direction has its place
  const numbers = make("div", { class: "explore-row" });
  for (const [word, low, high, count, act] of [
    ["token", 1, 8, ({ keys }) => keys[0].length, resize],
    ["input", 1, 3, ({ keys }) => keys.length, reinput],
    ["start", 0, FEW, ({ starts }) => starts.length, restart],
  ]) {
    const less = button(`− ${word}`, () => act(-1)),
      more = button(`+ ${word}`, () => act(1));
    numbers.append(less, more);
    ui.add(numbers, () => {
      turn(less, "disabled", count(ui.state()) <= low);
      turn(more, "disabled", count(ui.state()) >= high);
    });
  }
  ui.select("loss", "Loss", engine.losses, "loss");
  ui.select("step", "Step", STEPS);
  ui.slider("Step size", { key: "size", min: 0.02, max: 1, step: 0.02, when: ({ step }) => step !== "flow" });
  ui.slider("Zoom out", { key: "zoom", min: 1, max: 40, step: 0.5, show: (x) => `${x} ×` });
  ui.toggle("map", "Colour every start by where it ends");

  /** What changes when a token gets another place, or another score. */
  function moved(i, t, to) {
    const { keys } = ui.state();
    return { keys: keys.with(i, keys[i].with(t, to)) };
  }
  function rescored(i, t, value) {
    const { scores } = ui.state();
    return { scores: scores.with(i, scores[i].with(t, rounded(clamp(value || 0, -1000, 1000), 3))) };
  }
  const rescore = (value) => ui.set(rescored(...chosen, value));
  // One more of each, or one less, where the buttons let it.
  const longer = (list, by, next) => (by > 0 ? [...list, next] : list.slice(0, -1));
  function resize(by) {
    const { keys, scores } = ui.state();
    ui.set({
      keys: keys.map((row, i) => longer(row, by, [rounded(-0.6 - 0.2 * i), rounded(0.3 * row.length - 0.8)])),
      scores: scores.map((row) => longer(row, by, 0)),
    });
  }
  function reinput(by) {
    const { keys, scores } = ui.state(),
      n = keys.length;
    ui.set({
      keys: longer(
        keys,
        by,
        keys[0].map(([x, y]) => [rounded(x + 0.3 * n), rounded(y - 0.4 * n)]),
      ),
      scores: longer(scores, by, scores[0]),
    });
  }
  function restart(by) {
    const { starts } = ui.state(),
      n = starts.length;
    ui.set({ starts: longer(starts, by, [rounded(0.4 * (n % 4) - 0.6), rounded(0.3 * Math.floor(n / 4) - 0.9)]) });
  }

  function render(state) {
    const { keys, scores, starts, loss, step, size, shown, zoom, view: window } = state;
    const now = JSON.stringify([keys, scores, starts, loss, step, size]);
    if (now !== key) [key, shares, solved] = [now, null, solve(state)];
    if (!view.width) return;
    view.look(window.map((x) => x * zoom));
    const { problem, choices, runs, ends } = solved;
    const shape = { window: view.window, ratio: view.height / view.width },
      whole = { key: now + view.window + view.width, problem, loss, rule: { kind: step, size }, ...shape };
    map(state.map && keys[0].length > 1 ? whole : null, choices);
    view.axes();
    choices.forEach(({ separator, best, selected }, k) => {
      const colour = look(choices, k),
        others = choices.filter((one) => !one.best).length > 1 ? ` ${selected.map((t) => t + 1)}` : "";
      // its name is on the side to which no run of its goes
      const turn = runs.reduce((sum, run, n) => {
        const [x, y] = view.lastSeen(run.path);
        return sum + (ends[n].place === k ? Math.sign(separator.theta[0] * y - separator.theta[1] * x) : 0);
      }, 0);
      view.ray(`ray ${k}`, separator.theta, `dashed ${colour}`, best ? "global" : `local${others}`, turn < 0);
      boundaries(problem, choices[k], `${k} ${colour}`);
    });
    const border = choices.some(({ best }) => best) && engine.border(problem, loss); // of the starts that give up an input
    if (border)
      view.beside(
        "border name",
        view.across("border", border.row, border.level, "dashed")(-3),
        8,
        0,
        "predicted border, far out",
      );
    const colours = ends.map(({ place }) => (place < 0 ? "none" : look(choices, place))),
      lasts = runs.map((run) => placed(run, shown));
    view.trails("paths", runs.map(({ path }, k) => [path, lasts[k]]), `path ${LOOKS.path}`); // prettier-ignore
    const locals = choices.filter((one) => !one.best).map(({ selected }) => selected[0]);
    keys.forEach((row, i) => row.forEach((at, t) => token(state, i, t, at, locals)));
    starts.forEach((at, k) =>
      view.handle(`start ${k}`, at, {
        name: `start ${k + 1}`,
        value: `at ${at[0]}, ${at[1]}`,
        look: `start ${colours[k]}${k === followed ? " chosen" : ""}`,
        draw: circle(5),
        done: () => (armed = -1) && ui.done(),
        move: (to) => ui.change({ starts: starts.with(k, to) }),
        chosen: () => (followed = k) + ui.ask(),
        armed: k === armed,
        press: (pressed) => {
          if (pressed !== "Delete" && pressed !== "Backspace") return false;
          ui.change({ starts: starts.toSpliced(k, 1) });
          return true;
        },
      }),
    );
    view.tidy();
    ui.say(words);
  }

  /** Draw what may wait of the configuration that was drawn last, and say what it is. */
  function words() {
    const state = ui.state();
    drawBars(state);
    if (chart.width) drawAngles(state);
    const colours = state.map
      ? shares === null
        ? " The map is on its way."
        : mapped(...shares)
      : "";
    return told(state, solved) + colours;
  }

  /** The lines that separate the chosen token of each input from the others, half way to the closest. */
  function boundaries({ keys }, { selected, separator: { theta } }, name) {
    keys.forEach((row, i) =>
      view.across(
        `boundary ${i} ${name}`,
        theta,
        engine.dot(row[selected[i]], theta) - 0.5,
        `thin dotted ${name.slice(2)}`,
      ),
    );
  }

  function token({ keys, scores }, i, t, at, locals) {
    const best = scores[i][t] === Math.max(...scores[i]),
      half = rounded(6 + 2.5 * clamp(scores[i][t], -0.5, 1.5), 1);
    view.handle(`token ${i} ${t}`, at, {
      name: `token ${t + 1}${named(keys, i)}, score ${scores[i][t]}${best ? ", best" : ""}`,
      value: `at ${at[0]}, ${at[1]}`,
      done: ui.done,
      look: `token ${keys.length > 1 ? `i${i}` : best ? LOOKS.global : locals.includes(t) ? LOOKS.local : ""}${chosen[0] === i && chosen[1] === t ? " chosen" : ""}`,
      draw: (best ? star : square)(half),
      move: (to) => ui.change(moved(i, t, to)),
      chosen: () => (chosen = [i, t]) + ui.ask(),
      first: chosen[0] === i && chosen[1] === t, // the slider and the mark above name it
      press: (pressed) => {
        if (pressed !== "+" && pressed !== "-") return false;
        chosen = [i, t];
        rescore(scores[i][t] + (pressed === "+" ? 0.05 : -0.05));
        return true;
      },
    });
    if (keys.length * keys[0].length > 8 && !(chosen[0] === i && chosen[1] === t)) return;
    const input = keys.length > 1 ? `input ${i + 1}, ` : "",
      word = view.width < 500 && input ? "" : "token ";
    view.beside(`score ${i} ${t}`, at, 13, -8, `${input}${word}${t + 1}: ${scores[i][t]}`);
  }

  /**
   * The angle of each run to the direction that it is predicted to take, in degrees, both logarithmic; a flow over
   * log t itself.
   */
  function drawAngles({ step, shown }) {
    const flow = step === "flow",
      { choices, runs, ends } = solved,
      low = -2.3,
      high = 3.6;
    chart.chart([0, flow ? 100 : 3, low, high], 44, 12);
    for (const decade of [2, 0, -2]) {
      chart.segment(`decade ${decade}`, [0, decade], [flow ? 100 : 3, decade], "axis");
      chart.label(`name ${decade}`, 2, clamp(chart.to([0, decade])[1] + 4, 12, chart.height - 2), `${10 ** decade}°`);
    }
    runs.forEach((run, k) => {
      if (ends[k].place < 0) return;
      const { theta } = choices[ends[k].place].separator,
        points = [];
      for (let x = 0; x <= 60 && (flow || 10 ** (x / 20) < run.path.length / 2); x++) {
        const at = engine.at(run.path, placed(run, flow ? 1000 * (x / 60) : 10 ** (x / 20))),
          size = engine.length(at) * engine.length(theta);
        const sine = Math.abs(theta[0] * at[1] - theta[1] * at[0]) / size,
          angle = Math.atan2(sine, engine.dot(theta, at) / size);
        if (angle > 0)
          points.push(flow ? (100 * x) / 60 : x / 20, clamp(Math.log10((angle * 180) / Math.PI), low, high));
      }
      if (points.length > 2) chart.trail(`angle ${k}`, points, `path ${look(choices, ends[k].place)}`);
    });
    const now = flow ? shown / 10 : Math.log10(Math.max(shown, 1));
    chart.segment("now", [now, low], [now, high], "thin dotted");
    chart.label("what", 50, 13, `angle to its limit, over ${flow ? "log t" : "1 to 1000 steps"}`);
    chart.tidy();
  }

  /** Attention of the start that was last looked at, at the iteration shown. */
  function drawBars(state) {
    const { keys, scores, starts, shown } = state;
    turn(attended, "hidden", !starts.length);
    if (!starts.length) return;
    followed = Math.min(followed, starts.length - 1);
    const run = solved.runs[followed],
      weights = engine.attention({ keys }, engine.at(run.path, placed(run, shown)));
    bars(
      attended,
      `Attention from start ${followed + 1} after ${when(state, shown)}`,
      weights,
      (i) => (keys.length > 1 ? `i${i}` : LOOKS.path),
      (i, t) => scores[i][t] === Math.max(...scores[i]),
    );
  }
  coach(ui, marksOf, ({ preset: figure }) => figure);
  ui.start();
  return ui;
}
