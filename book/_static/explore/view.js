// What all interactive figures share: nodes, bars, numbers as one reads them.

const SHAPES = new Set(["svg", "g", "path", "line", "circle", "rect", "text"]);

/** A new node of HTML or SVG; attributes named on... are listeners. */
export function make(name, attributes = {}, ...children) {
  const node = SHAPES.has(name)
    ? document.createElementNS("http://www.w3.org/2000/svg", name)
    : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value !== null && value !== false) node.setAttribute(key, value);
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}

/** Set an attribute, or the text, of a node where it is another: a page is laid out anew after each change. */
export function give(node, name, value) {
  const had = (node.had ??= {}); // which is quicker than to ask the node
  if (had[name] !== value) node.setAttribute(name, (had[name] = value));
}
/** Set a property of a node, such as hidden, where it is another: setting it again would style the node anew. */
export function turn(node, name, value) {
  if (node[name] !== value) node[name] = value;
}
export function write(node, text) {
  const inside = node.firstChild;
  if (node.childNodes.length !== 1 || inside.nodeType !== Node.TEXT_NODE) node.textContent = text;
  else if (inside.data !== text) inside.data = text; // a new node would be styled, too
}

export const button = (text, onclick, more) => make("button", { type: "button", onclick, ...more }, text);

/**
 * Call tick(milliseconds since the last one) frame by frame until it says so; the function that is returned ends it
 * at once.
 */
export function play(tick) {
  let asked = 0,
    before = performance.now();
  const next = (now) => {
    asked = requestAnimationFrame(next);
    if (tick(now - before)) cancelAnimationFrame(asked);
    before = now;
  };
  asked = requestAnimationFrame(next);
  return () => cancelAnimationFrame(asked);
}

/** Fill a node with bars that stand, a group for each row of shares, the words that say what they are, and names. */
export function bars(node, words, rows, look, best = () => false, names = []) {
  const named = (row) => row.map((part, t) => `${names[t] ? `${names[t]} ` : ""}${percent(part)}`).join(", "),
    text = `${words}: ${rows.map(named).join("; ")}`,
    have = (parent, k, name) => parent.children[k] || parent.appendChild(make(name));
  write(have(node, 0, "span"), words);
  rows.forEach((row, i) => {
    const group = have(node, i + 1, "div");
    give(group, "role", "img");
    give(group, "class", look(i));
    give(group, "aria-label", text);
    row.forEach((part, t) => {
      give(have(group, t, "i"), "style", `height:${Math.max(100 * part, 1)}%`);
      give(group.children[t], "class", best(i, t) && "best");
      if (names[t]) give(group.children[t], "data-name", names[t]);
    });
    while (group.children[row.length]) group.lastChild.remove();
  });
  while (node.children[rows.length + 1]) node.lastChild.remove();
}

const lying = (share, zero) => {
  const [from, to] = [Math.min(share, 0), Math.max(share, 0)].map((end) => 100 * (zero + (1 - zero) * end));
  return `width:${to - from}%;margin-left:${from}%`;
};
/** Fill a node with bars that lie, each with its name and its number;
 *  zero, where they begin, is a share of the width. */
export function counts(node, rows, zero = 0) {
  const parts = rows.flatMap(([name, look, share, number]) => [
    ["span", {}, name],
    ["i", { class: look, style: lying(share, zero) }, ""],
    ["b", {}, number],
  ]);
  parts.forEach(([kind, attributes, text], k) => {
    const part = node.children[k] || node.appendChild(make(kind));
    for (const name in attributes) give(part, name, attributes[name]);
    write(part, text);
  });
  while (node.children[parts.length]) node.lastChild.remove();
}

export const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
export const clamp = (x, low, high) => Math.min(Math.max(x, low), high);
export const rounded = (x, digits = 2) => +x.toFixed(digits);
export const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

/** A share in words: 0 % is none of it, and 100 % all of it. */
export const percent = (x) =>
  x > 0 && x < 0.01 ? "under 1 %" : x > 0.99 && x < 1 ? "over 99 %" : `${Math.round(100 * x)} %`;
/** By how much a direction would have to be ahead to be found (engine.separator). */
export const HAIR = "by more than 10⁻⁹ of their distance";

/** A small number as one reads it: 0.031 or 4e-5. */
export function small(x) {
  if (!(x > 0)) return Number.isNaN(x) ? "unknown" : "0";
  return x >= 0.001 ? String(+x.toPrecision(2)) : x.toExponential(0);
}
/** An angle in degrees, where one that is tiny is only rounding. */
export const degreesOf = (x) => (x < 0.01 ? "less than 0.01°" : `${small(x)}°`);

/** Refuse, with this reason, what is not whole. */
export function needed(whole, text) {
  if (!whole) throw new Error(text);
}

/** Lists as Python writes them. */
export const py = (value) => JSON.stringify(value).replaceAll(",", ", ");
