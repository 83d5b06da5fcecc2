// Sorts tables, draws charts, shows a query. Every text from outside is set with textContent.
"use strict";
(() => {
  const values = JSON.parse(document.getElementById("values").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  let printing = false;

  const made = (name, classes, text) => {
    const element = document.createElement(name);
    if (classes) element.className = classes;
    if (text !== undefined) element.textContent = text;
    return element;
  };

  // -- tables: a heading's button sorts its rows; what has no value stays last ------------------------------------------
  const sorted = (table, head) => {
    const column = [...head.parentNode.children].indexOf(head);
    const isText = head.hasAttribute("data-text");
    const before = head.getAttribute("aria-sort");
    const falling = before ? before === "ascending" : !isText;
    const value = (row) => {
      const cell = row.children[column];
      return isText ? cell.textContent : cell.dataset.value === "" ? null : Number(cell.dataset.value);
    };
    const order = (one, other) => {
      const a = value(one), b = value(other);
      if (a === null || b === null) return (a === null) - (b === null);
      const way = isText ? a.localeCompare(b, "en") : a - b;
      return falling ? -way : way;
    };
    table.querySelectorAll("th[aria-sort]").forEach((each) => each.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", falling ? "descending" : "ascending");
    const body = table.tBodies[0];
    body.append(...[...body.rows].sort(order));
  };
  for (const table of document.querySelectorAll("table.sortable")) {
    for (const button of table.querySelectorAll("thead button")) {
      button.addEventListener("click", () => sorted(table, button.closest("th")));
    }
  }

  // -- charts: drawn when they come near, and anew in other colours ------------------------------------------------------
  const coloured = (value) => {
    if (Array.isArray(value)) return value.map(coloured);
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, coloured(each)]));
    }
    const name = typeof value === "string" && /^<([a-z0-9]+)>$/.exec(value);
    return name ? values.colours[name[1]][dark.matches && !printing ? 1 : 0] : value;
  };
  const narrowed = (place, figure) => {
    // A triangle is as high as it is wide, and its dots must not cover each other.
    const share = Math.min(1, place.clientWidth / 600);
    figure.layout.height *= Math.max(share, .72);
    place.style.height = `${figure.layout.height}px`;
    for (const { marker } of figure.data) {
      marker.size = Array.isArray(marker.size) ? marker.size.map((size) => size * share) : marker.size * share;
    }
  };
  const drawn = new Set();
  const draw = (place) => {
    const figure = coloured(values.charts[Number(place.dataset.chart)]);
    if (place.clientWidth < 500) figure.data.filter((trace) => trace.meta === "aside").forEach((trace) => { trace.mode = "markers"; });
    if (figure.layout.ternary) narrowed(place, figure);
    Plotly.react(place, figure.data, figure.layout, { displayModeBar: false, responsive: true, scrollZoom: false });
    drawn.add(place);
  };
  const places = [...document.querySelectorAll(".chart")];
  const near = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting) {
        near.unobserve(entry.target);
        draw(entry.target);
      }
    }
  }, { rootMargin: "400px" });
  places.forEach((place) => near.observe(place));
  dark.addEventListener("change", () => drawn.forEach(draw));
  addEventListener("beforeprint", () => { printing = true; places.filter((each) => each.offsetParent).forEach(draw); });
  addEventListener("afterprint", () => { printing = false; drawn.forEach(draw); });

  // -- one metric at a time ----------------------------------------------------------------------------------------------
  const heard = [];
  for (const select of document.querySelectorAll("select.metric")) {
    const section = select.closest(".collection");
    const show = () => {
      for (const each of section.querySelectorAll("[data-metric]")) each.hidden = each.dataset.metric !== select.value;
      heard.forEach((tell) => tell(section));
    };
    select.addEventListener("change", show);
    show();
  }

  // -- query by query ----------------------------------------------------------------------------------------------------
  const badge = (grade, highest) => {
    if (grade === undefined) return made("span", "badge unjudged", "unjudged");
    if (grade <= 0) return made("span", "badge zero", `judged ${grade}`);
    return made("span", `badge ${grade === highest ? "best" : "good"}`, `grade ${grade}`);
  };

  class Drill {
    constructor(root) {
      this.root = root;
      this.section = values.sections[Number(root.dataset.section)];
      this.list = root.querySelector(".list");
      this.find = root.querySelector(".find");
      this.order = root.querySelector(".order");
      this.detail = root.querySelector(".detail");
      this.collection = root.closest(".collection");
      this.metricSelect = this.collection.querySelector("select.metric");
      this.words = this.section.queries.map((query) =>
        [query.id, query.text, query.kind || "", ...(query.tags || [])].join("\n").toLowerCase());
      this.find.addEventListener("input", () => this.fill());
      this.order.addEventListener("change", () => this.fill());
      this.list.addEventListener("change", () => this.show());
      root.querySelectorAll(".boxes input").forEach((box) => box.addEventListener("change", () => this.show()));
      heard.push((section) => { if (section === this.collection) this.fill(); });
      this.fill();
    }

    get metric() { return this.section.metrics.indexOf(this.metricSelect.value); }

    scores(query) { return query.scores[this.metric] || []; }

    key(query) {
      const scores = this.scores(query);
      if (!scores.length) return Infinity;
      const highest = Math.max(...scores);
      if (this.order.value === "spread") return Math.min(...scores) - highest;
      if (this.order.value === "loss") {
        const best = this.section.baseline === 0 && scores.length > 1 ? 1 : 0;
        return scores[best] - scores[this.section.baseline];
      }
      return this.order.value === "low" ? highest : 0;
    }

    fill() {
      const wanted = this.find.value.trim().toLowerCase();
      const chosen = this.list.value;
      const found = this.section.queries.map((query, at) => [this.key(query), at])
        .filter(([, at]) => this.words[at].includes(wanted))
        .sort((one, other) => (one[0] === other[0] ? one[1] - other[1] : one[0] - other[0]));
      this.list.replaceChildren(...found.map(([, at]) => {
        const query = this.section.queries[at];
        const option = made("option", "", `${query.id} · ${query.text.replace(/\s+/g, " ").slice(0, 90)}`);
        option.value = String(at);
        return option;
      }));
      const known = found.some(([, at]) => String(at) === chosen);
      this.list.value = known ? chosen : found.length ? String(found[0][1]) : "";
      this.root.querySelector(".shown").textContent =
        `${found.length.toLocaleString("en")} of ${this.section.queries.length.toLocaleString("en")} queries`;
      this.show();
    }

    show() {
      const query = this.section.queries[Number(this.list.value)];
      if (this.list.value === "" || !query) {
        this.detail.replaceChildren(made("p", "nothing", "No query holds these words."));
        return;
      }
      const shown = [...this.root.querySelectorAll(".boxes input:checked")].map((box) => Number(box.value));
      shown.sort((one, other) => (other === this.section.baseline) - (one === this.section.baseline) || one - other);
      const columns = made("div", "columns");
      columns.append(...shown.map((at) => this.column(query, at)));
      columns.tabIndex = 0;
      columns.setAttribute("role", "region");
      columns.setAttribute("aria-label", "Rankings side by side");
      this.detail.replaceChildren(...[made("p", "asked", query.text), this.about(query), this.wanted(query, shown), columns]
        .filter(Boolean));
    }

    about(query) {
      const line = made("div", "about");
      line.append(made("span", "", query.id));
      if (query.kind) line.append(made("span", "", query.kind));
      for (const tag of query.tags || []) line.append(made("span", "", `#${tag}`));
      if (query.weight !== 1) line.append(made("span", "", `counts ${query.weight || 0} times`));
      if (!this.scores(query).length) line.append(made("span", "caution", `not scored by ${this.metricSelect.value}`));
      for (const at of query.warned || []) line.append(made("span", "caution", this.section.warnings[at]));
      return line;
    }

    name(item) {
      const [id, title] = this.section.items[item];
      return title ? [title, id] : [id, ""];
    }

    items(query, at) { return query.hits[at].map((passage) => this.section.passages[passage][0]); }

    wanted(query, shown) {
      // Where the relevant items stand, each under its grade.
      if (!query.relevant) return made("p", "muted", "No item is labelled relevant for this query.");
      const table = made("table", "wanted");
      const head = table.createTHead().insertRow();
      for (const text of ["Relevant", "Grade"]) head.append(made("th", "", text));
      for (const at of shown) {
        const cell = made("th", "number");
        cell.append(made("i", this.section.styles[at]));
        cell.firstChild.title = this.section.names[at];
        cell.firstChild.setAttribute("role", "img");
        cell.firstChild.setAttribute("aria-label", this.section.names[at]);
        head.append(cell);
      }
      const body = table.createTBody();
      for (const item of query.relevant) {
        const row = body.insertRow();
        const [title, id] = this.name(item);
        row.append(made("th", "", id ? `${title} (${id})` : title), made("td", "number", String(query.grades[item])));
        for (const at of shown) {
          const rank = this.items(query, at).indexOf(item) + 1;
          row.append(made("td", "number", rank ? String(rank) : "–"));
        }
      }
      if (query.unlisted) body.insertRow().append(made("th", "muted", `and ${query.unlisted} more`));
      const around = made("div", "scrolled");
      around.append(table);
      return around;
    }

    column(query, at) {
      const box = made("section", `ranked ${this.section.styles[at].split(" ")[1]}`);
      const title = made("h4");
      const score = this.scores(query)[at];
      title.append(made("i", this.section.styles[at]), made("bdi", "", this.section.names[at]),
        made("b", "", score === undefined ? "" : score.toFixed(3)));
      box.append(title);
      box.setAttribute("aria-label", `Hits of ${this.section.names[at]}`);
      const reason = (query.failed || {})[at];
      if (reason) box.append(made("p", "nothing", `Failed: ${reason}`));
      else if (!query.hits[at].length) box.append(made("p", "nothing", "Nothing was found."));
      const list = made("ol");
      const base = this.items(query, this.section.baseline);
      query.hits[at].forEach((passage, rank) => list.append(this.hit(query, passage, rank + 1, at, base)));
      box.append(list);
      return box;
    }

    hit(query, passage, rank, at, base) {
      const [item, excerpt] = this.section.passages[passage];
      const [title, id] = this.name(item);
      const card = made("li", "hit");
      const bar = made("div", "bar");
      const grades = query.grades || {};
      const highest = Math.max(...Object.values(grades), 1);
      bar.append(made("span", "rank", String(rank)), badge(grades[item], highest));
      if (at !== this.section.baseline) bar.append(this.move(rank, base.indexOf(item) + 1, base.length));
      card.append(bar, made("div", id ? "title" : "title id", title));
      if (id) card.append(made("div", "id muted", id));
      if (excerpt) card.append(made("p", "", excerpt));
      return card;
    }

    move(rank, before, depth) {
      if (!before) return this.moved("move", "new", `Not among the baseline's first ${depth}`);
      if (before === rank) return this.moved("move", "=", `Rank ${before} with the baseline, too`);
      const up = before > rank;
      return this.moved(`move ${up ? "up" : "down"}`, `${up ? "↑" : "↓"} ${Math.abs(before - rank)}`,
        `Rank ${before} with the baseline`);
    }

    moved(classes, text, says) {
      const mark = made("span", classes, text);
      mark.title = says;
      return mark;
    }
  }
  document.querySelectorAll(".drill").forEach((root) => new Drill(root));
})();
