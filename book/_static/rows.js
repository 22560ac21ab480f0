// A row to cite, as one line and as BibTeX, below the row whose address is clicked. Without this script an address is a link to its row.
(() => {
  const about = document.querySelector("script.cited");
  if (!about) return;
  const { fields, commit } = JSON.parse(about.textContent);
  const page = location.protocol.startsWith("http") ? location.href.split("#")[0] : "";

  // Text of a cell, its formulas as TeX.
  const text = (cell) => {
    const copy = cell.cloneNode(true);
    for (const formula of copy.querySelectorAll("math")) formula.replaceWith(`$${formula.getAttribute("alttext")}$`);
    copy.querySelectorAll(".row-address").forEach((part) => part.remove());
    return copy.textContent.replace(/\s+/g, " ").trim();
  };
  const escaped = (words) => words.split("$").map((part, k) => (k % 2 ? part : part.replace(/[%&#_]/g, "\\$&"))).join("$");

  const cited = (row, id) => {
    const cell = (name) => text(row.querySelector(`[data-name="${name}"]`));
    const [verdict, statement, number, bound] = ["verdict", "what was measured", "number", "bound"].map(cell);
    const says = `${statement}: ${number}` + (bound === "–" ? "" : `, bound: ${bound.replace(/ ●$/, "")}`) + `; ${verdict.replace(/^[^\w]+/, "")}`;
    const address = page && `${page}#${id}`;
    const lines = { ...fields, title: `{${escaped(says)}}`, howpublished: `${fields.title}, row ${escaped(id)}`, version: `${fields.version}, commit ${commit}`, url: address };
    const entry = Object.entries(lines).filter(([, value]) => value).map(([name, value]) => `  ${name} = {${value}},\n`);
    return {
      "Line": `${says}. ${fields.title.replace(/[{}]/g, "")}, row ${id}, commit ${commit}${address && `, ${address}`}`,
      "BibTeX": `@misc{${id.replace(/[^\w]+/g, "_")},\n${entry.join("")}}`,
    };
  };

  const fold = (row, id) => {
    const place = document.createElement("tr");
    place.className = "row-cited";
    const cell = place.insertCell();
    cell.colSpan = row.cells.length;
    for (const [name, content] of Object.entries(cited(row, id))) {
      const button = Object.assign(document.createElement("button"), { type: "button", textContent: `Copy: ${name}` });
      const shown = Object.assign(document.createElement("pre"), { textContent: content });
      button.addEventListener("click", async () => {
        try {
          await navigator.clipboard.writeText(content);
          button.textContent = `Copied: ${name}`;
        } catch { // no permission, or a page from the disk: the reader copies what is selected
          getSelection().selectAllChildren(shown);
        }
      });
      cell.append(button, shown);
    }
    row.after(place);
  };

  document.querySelector("article").addEventListener("click", (event) => {
    const link = event.target.closest("a.row-address"), row = link?.closest("tr");
    if (!row || event.ctrlKey || event.metaKey || event.shiftKey) return;
    if (row.nextElementSibling?.className === "row-cited") row.nextElementSibling.remove();
    else fold(row, link.id);
  });
})();
