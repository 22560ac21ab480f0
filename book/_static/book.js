// What pages do by themselves; without it everything on them can still be read.

// What is wider than its place scrolls in its own box: one sees that there is more, and reaches it by keyboard.
const boxes = "article :is(div.formula, .pst-scrollable-table-container, .text_html, .highlight > pre)";

function mark(box) {
  const hidden = box.scrollWidth - box.clientWidth;
  box.classList.toggle("wide", hidden > 2);
  box.classList.toggle("more", hidden - box.scrollLeft > 2);
  if (hidden > 2 && !box.hasAttribute("tabindex")) {
    box.tabIndex = 0;
    box.setAttribute("role", "group");
    box.setAttribute("aria-label", "scrolls sideways");
  }
}

function watch() {
  const observer = new ResizeObserver((entries) => entries.forEach((entry) => mark(entry.target)));
  for (const box of document.querySelectorAll(boxes)) {
    observer.observe(box);
    box.addEventListener("scroll", () => mark(box), { passive: true });
  }
  for (const button of document.querySelectorAll("button.copybtn")) button.setAttribute("aria-label", "Copy this code");
}

// What the theme gives a sign and no name: folds of the list of pages, the search button; and folds of code, all with one name.
for (const [which, name] of [["summary:has(> .toctree-toggle)", "More pages"], [".search-button__button, .search-button", "Search"]])
  for (const one of document.querySelectorAll(which)) one.setAttribute("aria-label", name);
for (const fold of document.querySelectorAll("details.hide > summary[aria-label]")) fold.removeAttribute("aria-label");
// Roles that are wrong or out of date, and heads of columns without a name.
for (const one of document.querySelectorAll(":is(.citation-list, .citation, .citation *)[role]")) one.removeAttribute("role");
for (const head of document.querySelectorAll("article thead th:empty")) head.replaceWith(document.createElement("td"));

addEventListener("load", () => document.fonts.ready.then(watch));

// On paper there is no night, and nobody opens a fold: for as long as a page is printed it is day, and all is open.
let before = null;

addEventListener("beforeprint", () => {
  if (before) return;
  const page = document.documentElement, folds = [...document.querySelectorAll("article details:not([open], .explore *)")];
  before = { theme: page.dataset.theme, folds };
  page.dataset.theme = "light";
  for (const fold of folds) fold.open = true;
});

addEventListener("afterprint", () => {
  if (!before) return;
  document.documentElement.dataset.theme = before.theme;
  for (const fold of before.folds) fold.open = false;
  before = null;
});

// A formula that is copied is its TeX, not a letter a line.
document.addEventListener("copy", (event) => {
  const chosen = getSelection().rangeCount ? getSelection().getRangeAt(0).cloneRange() : null;
  const around = (node) => (node?.nodeType === Node.ELEMENT_NODE ? node : node?.parentElement)?.closest("math");
  if (around(chosen?.startContainer)) chosen.setStartBefore(around(chosen.startContainer));
  if (around(chosen?.endContainer)) chosen.setEndAfter(around(chosen.endContainer));
  const copied = document.createElement("div");
  copied.append(chosen?.cloneContents() ?? "");
  const formulas = copied.querySelectorAll("math[alttext]");
  for (const one of formulas) one.replaceWith(`$${one.getAttribute("alttext")}$`);
  if (!formulas.length) return;
  document.body.append(copied); // or its lines would be none
  event.clipboardData.setData("text/plain", copied.innerText);
  copied.remove();
  event.preventDefault();
});

// A formula of TeX as plain text, for where formulas cannot be set.
function words(formula) {
  return formula.replace(/\\(?:math\w+|text\w*|operatorname|norm|left|right|[bB]ig+[lr]?|[()])/g, "").replace(/\\[lr]?[vV]ert/g, "‖").replace(/[{}]/g, "").replace(/(?<=\w)\\/g, " ").replace(/\\/g, "");
}

// The page of results shows sentences around what was found, formulas in words, never code: a page found by its code shows its first sentences.
function sentences(page, keywords, anchor) {
  const found = new DOMParser().parseFromString(page, "text/html");
  let place = (anchor && found.getElementById(anchor.slice(1))) || found.querySelector("article");
  if (!place) return null;
  while (place.localName !== "article" && place.textContent.length < 80) place = place.parentElement;
  place.querySelectorAll("script, style, .headerlink, h1, nav, figure, .meaning, .terms, .verdict-chips").forEach((part) => part.remove());
  place.querySelectorAll("div.math").forEach((formula) => formula.replaceWith(" … "));
  place.querySelectorAll("span.math").forEach((formula) => formula.replaceWith(words(formula.querySelector("math").getAttribute("alttext"))));
  place.querySelectorAll(".cell_input, pre, summary, table").forEach((part) => part.remove());
  const text = place.textContent.replace(/\s+/g, " ").trim();
  const where = Math.min(...[...keywords].map((word) => text.toLowerCase().indexOf(word) + 1 || Infinity)) - 1;
  const start = where < Infinity ? text.lastIndexOf(" ", Math.max(where - 100, 0)) + 1 : 0;
  const end = start + 240 < text.length ? text.lastIndexOf(" ", start + 240) : text.length;
  const summary = document.createElement("p");
  summary.className = "context";
  summary.textContent = (start > 0 ? "… " : "") + text.slice(start, end) + (end < text.length ? " …" : "");
  return summary;
}

if (typeof Search !== "undefined") Search.makeSearchSummary = sentences;

// What opens over the page closes by Escape, and a chip also by a tap beside it.
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  if (document.activeElement?.matches(".term")) document.activeElement.blur();
  for (const chip of document.querySelectorAll("details.chip[open]")) chip.open = false;
});
document.addEventListener("click", (event) => {
  for (const chip of document.querySelectorAll("details.chip[open]")) if (!chip.contains(event.target)) chip.open = false;
});

// The list of pages shows where one is, also where the theme has put it back to where it was on the page before.
addEventListener("load", () => {
  const list = document.querySelector(".bd-sidebar-primary"), here = [...(list?.querySelectorAll("a.current, li.current > a") ?? [])].pop();
  if (!here) return;
  const [frame, link] = [list, here].map((part) => part.getBoundingClientRect());
  if (link.top < frame.top || link.bottom > Math.min(frame.bottom, innerHeight)) list.scrollTop += link.top - frame.top - frame.height / 2;
});

// A drawing as a file, by day on white ground: SVG as it is on the page, or PNG of three times as many points.
function drawn(drawing) {
  const copy = drawing.cloneNode(true);
  copy.style.background = "#fff";
  return new Blob([new XMLSerializer().serializeToString(copy)], { type: "image/svg+xml" });
}

async function asPNG(drawing) {
  const picture = new Image(), paper = document.createElement("canvas");
  picture.src = URL.createObjectURL(drawn(drawing));
  await picture.decode();
  [paper.width, paper.height] = [3 * drawing.width.baseVal.value, 3 * drawing.height.baseVal.value];
  paper.getContext("2d").drawImage(picture, 0, 0, paper.width, paper.height);
  return new Promise((done) => { paper.toBlob(done); });
}

for (const drawing of document.querySelectorAll("article figure[id] svg.drawing")) {
  const figure = drawing.closest("figure"), links = document.createElement("span");
  links.className = "pictures";
  for (const [kind, made] of [["svg", drawn], ["png", asPNG]]) {
    const link = Object.assign(document.createElement("button"), { type: "button", textContent: kind.toUpperCase() });
    link.setAttribute("aria-label", `Download this picture as ${link.textContent}`);
    link.addEventListener("click", async () => {
      const address = URL.createObjectURL(await made(drawing));
      Object.assign(document.createElement("a"), { href: address, download: `${figure.id}.${kind}` }).click();
    });
    links.append(link);
  }
  const sign = figure.querySelector("figcaption .headerlink");
  if (sign) sign.before(links);
  else figure.append(links);
}
