// Tables: a click on a head sorts, words filter rows, boxes show intervals and printed values; a
// cell shows the command that explains it.
(() => {
  "use strict";
  const FEWEST = 4; // rows from which on a table has a filter

  const make = (name, text, values = {}) =>
    Object.assign(document.createElement(name), { textContent: text }, values);

  // What a cell sorts by: its own text, without what stands small beneath it.
  const words = cell => cell.dataset.full ?? cell.firstChild?.nodeValue ?? "";
  const number = text => {
    const found = text.replace("−", "-").replaceAll(",", "").match(/[+-]?\d+(\.\d+)?/);
    return found ? Number(found[0]) : null;
  };

  // Empty cells come last, whichever way; texts are compared as texts.
  function compare(a, b, numeric, sign) {
    const [x, y] = numeric ? [number(a), number(b)] : [a || null, b || null];
    if (x === null || y === null) return (x === null) - (y === null);
    return sign * (numeric ? x - y : x.localeCompare(y, undefined, { numeric: true }));
  }

  function prepare(figure) {
    const table = figure.querySelector("table"), body = table.tBodies[0];
    const original = [...body.rows];
    const groups = []; // rows that stay together: one, and what is said of it beneath
    for (const row of original) {
      if (row.classList.contains("heading")) continue;
      if ("follows" in row.dataset && groups.length) groups.at(-1).push(row);
      else groups.push([row]);
    }
    for (const cell of body.querySelectorAll("td[data-full]")) cell.dataset.short = cell.textContent;
    const heads = [...table.tHead.rows].at(-1).cells;
    let asked = "";

    function show(sorted) {
      const mine = asked.toLowerCase().split(/\s+/).filter(Boolean);
      let count = 0;
      for (const group of groups) {
        const text = group.map(row => [...row.cells].map(words).join(" ")).join(" ").toLowerCase();
        const good = mine.every(word => text.includes(word));
        count += good;
        for (const row of group) row.hidden = !good;
      }
      table.classList.toggle("sorted", Boolean(sorted));
      for (const cell of body.querySelectorAll("td[data-full]"))
        cell.textContent = sorted || mine.length ? cell.dataset.full : cell.dataset.short;
      for (const row of original) if (row.classList.contains("heading")) row.hidden = mine.length > 0;
      return count;
    }

    let order = null;
    function sort(head) {
      const place = [...heads].indexOf(head);
      const next = { none: "ascending", ascending: "descending", descending: "none" };
      const way = next[head.getAttribute("aria-sort") ?? "none"];
      for (const other of heads) other.setAttribute("aria-sort", "none");
      head.setAttribute("aria-sort", way);
      if (way === "none") {
        order = null;
        body.replaceChildren(...original);
      } else {
        const key = group => words(group[0].cells[place]);
        const numeric = groups.every(group => !/^[^\d]*[a-z]{2}/i.test(key(group)));
        order = groups.toSorted((a, b) =>
          compare(key(a), key(b), numeric, way === "ascending" ? 1 : -1));
        body.replaceChildren(...order.flat());
      }
      show(order);
    }

    if (groups.length > 1)
      for (const head of heads) {
        const button = make("button", "", { type: "button", title: "sort" });
        button.append(...head.childNodes);
        head.append(button);
        head.setAttribute("aria-sort", "none");
        button.addEventListener("click", () => sort(head));
      }

    const tools = make("div", "", { className: "tools" });
    if (groups.length >= FEWEST) {
      const label = make("label", "Filter rows ");
      const field = make("input", "", { type: "search" });
      const said = make("output", "");
      label.append(field);
      field.addEventListener("input", () => {
        asked = field.value;
        const count = show(order);
        said.textContent = asked ? `${count} of ${groups.length} rows` : "";
      });
      tools.append(label, said);
    }
    for (const [kind, name, text] of
      [["interval", "intervals", "95 % intervals"], ["printed", "prints", "printed values"]]) {
      if (!body.querySelector(`small.${kind}`)) continue;
      const label = make("label", ""), box = make("input", "", { type: "checkbox" });
      label.append(box, ` ${text}`);
      box.addEventListener("change", () => figure.classList.toggle(name, box.checked));
      tools.append(label);
    }
    if (tools.childNodes.length) figure.querySelector(".scroll").before(tools);

    // One stop of the Tab key a table; arrows lead from cell to cell.
    const first = body.querySelector("td[data-cell]");
    if (first) first.tabIndex = 0;
    body.addEventListener("keydown", event => {
      const cell = event.target.closest("td[data-cell]");
      if (!cell) return;
      if (event.key === "Enter") return explain(cell);
      const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
      if (!(event.key in steps)) return;
      event.preventDefault();
      const [down, right] = steps[event.key], rows = [...body.rows];
      let at = rows.indexOf(cell.parentNode), place = cell.cellIndex, next;
      do {
        at += down;
        place += right;
        next = rows[at]?.cells[place];
      } while (next && (!("cell" in next.dataset) || next.parentNode.hidden));
      if (!next) return;
      cell.tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
    });
  }

  const command = document.getElementById("command");
  function explain(cell) {
    command.replaceChildren(make("span", cell.title));
    const detail = { point: cell.parentNode.dataset.point, source: cell.dataset.cell, add: null };
    // Whoever knows more of a cell adds a button.
    detail.add = (text, action) => {
      const button = make("button", text, { type: "button" });
      button.addEventListener("click", action);
      command.append(button);
    };
    document.dispatchEvent(new CustomEvent("explained", { detail }));
    command.classList.add("shown");
  }
  document.addEventListener("click", event => {
    const cell = event.target.closest("td[data-cell]");
    if (cell) explain(cell);
    else if (!event.target.closest("#command")) command.classList.remove("shown");
  });
  document.addEventListener("keydown", event => {
    if (event.key === "Escape") command.classList.remove("shown");
  });
  document.querySelectorAll("figure.table").forEach(prepare);
})();
