// The frame of a figure: its state with undo and an address, its controls, and the sentence under it.
import { button, give, make, needed, turn, write } from "./view.js";

const PAUSE = 200; // milliseconds between two sentences while something moves
const BETWEEN = [",", "_", "~"]; // numbers of a list, lists of a list, and so on
const depth = (value) => (Array.isArray(value) ? 1 + depth(value[0]) : 0);
const written = (value) => (Array.isArray(value) ? value.map(written).join(BETWEEN[depth(value) - 1]) : String(value));

/** The value that a text writes, of the kind of another value; an error where it is none. */
function readAs(text, like) {
  if (Array.isArray(like))
    return text === "" ? [] : text.split(BETWEEN[depth(like) - 1]).map((part) => readAs(part, like[0]));
  if (typeof like === "string") return text;
  if (typeof like === "boolean") return text === "true";
  needed(text.trim() !== "" && Math.abs(Number(text)) <= 1000, `${text} is no number between -1000 and 1000`);
  return Number(text);
}

/** Return the state of a figure that the address has, over its first one; null where there is none. */
function fromAddress(tag, first) {
  const parts = new URLSearchParams(location.hash.slice(1));
  if (parts.get("explore") !== tag) return null;
  const state = { ...first };
  for (const key of Object.keys(first)) if (parts.has(key)) state[key] = readAs(parts.get(key), first[key]);
  return state;
}

function address(tag, state) {
  const parts = Object.entries(state).map(
    ([key, value]) => `${key}=${encodeURIComponent(written(value)).replaceAll("%2C", ",")}`,
  );
  return `#explore=${tag}&${parts.join("&")}`;
}

// ---- a figure -----------------------------------------------------------------------------------

/**
 * The frame of a figure in an element of the page, and its state.
 *
 * first: its state at the beginning; check(state) throws where a state is none, beyond what its controls allow;
 * render(state) draws; python(state) is the snippet's lines. The parts: stage, controls, say(() => sentence),
 * change(by), done(), state(), and start() when all are there.
 */
export function frame(root, { tag, title, hint, first, check = () => {}, render, python }) {
  const stage = make("div", { class: "explore-stage" }),
    controls = make("div", { class: "explore-controls" });
  const sentence = make("p", { class: "explore-said" }),
    live = make("p", { class: "explore-live", role: "status", "aria-live": "polite" });
  const code = make("code"),
    undo = button("Undo", back),
    copied = button("Copy link", copy);
  const opening = make("p", {}, make("strong", {}, title), ` ${hint}`),
    foot = make("div", { class: "explore-foot" });
  const box = make(
    "section",
    { class: "explore-box", "aria-label": title },
    opening,
    stage,
    sentence,
    live,
    controls,
    foot,
  );
  foot.append(
    undo,
    button("Reset", () => set(first)),
    copied,
    make("details", {}, make("summary", {}, "The same in Python"), make("pre", {}, code)),
  );
  const fallback = make("div", { class: "explore-fallback" }, ...root.childNodes);
  root.append(fallback, box);

  let state = first,
    settled = JSON.stringify(first),
    asked = 0,
    speaking = 0,
    moving = false, // from a change until it is done: what can wait until then may wait
    note = "",
    told = () => "",
    late = 0,
    spoken = 0;
  const whole = new Promise((done) => addEventListener("load", () => document.fonts.ready.then(done)));
  const past = [],
    bound = [],
    watching = [],
    limits = {};
  let place = controls; // where the next control goes
  /** Begin with what the address has, and follow a link that is pasted into the open page. */
  function start() {
    arrive();
    addEventListener("hashchange", arrive);
    done();
  }
  function arrive() {
    try {
      const given = fromAddress(tag, first);
      if (!given) return;
      for (const key in limits) needed(limits[key](given[key]), `${key} is ${given[key]}`);
      check(given);
      set(given);
      whole.then(() => setTimeout(() => root.scrollIntoView())); // what comes later would push it away
    } catch (error) {
      note = `The address holds no configuration of this figure (${error.message}); this is the one before. `;
      ask();
    }
  }

  function draw() {
    cancelAnimationFrame(asked);
    asked = 0;
    for (const sync of bound) sync(state);
    turn(undo, "disabled", past.length === 0);
    render(state);
  }
  const ask = () => (asked ||= requestAnimationFrame(draw));
  function change(by) {
    state = { ...state, ...by };
    note = "";
    if (!moving) hold();
    moving = true;
    ask();
  }
  /** Hold the heights of what changes while something moves, or each frame would lay out the whole page. */
  function hold() {
    for (const part of [sentence, controls]) part.style.height = getComputedStyle(part).height;
  }
  /** Give a sentence that has become longer the height that it needs. */
  function grow() {
    if (moving && sentence.scrollHeight > sentence.clientHeight) sentence.style.height = `${sentence.scrollHeight}px`;
  }
  function done() {
    moving = false;
    sentence.style.height = controls.style.height = "";
    const text = JSON.stringify(state);
    if (text !== settled) {
      past.push(settled);
      settled = text;
      history.replaceState(null, "", address(tag, state));
    }
    code.textContent = python(state).join("\n");
    ask();
  }
  function set(whole) {
    change(whole);
    done();
  }
  function back() {
    if (!past.length) return;
    state = JSON.parse(past.pop());
    settled = JSON.stringify(state);
    history.replaceState(null, "", address(tag, state));
    done();
  }
  function copy() {
    const tell = (text) => () => {
      copied.textContent = text;
      setTimeout(() => (copied.textContent = "Copy link"), 2500);
    };
    history.replaceState(null, "", address(tag, state));
    Promise.resolve(navigator.clipboard?.writeText(location.href) ?? Promise.reject()).then(
      tell("Copied"),
      tell("It is in the address bar"),
    );
  }
  /** Have a sentence under the drawing: a page whose text changes is laid out anew, for which a drag has no time. */
  function say(next) {
    told = next;
    if (!moving || performance.now() > spoken + PAUSE) words();
    else late ||= setTimeout(words, PAUSE);
  }
  function words() {
    clearTimeout(late);
    [late, spoken] = [0, performance.now()];
    for (const look of watching) look(state);
    const text = note + told();
    write(sentence, text);
    requestAnimationFrame(grow); // in the next frame: to measure it now would lay out the page twice
    clearTimeout(speaking);
    speaking = setTimeout(() => (live.textContent = text), 600);
  }
  box.addEventListener("keydown", (event) => {
    if (event.key.toLowerCase() !== "z" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    back();
  });

  return {
    /** Room for one more drawing under the others. */
    below() {
      const more = make("div", { class: "explore-stage" });
      sentence.before(more);
      return more;
    },
    /** Fold the controls that follow: first one thing to do, then the rest. */
    more() {
      place = make("div", { class: "explore-controls" });
      controls.append(make("details", { class: "explore-more" }, make("summary", {}, "More"), place));
    },
    /** Put something above the drawing, or between controls and foot. */
    above: (node) => opening.after(node),
    under: (node) => foot.before(node),
    /** Call with the state each time that the sentence is due. */
    watch: (look) => watching.push(look),
    /** Begin the sentence with this, until the next change. */
    remark: (text) => (note = `${text} `),
    tag,
    box,
    stage,
    sentence,
    controls,
    say,
    change,
    done,
    set,
    ask,
    start,
    now: draw,
    state: () => state,
    moving: () => moving,
    /** A row of buttons, each of which sets a part of the state. */
    presets(name, options) {
      place.append(
        make(
          "div",
          { role: "group", "aria-label": name, class: "explore-row" },
          make("span", {}, name),
          ...options.map(([label, by]) => button(label, () => set(by()))),
        ),
      );
    },
    /**
     * A slider over a part of the state, or over what get finds there and put makes of it; its name may depend on
     * the state.
     */
    slider(
      name,
      {
        key,
        get = (now) => now[key],
        put = (value) => ({ [key]: value }),
        min,
        max,
        step,
        show = String,
        when = () => true,
        mark = null,
      },
    ) {
      const input = make("input", {
        type: "range",
        min,
        max,
        step,
        oninput: () => change(put(Number(input.value))),
        onchange: done,
        onpointerup: () => moving && done(), // a slider that is back where it was has not changed
        onpointercancel: () => moving && done(),
      });
      const output = make("output"),
        title = make("span", {}, typeof name === "string" ? name : "");
      const label = make("label", { "data-mark": mark }, title, input, output);
      place.append(label);
      if (key) limits[key] = (value) => value >= min && value <= max && (step < 1 || Number.isInteger(value));
      bound.push(() => {
        turn(label, "hidden", !when(state));
        if (label.hidden) return;
        if (typeof name !== "string") write(title, name(state));
        if (input.value !== String(get(state))) input.value = get(state);
        write(output, show(get(state)));
        give(input, "aria-valuetext", show(get(state)));
      });
    },
    select(key, name, options, mark = null) {
      const input = make(
        "select",
        { onchange: () => set({ [key]: input.value }) },
        ...options.map((option) => make("option", { value: option }, option)),
      );
      place.append(make("label", { "data-mark": mark }, make("span", {}, name), input));
      limits[key] = (value) => options.includes(value);
      bound.push(() => input.value === state[key] || (input.value = state[key]));
    },
    toggle(key, name) {
      const input = make("input", { type: "checkbox", onchange: () => set({ [key]: input.checked }) });
      place.append(make("label", {}, input, make("span", {}, name)));
      bound.push(() => (input.checked = state[key]));
    },
    /** Something of the figure's own among the controls. */
    add(node, sync = () => {}) {
      place.append(node);
      bound.push(sync);
    },
  };
}
