// Numbers as plr.report.numbers writes them.
const signed = (value, text) => (value < 0 ? `−${text}` : text);
const digits = (most) => {
  const plain = new Intl.NumberFormat("en", { maximumSignificantDigits: most });
  const power = (size) => size.toExponential(most - 1).replace(/\.?0*e/, "e").replace(/([+-])(\d)$/, (_, sign, digit) => `${sign}0${digit}`);
  return (value) => {
    const size = Math.abs(value);
    return signed(value, size !== 0 && (size < 1e-4 || size >= 1e12) ? power(size) : plain.format(size));
  };
};
const exact = digits(9), four = digits(4);
// Names may go on in a new line behind their punctuation, as in plr.report.pages.
const breakable = (text) => text.split(/(?<=[^\p{L}\p{N}\s])(?=\p{L})/u)
  .flatMap((part, place) => (place ? [document.createElement("wbr"), part] : [part]));
const percent = (share) => `${Math.round(100 * share)}%`;
(() => {
  const source = document.getElementById("rows-data");
  if (!source) return;
  const data = JSON.parse(source.textContent);
  const count = data.number.length;
  const table = document.getElementById("rows-table");
  const body = table.tBodies[0];
  const search = document.getElementById("rows-search");
  const state = document.getElementById("rows-state");
  const said = document.getElementById("rows-count");
  const shownPage = document.getElementById("rows-page");
  const previous = document.getElementById("rows-previous");
  const next = document.getElementById("rows-next");
  const kinds = ["settled", "likely", "doubtful"];

  const begin = new Int32Array(count + 1);
  const best = new Int32Array(count);
  const top = new Float64Array(count);
  const kind = data.state;
  for (let row = 0; row < count; row++) {
    begin[row + 1] = begin[row] + data.sizes[row];
    best[row] = begin[row];
    for (let at = begin[row]; at < begin[row + 1]; at++) if (data.shares[at] > data.shares[best[row]]) best[row] = at;
    top[row] = data.shares[best[row]];
  }
  const texts = new Array(count);
  const textOf = (row) => {
    if (texts[row] === undefined) {
      const parts = [data.number[row], ...data.columns.map((column) => column.cells[row])];
      for (let at = begin[row]; at < begin[row + 1]; at++) parts.push(data.values[at], exact(data.values[at]));
      texts[row] = parts.join(" ").toLowerCase();
    }
    return texts[row];
  };

  const fixed = data.decimals === null ? null : new Intl.NumberFormat("en", {
    minimumFractionDigits: data.decimals, maximumFractionDigits: data.decimals,
  });
  const shown = (value) => {
    if (fixed === null) return four(value);
    const text = fixed.format(Math.abs(value));
    return /[1-9]/.test(text) ? signed(value, text) : text;
  };

  const make = (name, content, className) => {
    const made = document.createElement(name);
    if (content !== undefined) made.textContent = content;
    if (className) made.className = className;
    return made;
  };
  const draw = (name, attributes, title) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (title) {
      const words = document.createElementNS("http://www.w3.org/2000/svg", "title");
      words.textContent = title;
      made.append(words);
    }
    return made;
  };
  const across = (value) => {
    const share = (value - data.ends[0]) / (data.ends[1] - data.ends[0] || 1);
    return (6 + 188 * Math.min(Math.max(share, 0), 1)).toFixed(1);
  };
  const strip = (row) => {
    const spoken = [];
    for (let at = begin[row]; at < Math.min(begin[row + 1], begin[row] + 8); at++) {
      spoken.push(`${exact(data.values[at])} ${percent(data.shares[at])}`);
    }
    const label = `Candidates: ${spoken.join(", ")}`;
    const made = draw("svg", { viewBox: "0 0 200 28", role: "img", "aria-label": label, class: "strip" });
    const middle = data.prediction[row];
    const pieces = data.pieces[row] ?? (data.lower ? [data.lower[row], data.upper[row]] : []);
    for (let at = 0; at < pieces.length; at += 2) {
      const left = across(pieces[at]), right = across(pieces[at + 1]);
      made.append(draw("rect", { x: left, y: 9, width: (right - left).toFixed(1), height: 10, class: "band" }));
    }
    made.append(draw("path", { d: "M6 14H194", class: "axis" }));
    made.append(draw("path", { d: `M${across(middle)} 4v20`, class: "prediction" }));
    const order = [];
    for (let at = begin[row]; at < begin[row + 1]; at++) if (at !== best[row]) order.push(at);
    for (const at of [...order, best[row]]) {
      const radius = (2.2 + 5 * Math.sqrt(data.shares[at])).toFixed(1);
      const title = `${exact(data.values[at])}: ${percent(data.shares[at])}`;
      const place = { cx: across(data.values[at]), cy: 14, r: radius, class: at === best[row] ? "chosen" : "other" };
      made.append(draw("circle", place, title));
    }
    return made;
  };
  const ordered = (row) => {
    const places = Array.from({ length: data.sizes[row] }, (_, place) => begin[row] + place);
    return places.sort((a, b) => data.shares[b] - data.shares[a] || a - b);
  };
  const listed = (texts) => texts.flatMap((text, place) => (
    place + 1 < texts.length ? [make("span", `${text},`, "whole"), " "] : [make("span", text, "whole")]
  ));
  const written = (row) => {
    const texts = ordered(row).map((at) => `${exact(data.values[at])} (${percent(data.shares[at])})`);
    const first = make("p", undefined, "values"), others = texts.slice(data.first_values);
    first.append(...listed(texts.slice(0, data.first_values)));
    if (!others.length) return [first];
    const more = make("details", undefined, "values");
    more.append(make("summary", `${others.length} more`), ...listed(others));
    return [first, more];
  };
  const line = (row) => {
    const made = make("tr");
    const number = make("th", String(data.number[row]));
    number.scope = "row";
    const context = data.columns.map((column, place) => {
      const cell = make("td", undefined, place < data.first_columns ? "text" : "text more");
      cell.append(...breakable(column.cells[row]));
      return cell;
    });
    made.append(number, ...context.slice(0, data.naming));
    const drawn = make("td", undefined, "drawn");
    drawn.append(strip(row), ...written(row));
    const chosen = make("td", exact(data.values[best[row]]));
    if (data.slots) chosen.append(make("small", ` ${data.slots.names[data.slots.of[best[row]]] ?? ""}`));
    const share = make("td", `${percent(top[row])} `);
    share.append(make("small", data.words[kind[row]], kinds[kind[row]]));
    const predicted = make("td", shown(data.prediction[row]));
    if (data.lower) predicted.append(make("small", ` ${shown(data.lower[row])} to ${shown(data.upper[row])}`));
    made.append(drawn, chosen, share, predicted);
    if (data.truth) made.append(make("td", data.truth[row] === null ? "" : exact(data.truth[row])));
    made.append(...context.slice(data.naming));
    return made;
  };

  const compareTexts = new Intl.Collator("en", { numeric: true }).compare;
  const keys = {
    number: (row) => data.number[row],
    value: (row) => data.values[best[row]],
    share: (row) => (data.several[row] ? top[row] : 2),
    prediction: (row) => data.prediction[row],
    truth: (row) => data.truth[row] ?? Infinity,
  };
  data.columns.forEach((column, place) => { keys[`c${place}`] = (row) => column.cells[row]; });

  let sort = "share", falling = false, page = 0, found = [];
  const choose = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    found = [];
    for (let row = 0; row < count; row++) {
      if (state.value !== "" && (kind[row] !== Number(state.value) || !data.several[row])) continue;
      if (words.every((word) => textOf(row).includes(word))) found.push(row);
    }
    const key = keys[sort];
    const compare = (a, b) => {
      const one = key(a), other = key(b);
      const order = typeof one === "string" ? compareTexts(one, other) : one === other ? 0 : one < other ? -1 : 1;
      return (falling ? -order : order) || a - b;
    };
    found.sort(compare);
    page = 0;
    show();
  };
  const show = () => {
    const pages = Math.max(Math.ceil(found.length / data.page), 1);
    const first = page * data.page;
    const visible = found.slice(first, first + data.page);
    body.replaceChildren(...visible.map(line));
    const many = (number) => number.toLocaleString("en");
    said.textContent = found.length
      ? `Rows ${many(first + 1)} to ${many(first + visible.length)} of ${many(found.length)}` +
        (found.length < count ? ` found, ${many(count)} in all.` : ".")
      : "No row matches.";
    shownPage.textContent = `Page ${page + 1} of ${pages}`;
    previous.disabled = page === 0;
    next.disabled = page + 1 >= pages;
    for (const button of table.tHead.querySelectorAll("button")) {
      const here = button.dataset.sort === sort;
      button.closest("th").setAttribute("aria-sort", !here ? "none" : falling ? "descending" : "ascending");
    }
  };

  for (const button of table.tHead.querySelectorAll("button")) {
    button.addEventListener("click", () => {
      falling = button.dataset.sort === sort ? !falling : false;
      sort = button.dataset.sort;
      choose();
    });
  }
  const more = document.getElementById("rows-more");
  more?.addEventListener("change", () => table.classList.toggle("all", more.checked));
  const own = ["row", "candidates", "probabilities", "value", "probability", "state", "prediction", "lower", "upper", "truth"];
  document.getElementById("rows-download").addEventListener("click", () => {
    const columns = data.columns.filter((column) => !own.includes(column.name));
    const heads = own.filter((name) => (name !== "lower" && name !== "upper") || data.lower)
      .filter((name) => name !== "truth" || data.truth);
    const cells = (row) => {
      const places = Array.from({ length: data.sizes[row] }, (_, place) => begin[row] + place);
      const values = {
        row: data.number[row],
        candidates: places.map((at) => data.values[at]).join("|"),
        probabilities: places.map((at) => data.shares[at]).join("|"),
        value: data.values[best[row]],
        probability: top[row],
        state: data.words[kind[row]],
        prediction: data.prediction[row],
        lower: data.lower?.[row],
        upper: data.upper?.[row],
        truth: data.truth?.[row],
      };
      return [...columns.map((column) => column.cells[row]), ...heads.map((name) => values[name])];
    };
    csv.save("rows.csv", [[...columns.map((column) => column.name), ...heads], ...found.map(cells)]);
  });
  let waiting = 0;
  search.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(choose, 120); });
  search.form.addEventListener("submit", (event) => { event.preventDefault(); choose(); });
  state.addEventListener("change", choose);
  previous.addEventListener("click", () => { page -= 1; show(); });
  next.addEventListener("click", () => { page += 1; show(); });
  document.documentElement.classList.add("scripted");
  for (const part of document.querySelectorAll(".controls, .pager")) part.hidden = false;
  choose();
})();
(() => {
  const source = document.getElementById("review-data");
  if (!source) return;
  const data = JSON.parse(source.textContent);
  const count = data.row.length;
  const part = (name) => document.getElementById(`review-${name}`);
  const make = (name, content, className) => {
    const made = document.createElement(name);
    made.textContent = content;
    if (className) made.className = className;
    return made;
  };

  // An answer is the place of a candidate, or one of these; what a browser kept may be anything.
  const none = "none", unsure = "unsure", store = `plr-review-${data.key}`;
  const isAnswer = (row, answer) => answer === none || answer === unsure ||
    (Number.isInteger(answer) && answer >= 0 && answer < data.candidates[row].length);
  const answers = new Map();
  try {
    for (const [row, answer] of JSON.parse(localStorage.getItem(store)) ?? []) {
      if (Number.isInteger(row) && row >= 0 && row < count && isAnswer(row, answer)) answers.set(row, answer);
    }
  } catch { /* The browser keeps nothing. */ }
  const keep = () => {
    try { localStorage.setItem(store, JSON.stringify([...answers])); } catch { /* The browser keeps nothing. */ }
  };

  let at = 0;
  const show = () => {
    part("title").textContent = `Row ${data.row[at]} (${at + 1} of ${count})`;
    part("count").textContent = `${answers.size} of ${count} answered.`;
    const about = Object.entries(data.columns).map(([name, cells]) => {
      const made = make("div", ""), term = make("dt", ""), cell = make("dd", "");
      term.append(...breakable(name));
      cell.append(...breakable(cells[at]));
      made.append(term, cell);
      return made;
    });
    part("about").replaceChildren(...about.slice(0, data.first_columns));
    part("others")?.replaceChildren(...about.slice(data.first_columns));
    part("choices").replaceChildren(...data.candidates[at].map((candidate, place) => {
      const button = make("button", "");
      button.type = "button";
      button.setAttribute("aria-pressed", String(answers.get(at) === place));
      if (place < 9) {
        button.setAttribute("aria-keyshortcuts", String(place + 1));
        button.append(make("small", String(place + 1)));
      }
      button.append(make("span", exact(candidate.value)));
      if (candidate.record) button.append(make("span", candidate.record));
      button.append(make("span", percent(candidate.probability), "share"));
      button.addEventListener("click", () => answer(place));
      const line = make("li", "");
      line.append(button);
      return line;
    }));
    for (const [name, kind] of [["none", none], ["unsure", unsure]]) {
      part(name).setAttribute("aria-pressed", String(answers.get(at) === kind));
    }
    part("previous").disabled = at === 0;
    part("next").disabled = at + 1 === count;
    part("download").disabled = answers.size === 0;
    part("clear").disabled = answers.size === 0;
  };
  const move = (step) => {
    at = Math.min(Math.max(at + step, 0), count - 1);
    show();
    part("card").focus({ preventScroll: true });
  };
  const answer = (kind) => {
    const again = answers.get(at) === kind;
    if (again) answers.delete(at);
    else answers.set(at, kind);
    keep();
    move(again ? 0 : 1);
  };

  const answered = () => {
    const lines = [["row", "value", "record", "answer", "chosen", "probability"]];
    for (let row = 0; row < count; row++) {
      if (!answers.has(row)) continue;
      const given = answers.get(row), candidate = data.candidates[row][given];
      lines.push([
        data.row[row],
        candidate ? candidate.value : "",
        candidate?.record ?? "",
        given === none ? data.none : given === unsure ? data.unsure : "",
        data.chosen[row],
        // Rows are in random order: each of those answered so far has its part of the probability.
        data.probability[row] * answers.size / count,
      ]);
    }
    return lines;
  };
  part("download").addEventListener("click", () => csv.save("review.csv", answered()));
  part("clear").addEventListener("click", () => {
    if (!confirm(`Forget ${answers.size} answers?`)) return;
    answers.clear();
    keep();
    at = 0;
    move(0);
  });
  part("none").addEventListener("click", () => answer(none));
  part("unsure").addEventListener("click", () => answer(unsure));
  part("previous").addEventListener("click", () => move(-1));
  part("next").addEventListener("click", () => move(1));
  part("card").addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const place = "123456789".indexOf(event.key);
    if (event.key.length === 1 && place >= 0 && place < data.candidates[at].length) answer(place);
    else if (event.key === "n") answer(none);
    else if (event.key === "?") answer(unsure);
    else if (event.key === "ArrowLeft") move(-1);
    else if (event.key === "ArrowRight") move(1);
    else return;
    event.preventDefault();
  });
  // Go on with the first row that has no answer.
  while (at + 1 < count && answers.has(at)) at += 1;
  show();
  part("queue").hidden = false;
  part("list").hidden = true;
})();
