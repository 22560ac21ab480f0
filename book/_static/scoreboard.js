// Find, filter and sort the rows of the scoreboard. Without this script the page has all rows in reading order.
(() => {
  const tables = [...document.querySelectorAll("table.scoreboard")];
  if (!tables.length) return;
  const blocks = (cell, kinds) =>
    [...cell.querySelectorAll("span.verdict")]
      .filter((span) => kinds.some((kind) => span.classList.contains(kind)))
      .reduce((sum, span) => sum + span.textContent.split("▮").length - 1, 0);
  const GROUPS = {
    held: ["reproduced", "holds"],
    corrected: ["corrected"],
    "not held": ["not-reproduced", "fails"],
    undecided: ["undecided"],
    "not tested": ["open"],
  };
  const all = Object.values(GROUPS).flat();
  const rows = tables.flatMap((table) =>
    [...table.tBodies[0].rows].map((row, place) => {
      const cell = row.cells[1], count = blocks(cell, all);
      const groups = Object.keys(GROUPS).filter((name) => cell.querySelector(GROUPS[name].map((kind) => `.${kind}`).join()));
      const good = blocks(cell, [...GROUPS.held, ...GROUPS.corrected]);
      return { row, place, body: table.tBodies[0], count, groups, share: count ? good / count : 2, words: row.textContent.toLowerCase() };
    }),
  );
  const ORDERS = {
    "reading order": (a, b) => a.place - b.place,
    "least held first": (a, b) => a.share - b.share || b.count - a.count || a.place - b.place,
    "most claims first": (a, b) => b.count - a.count || a.place - b.place,
  };

  const form = document.createElement("form");
  form.className = "find-rows";
  form.innerHTML =
    '<label>Find <input type="search" name="words" placeholder="Theorem 2, cone, Adam"></label>' +
    '<label>Order <select name="order"></select></label><fieldset><legend>Show items with claims that are</legend></fieldset>' +
    '<p role="status"></p>';
  for (const name of Object.keys(ORDERS)) form.elements.order.add(new Option(name));
  const fieldset = form.querySelector("fieldset");
  for (const name of Object.keys(GROUPS).filter((name) => rows.some((one) => one.groups.includes(name)))) {
    const label = document.createElement("label"), input = document.createElement("input");
    Object.assign(input, { type: "checkbox", name: "group", value: name });
    label.append(input, ` ${name}`);
    fieldset.append(label);
  }

  const show = () => {
    const words = form.elements.words.value.toLowerCase().split(/\s+/).filter(Boolean);
    const chosen = [...form.querySelectorAll("[name=group]:checked")].map((input) => input.value);
    let shown = 0;
    for (const one of rows) {
      one.row.hidden = !words.every((word) => one.words.includes(word)) || (chosen.length > 0 && !chosen.some((name) => one.groups.includes(name)));
      shown += !one.row.hidden;
    }
    for (const one of [...rows].sort(ORDERS[form.elements.order.value])) one.body.append(one.row);
    for (const table of tables) table.hidden = [...table.tBodies[0].rows].every((row) => row.hidden);
    form.querySelector("[role=status]").textContent = `${shown} of ${rows.length} items`;
  };
  form.addEventListener("input", show);
  form.addEventListener("submit", (event) => event.preventDefault());
  const first = tables[0].closest("section") ?? tables[0].parentElement;
  first.before(form);
  show();
})();
