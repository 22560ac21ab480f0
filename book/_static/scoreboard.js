// Find rows of the scoreboard, or of the page of every row, by words and by verdict, there also by paper; unfold what is
// found, or what an address names. Without this script the page has all rows in reading order.
(() => {
  const tables = [...document.querySelectorAll("table:is(.scoreboard, .ledger)")];
  if (!tables.length) return;
  const rows = tables.flatMap((table) => [...table.tBodies[0].rows]);
  const every = tables[0].matches(".ledger"), papers = { "2306.13596": "first", "2402.05738": "second", "2410.14581": "third" };
  const standing = (row) => row.cells[every ? 0 : 1].textContent.trim().replace(every ? /^\W+/ : "", "");
  const paper = (row) => papers[row.dataset.of] ?? "none: ours";
  const form = document.createElement("form");
  form.className = "find-rows";
  form.innerHTML =
    '<label>Find <input type="search" name="words" placeholder="Theorem 2, Adam"></label>' +
    `<label>${every ? "Verdict" : "Standing"} <select name="standing"><option value="">any</option></select></label>` +
    (every ? '<label>Paper <select name="paper"><option value="">any</option></select></label>' : "") + '<p role="status"></p>';
  const asked = every ? { standing, paper } : { standing };
  for (const [name, told] of Object.entries(asked)) for (const one of new Set(rows.map(told))) form.elements[name].add(new Option(one));
  const unfold = () => { const fold = document.getElementById(decodeURIComponent(location.hash.slice(1)))?.closest("details.rows-of"); if (fold) fold.open = true; };
  const show = () => {
    // "theorem 4" is one word, and finds neither Theorem 14 nor a Theorem 5 with a Figure 4
    const words = form.elements.words.value.toLowerCase().match(/[^\s\d]+\s+\d+(?!\S)|\S+/g) ?? [];
    const patterns = words.map((word) => new RegExp(word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&").replace(/\s+/, "s?\\s+") + (/\d$/.test(word) ? "(?!\\d)" : "")));
    const chosen = Object.entries(asked).filter(([name]) => form.elements[name].value);
    for (const row of rows) {
      const text = (row.textContent + (every ? row.closest("section").id : "")).toLowerCase();
      row.hidden = !patterns.every((pattern) => pattern.test(text)) || !chosen.every(([name, told]) => told(row) === form.elements[name].value);
    }
    for (const table of tables) {
      const none = [...table.tBodies[0].rows].every((row) => row.hidden);
      (every ? table.closest("section") : table).hidden = none;
      if (every) table.closest("details").open = !none && (words.length > 0 || chosen.length > 0);
    }
    if (every) unfold();
    form.querySelector("[role=status]").textContent = `${rows.filter((row) => !row.hidden).length} of ${rows.length} ${every ? "rows" : "statements"}`;
  };
  addEventListener("hashchange", unfold);
  form.addEventListener("input", show);
  form.addEventListener("submit", (event) => event.preventDefault());
  (tables[0].closest("section") ?? tables[0].parentElement).before(form);
  show();
  // after the browser has gone to the address, which takes the focus away
  if (location.hash === "#find-statement") addEventListener("load", () => setTimeout(() => form.elements.words.focus()));
})();
