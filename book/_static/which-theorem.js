// Choose what one has, and see which statements apply. Without this script the page has all hypotheses and what happens without each.
(() => {
  const known = document.querySelector("script.which-data"), table = document.querySelector("table.which");
  if (!known || !table) return;
  const { questions, statements } = JSON.parse(known.textContent);
  const rows = [...table.tBodies[0].rows];
  const form = document.createElement("form");
  form.className = "find-rows which-form";
  for (const [name, { asks, options }] of Object.entries(questions)) {
    const label = document.createElement("label"), choice = document.createElement("select");
    choice.name = name;
    choice.add(new Option("not said", ""));
    for (const [value, words] of Object.entries(options)) choice.add(new Option(words, value));
    label.append(`${asks} `, choice);
    form.append(label);
  }
  const only = document.createElement("label"), box = Object.assign(document.createElement("input"), { type: "checkbox", name: "only" });
  only.append(box, " hide statements that do not apply");
  const status = document.createElement("p");
  status.setAttribute("role", "status");
  const again = Object.assign(document.createElement("button"), { type: "reset", textContent: "Begin again" });
  form.append(only, again, status);

  // What happened without a hypothesis: the cells of its rows in the tables below, formulas as they are set there.
  const happened = (address) => {
    const row = document.querySelector(`table.dropped a[href="rows.html#${address}"]`)?.closest("tr"), item = document.createElement("li");
    if (!row) return item;
    const [, dropped, measured, verdict, place] = [...row.cells].map((cell) => [...(cell.querySelector("p") ?? cell).cloneNode(true).childNodes]);
    item.append(...dropped, ": ", ...measured, "; ", ...verdict, " (", ...place, ")");
    return item;
  };
  const words = (place) => document.querySelector(`table.which a[href$="#${place}"]`)?.textContent ?? place;

  const judge = (row, needs, chosen) => {
    const fails = needs.filter(({ about, holds }) => chosen[about] && !holds.includes(chosen[about]));
    const open = needs.filter(({ about }) => !chosen[about]);
    const said = document.createElement("div"), verdict = document.createElement("p");
    said.className = "which-said";
    verdict.textContent = fails.length ? "Does not apply." : open.length ? `May apply; ${open.length} of ${needs.length} hypotheses are not settled.` : "Applies.";
    said.append(verdict);
    for (const { place, dropped } of fails) {
      const list = document.createElement("ul"), link = Object.assign(document.createElement("a"), { href: `#${place}`, textContent: words(place) });
      list.append(...dropped.map(happened));
      const line = document.createElement("p");
      line.append("This hypothesis fails: ", link, dropped.length ? ". Where it was dropped:" : ". No ablation drops it.");
      said.append(line, ...(dropped.length ? [list] : []));
    }
    row.querySelector(".which-said")?.remove();
    row.classList.toggle("which-fails", fails.length > 0);
    row.classList.toggle("which-applies", !fails.length && !open.length);
    row.hidden = fails.length > 0 && box.checked;
    if (Object.values(chosen).some(Boolean)) row.cells[0].append(said);
    return fails.length ? "fails" : open.length ? "open" : "applies";
  };

  const show = () => {
    const chosen = Object.fromEntries(Object.keys(questions).map((name) => [name, form.elements[name].value]));
    const came = rows.map((row, k) => judge(row, statements[k], chosen));
    const [holding, open, failing] = ["applies", "open", "fails"].map((word) => came.filter((one) => one === word).length);
    status.textContent = `Of ${rows.length} statements ${holding} ${holding === 1 ? "applies" : "apply"}, ${open} may apply, ${failing} ${failing === 1 ? "does" : "do"} not.`;
  };
  form.addEventListener("input", show);
  form.addEventListener("reset", () => setTimeout(show));
  form.addEventListener("submit", (event) => event.preventDefault());
  (table.closest(".pst-scrollable-table-container") ?? table).before(form);
  show();
})();
