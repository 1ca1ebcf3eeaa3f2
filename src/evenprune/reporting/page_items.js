// Items: dense and pruned answers side by side. Texts and answers are unpacked when they are asked
// for; whatever comes from the data becomes text, never markup.
(() => {
  "use strict";
  const PAGE = 20; // items a page
  const NATS = 1000; // log-probabilities are in thousandths of a nat
  const index = JSON.parse(document.getElementById("items-index").textContent);
  const at = name => document.getElementById(`items-${name}`);
  const make = (name, text = "", values = {}) =>
    Object.assign(document.createElement(name), { textContent: text }, values);

  const unpacked = new Map();
  function unpack(number) {
    if (!unpacked.has(number)) {
      const text = at(`block-${number}`).textContent;
      const letters = atob(text), bytes = new Uint8Array(letters.length);
      for (let k = 0; k < letters.length; k++) bytes[k] = letters.charCodeAt(k);
      const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
      unpacked.set(number, new Response(stream).json());
    }
    return unpacked.get(number);
  }

  // What is shown; of `first` and `second` the numbers of answers within the set.
  const state = { set: 0, model: "", first: 0, second: 0, page: 0 };
  const set = () => index.sets[state.set];
  const chosen = name => set().answers[state[name]];

  function options(select, pairs, value) {
    select.replaceChildren(...pairs.map(([text, key]) => make("option", text, { value: key })));
    select.value = String(value);
  }

  // Of each kind of change: what the first and the second answer must be.
  const right = (texts, k, answer) => texts.gold[k] < 0 ? null : answer === texts.gold[k];
  const biased = (texts, k, answer) =>
    texts.stereotyped[k] === 0 ? null : Boolean((texts.stereotyped[k] >> answer) & 1);
  const KINDS = {
    any: ["another answer", null, ""],
    wrong: ["right → wrong", right, "worse", true],
    right: ["wrong → right", right, "better", false],
    biased: ["unbiased → stereotyped", biased, "worse", false],
    unbiased: ["stereotyped → unbiased", biased, "better", true],
  };
  function changedAs(kind, data, k) {
    const [one, two] = [data.first.chosen[k], data.second.chosen[k]];
    if (one < 0 || two < 0 || one === two) return false;
    const [, judge, , before] = KINDS[kind];
    if (!judge) return true;
    const [was, is] = [judge(data.texts, k, one), judge(data.texts, k, two)];
    return was === before && is === !before;
  }

  // The largest difference of an option's log-probability, for the order.
  function shift(data, k) {
    const width = data.width;
    let most = 0;
    for (let j = k * width; j < (k + 1) * width; j++)
      most = Math.max(most, Math.abs(data.second.logprobs[j] - data.first.logprobs[j]));
    return most;
  }

  function haystack(texts) {
    texts.lower ??= texts.ids.map((id, k) =>
      [id, ...texts.fields[k], ...texts.options[k]].join("\n").toLowerCase());
    return texts.lower;
  }

  function selected(data) {
    const category = at("category").value, kind = at("change").value;
    const wanted = at("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    const lower = wanted.length ? haystack(data.texts) : [];
    const found = [];
    for (let k = 0; k < data.texts.ids.length; k++) {
      if (category !== "" && data.texts.categories[k] !== Number(category)) continue;
      if (kind !== "" && !changedAs(kind, data, k)) continue;
      if (wanted.length && !wanted.every(word => lower[k].includes(word))) continue;
      found.push(k);
    }
    if (at("order").value === "shift") {
      const sizes = new Map(found.map(k => [k, shift(data, k)]));
      found.sort((a, b) => sizes.get(b) - sizes.get(a) || a - b);
    }
    return found;
  }

  function roles(data, k, option) {
    const { task } = set(), { texts } = data, names = [];
    if (texts.gold[k] === option) names.push("right");
    if (texts.unknown[k] === option) names.push("“unknown”");
    if (task === "stereoset" || task === "crows_pairs")
      names.push(["stereotype", task === "stereoset" ? "anti-stereotype" : "other group",
        "unrelated"][option]);
    if (task === "multiple_choice" && (texts.stereotyped[k] >> option) & 1) names.push("stereotype");
    if (task === "bbq" && (texts.stereotyped[k] >> option) & 1) names.push("in line with the bias");
    return names.join(", ");
  }

  const nats = value => (value / NATS).toFixed(3).replace("-", "−");
  const signed = value => (value > 0 ? "+" : "") + nats(value);

  function answersTable(data, k) {
    const table = make("table"), head = table.createTHead().insertRow(), body = table.createTBody();
    for (const name of ["Option", "", `ln p, ${chosen("first").label}`,
      `ln p, ${chosen("second").label}`, "difference"])
      head.append(make("th", name, { scope: "col" }));
    data.texts.options[k].forEach((text, option) => {
      const row = body.insertRow(), place = k * data.width + option;
      row.append(make("td", text), make("td", roles(data, k, option)));
      for (const side of [data.first, data.second]) {
        const none = side.chosen[k] < 0, taken = side.chosen[k] === option;
        const cell = make("td", none ? "–" : nats(side.logprobs[place]) + (taken ? " ✓" : ""));
        if (taken) Object.assign(cell, { className: "chosen", title: "the model's answer" });
        row.append(cell);
      }
      const both = data.first.chosen[k] >= 0 && data.second.chosen[k] >= 0;
      row.append(make("td", both
        ? signed(data.second.logprobs[place] - data.first.logprobs[place]) : "–"));
    });
    const scroll = make("div", "", { className: "scroll" });
    scroll.append(table);
    return scroll;
  }

  function prompt(data, k) {
    const { prompt: pattern, candidates, chat } = set();
    const texts = [...data.texts.fields[k], ...data.texts.options[k]];
    const whole = make("details");
    whole.append(make("summary", "Prompt as sent"));
    if (!pattern) {
      whole.append(make("p", "No prompt: each sentence is scored by itself, behind the start token."));
      return whole;
    }
    whole.append(make("pre", pattern.map(part => Number.isInteger(part) ? texts[part] : part).join("")));
    const options = data.texts.options[k];
    const behind = candidates?.slice(0, options.length) ?? options.map(text => ` ${text}`);
    const said = behind.map(text => `“${text}”`).join(", ");
    whole.append(make("p", `Scored behind it: ${said}.` +
      (chat ? " Sent as a user's turn of the model's chat template." : "")));
    return whole;
  }

  function item(data, k) {
    const entry = make("li"), head = make("h3", data.texts.ids[k] + " ");
    head.append(make("small", set().categories[data.texts.categories[k]]));
    for (const [kind, [text, judge, look]] of Object.entries(KINDS))
      if (judge && changedAs(kind, data, k))
        head.append(make("span", text, { className: `tag ${look}` }));
    entry.append(head);
    data.texts.fields[k].forEach((text, place) => {
      const line = make("p");
      line.append(make("b", `${set().fields[place]}: `), text);
      entry.append(line);
    });
    entry.append(answersTable(data, k), prompt(data, k));
    return entry;
  }

  let latest = 0;
  async function show() {
    const mine = ++latest, { texts: block } = set();
    const [texts, first, second] = await Promise.all(
      [block, chosen("first").block, chosen("second").block].map(unpack));
    if (mine !== latest) return; // something else was asked for meanwhile
    const width = texts.ids.length ? first.logprobs.length / texts.ids.length : 0;
    const data = { texts, first, second, width };
    const found = selected(data), pages = Math.max(1, Math.ceil(found.length / PAGE));
    state.page = Math.min(state.page, pages - 1);
    const start = state.page * PAGE;
    at("list").replaceChildren(...found.slice(start, start + PAGE).map(k => item(data, k)));
    at("count").textContent = found.length
      ? `${found.length.toLocaleString("en")} of ${texts.ids.length.toLocaleString("en")} items; ` +
        `${start + 1} to ${Math.min(start + PAGE, found.length)} are shown`
      : "no item fits: widen the filter or the search";
    Object.assign(at("page"), { value: state.page + 1, max: pages });
    at("pages").textContent = `of ${pages.toLocaleString("en")}`;
    at("previous").disabled = state.page === 0;
    at("next").disabled = state.page === pages - 1;
    at("list").dataset.shown = mine;
  }
  const failed = error => {
    at("count").textContent = typeof DecompressionStream === "undefined"
      ? "this browser is too old to unpack the items: it needs DecompressionStream"
      : `the items could not be unpacked: ${error.message}`;
  };
  const again = () => show().catch(failed);

  function chooseAnswers(first, second) {
    const mine = set().answers.flatMap((one, k) => one.model === state.model ? [[one, k]] : []);
    const dense = mine.find(([one]) => one.dense) ?? mine[0];
    const other = mine.find(([one]) => one.preferred) ?? mine.find(([one]) => !one.dense) ?? dense;
    state.first = first ?? dense[1];
    state.second = second ?? other[1];
    const names = mine.map(([one, k]) => [one.label, k]);
    options(at("first"), names, state.first);
    options(at("second"), names, state.second);
  }

  function chooseSet(number, model) {
    state.set = number;
    state.page = 0;
    const models = [...new Map(set().answers.map(one => [one.model, one.model_label]))];
    state.model = models.some(([name]) => name === model) ? model : models[0][0];
    at("set").value = String(number);
    options(at("model"), models.map(([name, label]) => [label, name]), state.model);
    options(at("category"),
      [["all", ""], ...set().categories.map((name, k) => [name, k])], "");
    const kinds = Object.entries(KINDS).filter(([kind]) => kind === "any" || set().kinds.includes(kind));
    const before = at("change").value;
    options(at("change"), [["all", ""], ...kinds.map(([kind, [text]]) => [text, kind])], "");
    at("change").value = kinds.some(([kind]) => kind === before) ? before : "";
    at("note").textContent = set().note;
    chooseAnswers();
  }

  options(at("set"), index.sets.map((one, k) => [one.label, k]), 0);
  const most = Math.max(...index.sets.map(one => one.kinds.length));
  const start = index.sets.findIndex(one => one.kinds.length === most);
  chooseSet(start, index.sets[start].answers.find(one => one.preferred)?.model);
  at("set").addEventListener("change", event => {
    chooseSet(Number(event.target.value), state.model);
    again();
  });
  at("model").addEventListener("change", event => {
    state.model = event.target.value;
    chooseAnswers();
    again();
  });
  for (const name of ["first", "second"])
    at(name).addEventListener("change", event => {
      state[name] = Number(event.target.value);
      again();
    });
  for (const name of ["category", "change", "order"])
    at(name).addEventListener("change", () => {
      state.page = 0;
      again();
    });
  let waiting;
  at("search").addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      state.page = 0;
      again();
    }, 150);
  });
  at("tools").addEventListener("submit", event => event.preventDefault());
  const turn = page => {
    state.page = Math.max(0, page);
    again();
  };
  at("previous").addEventListener("click", () => turn(state.page - 1));
  at("next").addEventListener("click", () => turn(state.page + 1));
  at("page").addEventListener("change", event => turn((Number(event.target.value) || 1) - 1));

  // A cell of a table leads to its items.
  document.addEventListener("explained", ({ detail }) => {
    const benchmark = detail.source.split("/")[0];
    const fits = one => one.point === detail.point;
    const number = index.sets.findIndex(
      one => one.benchmark === benchmark && one.answers.some(fits));
    if (number < 0) return;
    detail.add("its items", () => {
      const place = index.sets[number].answers.findIndex(fits);
      chooseSet(number, index.sets[number].answers[place].model);
      chooseAnswers(undefined, place);
      again();
      document.getElementById("items").scrollIntoView();
    });
  });

  // Nothing is unpacked before the items come into view.
  new IntersectionObserver((entries, observer) => {
    if (!entries.some(entry => entry.isIntersecting)) return;
    observer.disconnect();
    if (!latest) again();
  }, { rootMargin: "300px" }).observe(document.getElementById("items"));
})();
