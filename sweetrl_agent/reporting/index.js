// ---- the table of runs ----

class Runs {
  constructor(table) {
    this.body = table.tBodies[0];
    this.rows = [...this.body.rows];
    table.querySelectorAll("thead button").forEach((button, column) => button.addEventListener("click", () => this.sort(button, column)));
    document.getElementById("search").addEventListener("input", (event) => this.filter(event.target.value));
  }

  // By the number that a cell begins with, or else by its text; missing values come last.
  sort(button, column) {
    const head = button.parentElement, isUp = head.getAttribute("aria-sort") !== "ascending";
    for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", isUp ? "ascending" : "descending");
    const text = (row) => row.cells[column].textContent.trim();
    const isNumber = column > 4; // the splits
    const value = (row) => isNumber ? parseFloat(text(row).replace("\u2212", "-")) : text(row).toLowerCase();
    const lacks = (row) => isNumber ? Number.isNaN(value(row)) : text(row) === "\u2014";
    this.rows.sort((one, other) => {
      if (lacks(one) || lacks(other)) return lacks(one) - lacks(other);
      const order = value(one) < value(other) ? -1 : value(one) > value(other) ? 1 : 0;
      return isUp ? order : -order;
    });
    this.body.replaceChildren(...this.rows);
  }

  filter(text) {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of this.rows) row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
  }
}

document.querySelectorAll("table.runs").forEach((table) => new Runs(table));
