// Tables and items as DataTables, which the library before this script gave to jQuery. What comes
// from the data becomes text, never markup.
const $ = window.$, at = id => document.getElementById(id);
const make = (name, text = "", values = {}) =>
  Object.assign(document.createElement(name), { textContent: text }, values);

const dark = matchMedia("(prefers-color-scheme: dark)");
const follow = () => document.documentElement.classList.toggle("dark", dark.matches);
dark.addEventListener("change", follow);
follow();

function prepare(table) {
  const rows = table.tBodies[0].rows.length, long = rows > 10;
  if (rows > 1)
    $(table).DataTable({
      autoWidth: false, order: [], paging: rows > 50, pageLength: 25, searching: long, info: long,
      layout: { topStart: null, topEnd: long ? "search" : null },
    });
}
for (const table of document.querySelectorAll("figure.table table")) {
  const fold = table.closest("details:not([open])"); // tables that nobody sees yet can wait
  if (fold) fold.addEventListener("toggle", () => prepare(table), { once: true });
  else prepare(table);
}

// Items

const sets = [...document.querySelectorAll("script.items")].map(one => JSON.parse(one.textContent));
const [ID, CATEGORY, FIELDS, OPTIONS, GOLD, UNKNOWN, STEREOTYPE] = [0, 1, 2, 3, 4, 5, 6];
const TIE = 0.1; // nats between the two likeliest options
const ALONE = { stereoset: ["stereotype", "anti-stereotype", "unrelated"],
  crows_pairs: ["stereotype", "other group"] };
// Of each change: its name, whose option is asked about, and what holds before and after.
const KINDS = {
  biased: ["other → stereotyped", STEREOTYPE, false, true, "bad"],
  unbiased: ["stereotyped → other", STEREOTYPE, true, false, "good"],
  wrong: ["right → wrong", GOLD, true, false, "bad"],
  right: ["wrong → right", GOLD, false, true, "good"],
  any: ["another answer", null],
  all: ["all items", null],
};
const state = {};
let set, dense, pruned, table, quiet;

const role = (k, place) =>
  place === STEREOTYPE ? dense.leans?.[k] ?? set.items[k][STEREOTYPE] : set.items[k][place];
function fits(k, kind) {
  const [, place, before, after] = KINDS[kind], was = dense.chosen[k], is = pruned.chosen[k];
  if (kind === "all") return true;
  if (was === null || is === null || was === is) return false;
  if (place === null) return true;
  const option = role(k, place);
  return option !== null && (was === option) === before && (is === option) === after;
}
function shares(logprobs) {
  const top = Math.max(...logprobs), parts = logprobs.map(one => Math.exp(one - top));
  return parts.map(one => one / parts.reduce((a, b) => a + b));
}
const tied = logprobs => {
  const [first, second] = logprobs.toSorted((a, b) => b - a);
  return first - second < TIE;
};
const percent = share => `${(100 * share).toFixed(1)} %`;
const said = (side, k) => side.chosen[k] === null ? "–" :
  `${set.items[k][OPTIONS][side.chosen[k]]} (${percent(shares(side.logprobs[k])[side.chosen[k]])})`;
const changeOf = k => {
  const kind = Object.keys(KINDS).find(one => fits(k, one));
  return kind === "all" ? "same answer" : KINDS[kind][0];
};
const shiftOf = k => dense.logprobs[k] && pruned.logprobs[k]
  ? Math.max(...dense.logprobs[k].map((one, j) => Math.abs(one - pruned.logprobs[k][j]))) : 0;

function options(id, pairs) {
  at(id).replaceChildren(...pairs.map(([text, value]) => make("option", text, { value })));
  at(id).value = state[id.slice(6)];
}

function card(k) {
  const item = set.items[k], head = make("h3", `${item[ID]} · ${item[CATEGORY]}`);
  const kind = Object.keys(KINDS).find(one => fits(k, one));
  head.append(make("span", changeOf(k), { className: `tag ${KINDS[kind][4] ?? ""}` }));
  const parts = [head];
  item[FIELDS].forEach((text, j) => {
    const line = make("p");
    line.append(make("b", `${set.fields[j]}: `), text);
    parts.push(line);
  });
  const grid = make("table"), row = grid.createTHead().insertRow(), body = grid.createTBody();
  for (const name of ["Option", "", "Dense", "ln p", "Pruned", "ln p", "Δ ln p"])
    row.append(make("th", name));
  item[OPTIONS].forEach((text, j) => {
    const line = body.insertRow(), names = set.task in ALONE ? [ALONE[set.task][j]] : [];
    if (item[GOLD] === j) names.push("right");
    if (item[UNKNOWN] === j) names.push("“unknown”");
    if (!(set.task in ALONE) && role(k, STEREOTYPE) === j) names.push("stereotyped");
    line.append(make("td", text), make("td", names.join(", ")));
    for (const side of [dense, pruned]) {
      const logprobs = side.logprobs[k], taken = side.chosen[k] === j;
      const tie = taken && tied(logprobs) ? " near tie" : "";
      line.append(make("td", logprobs ? percent(shares(logprobs)[j]) + (taken ? ` ✓${tie}` : "") : "–",
        { className: taken ? "chosen" : "" }), make("td", logprobs ? logprobs[j].toFixed(3) : "–"));
    }
    line.append(make("td", dense.logprobs[k] && pruned.logprobs[k]
      ? (pruned.logprobs[k][j] - dense.logprobs[k][j]).toFixed(3) : "–"));
  });
  const scroll = make("div", "", { className: "scroll" });
  scroll.append(grid);
  parts.push(scroll, make("p", "✓ the model's answer. %: share among the options. Near tie: the " +
    `two likeliest options are less than ${TIE} nats apart.`, { className: "notes" }));
  at("item").replaceChildren(...parts);
}

const order = () => table.rows({ order: "applied", search: "applied" }).indexes().toArray();
function pick(index) {
  const k = index === undefined ? undefined : table.row(index).data().k;
  table.rows(".picked").nodes().to$().removeClass("picked");
  if (k === undefined) {
    state.item = "";
    at("item").replaceChildren(make("p", "No item fits."));
    return remember();
  }
  const page = Math.floor(order().indexOf(index) / table.page.len());
  if (page !== table.page()) table.page(page).draw("page");
  table.row(index).node().classList.add("picked");
  state.item = set.items[k][ID];
  card(k);
  remember();
}
function remember() {
  if (quiet) return;
  history.replaceState(null, "", `#${new URLSearchParams({ ...state, q: table.search() })}`);
}

function show() {
  set = sets.find(one => one.key === state.set) ?? sets[0];
  state.set = set.key;
  const others = set.answers.filter(one => !one.dense);
  pruned = others.find(one => one.point === state.point) ??
    others.find(one => one.point === set.harshest) ?? others[0] ?? set.answers[0];
  state.point = pruned.point;
  dense = set.answers.find(one => one.dense && one.model === pruned.model) ?? pruned;
  const all = set.items.map((_, k) => k);
  const categories = [...new Set(set.items.map(item => item[CATEGORY]))].sort();
  if (!categories.includes(state.category)) state.category = "";
  const here = k => !state.category || set.items[k][CATEGORY] === state.category;
  const counts = Object.keys(KINDS).map(kind => [kind, all.filter(k => here(k) && fits(k, kind)).length]);
  const known = counts.filter(([kind, count]) => count || kind === "all" || kind === state.kind);
  if (!(state.kind in KINDS)) state.kind = known[0][0];
  const found = all.filter(k => fits(k, state.kind));
  options("items-set", sets.map(one => [one.label, one.key]));
  options("items-point", (others.length ? others : set.answers).map(one => [one.label, one.point]));
  options("items-kind", known.map(([kind, count]) => [`${KINDS[kind][0]} (${count})`, kind]));
  options("items-category", [[`all (${found.length})`, ""], ...categories.map(name =>
    [`${name} (${found.filter(k => set.items[k][CATEGORY] === name).length})`, name])]);
  at("items-note").textContent = set.note;
  table.clear().rows.add(found.filter(here).map(k => ({
    k, id: set.items[k][ID], category: set.items[k][CATEGORY],
    text: (set.fields.length ? set.items[k][FIELDS] : set.items[k][OPTIONS]).join(" / "),
    dense: said(dense, k), pruned: said(pruned, k), change: changeOf(k), shift: shiftOf(k).toFixed(3),
  }))).draw();
  const wanted = order().find(index => table.row(index).data().id === state.item);
  pick(wanted ?? order()[0]);
}

function restore() {
  const given = new URLSearchParams(location.hash.slice(1));
  if (!given.has("set") && table.data().length) return;
  for (const name of ["set", "point", "kind", "category", "item"])
    state[name] = given.get(name) ?? undefined;
  quiet = true;
  table.search(given.get("q") ?? "");
  show();
  quiet = false;
}

if (sets.length) {
  const text = $.fn.dataTable.render.text();
  const columns = { id: "Item", category: "Category", text: "Text", dense: "Dense answer",
    pruned: "Pruned answer", change: "Change", shift: "Largest Δ ln p" };
  table = $("#items-table").DataTable({
    autoWidth: false, deferRender: true, pageLength: 10, order: [[6, "desc"]],
    columns: Object.entries(columns).map(([data, title]) => ({
      data, title, render: text, className: data === "shift" ? "" : "label" })),
    layout: { topStart: { buttons: [{ extend: "csv", text: "Download CSV", title: null,
      filename: "items", escapeExcelFormula: true,
      exportOptions: { orthogonal: "export", stripHtml: false, decodeEntities: false } }] } },
  });
  for (const name of ["set", "point", "kind", "category"])
    at(`items-${name}`).addEventListener("change", event => {
      state[name] = event.target.value;
      if (name === "set") state.kind = state.category = undefined;
      show();
    });
  $("#items-table").on("click", "tbody tr", event => {
    const index = table.row(event.currentTarget).index();
    if (index !== undefined) pick(index);
  });
  $("#items").on("input", ".dt-search input", () => pick(order()[0]));
  document.addEventListener("keydown", event => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step || event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.target.closest("input, select, .scroll, summary, button")) return;
    const rows = order(), now = rows.findIndex(index => table.row(index).data().id === state.item);
    const next = rows[now + step];
    if (next !== undefined) pick(next);
  });
  restore();
  addEventListener("hashchange", restore);
}

// A cell of a table says which command explains it, and leads to its items.

document.addEventListener("click", event => {
  const cell = event.target.closest("td[data-cell]"), line = at("command");
  line.classList.toggle("shown", Boolean(cell) || Boolean(event.target.closest("#command")));
  if (!cell) return;
  line.replaceChildren(make("span", cell.title));
  const [name] = cell.dataset.cell.split("/"), start = `${cell.parentNode.dataset.point}/`;
  const fit = sets.find(one => one.benchmark === name &&
    one.answers.some(each => each.point.startsWith(start)));
  if (!fit) return;
  const point = fit.answers.find(each => each.point.startsWith(start)).point;
  const link = make("button", "its items", { type: "button" });
  link.addEventListener("click", () => {
    Object.assign(state, { set: fit.key, point, kind: undefined, category: undefined });
    show();
    at("items").scrollIntoView();
  });
  line.append(link);
});
