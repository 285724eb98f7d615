"use strict";
// What all pages share: a hint where a box scrolls, and tables as CSV files.
const csv = {
  cell: (value) => {
    const text = String(value ?? "");
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  },
  text: (lines) => lines.map((cells) => `${cells.map(csv.cell).join(",")}\n`).join(""),
  save: (name, lines) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([csv.text(lines)], { type: "text/csv" }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  },
};
(() => {
  for (const box of document.querySelectorAll(".scroll")) {
    const hint = document.createElement("p");
    hint.className = "hint muted";
    hint.textContent = "Wider than the screen: scroll sideways, or with the arrow keys.";
    hint.hidden = true;
    box.before(hint);
    new ResizeObserver(() => { hint.hidden = box.scrollWidth <= box.clientWidth + 1; }).observe(box);
  }
  const cells = (line) => [...line.cells].map((cell) => cell.dataset.value ?? cell.textContent.trim());
  for (const part of document.querySelectorAll("[data-csv]")) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = `Download ${part.dataset.csv}`;
    button.addEventListener("click", () => {
      const tables = [...part.querySelectorAll("table")];
      const lines = tables.flatMap((table) => [...table.tBodies].flatMap((body) => [...body.rows]));
      csv.save(part.dataset.csv, [tables[0].tHead.rows[0], ...lines].map(cells));
    });
    part.append(button);
  }
})();
