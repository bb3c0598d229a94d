// The last requests: where the time of each went, by node.

import { el, reconcile, setText, svg } from "./dom.js";
import { clock, count, duration } from "./format.js";

const KINDS = { run: "runs", wait: "waits in the queue", prefill: "prefill", decode: "decode", updates: "handles updates" };
const SORTS = { newest: (a, b) => b.at - a.at, slowest: (a, b) => b.seconds - a.seconds };
const open = new Set();
/** Keys of the requests whose spans are shown. */

export class RecentRequests {
  constructor() {
    this.recent = [];
    this.rows = el("tbody");
    this.none = el("p", { class: "empty" });
    this.filter = el("input", { type: "search", placeholder: "id, model, path, status", "aria-label": "Filter requests", oninput: () => this.draw() });
    this.sort = el("select", { "aria-label": "Order of requests", onchange: () => this.draw() },
      ...Object.keys(SORTS).map((name) => el("option", { value: name }, name)));
    const columns = [["Ended", ""], ["Request", ""], ["Where its time went", "wide"], ["Took", "number"], ["Output", "number less"], ["Finish", "less"], ["Status", "number"]];
    const head = el("tr", {}, ...columns.map(([name, kind]) => el("th", { scope: "col", class: kind }, name)));
    this.table = el("table", { class: "recent" }, el("thead", {}, head), this.rows);
    this.element = el("section", { class: "panel live", "aria-labelledby": "recent" },
      el("header", {}, el("h2", { id: "recent" }, "Last requests"), legend(), el("span", { class: "end controls" }, this.filter, this.sort)),
      this.none, el("div", { class: "scroll bounded", tabindex: 0, role: "group", "aria-labelledby": "recent" }, this.table));
  }

  update(recent) {
    this.recent = recent;
    this.draw();
  }

  draw() {
    const word = this.filter.value.trim().toLowerCase();
    const texts = (each) => [each.id, each.model, each.path, each.status, each.finish].join(" ").toLowerCase();
    const found = this.recent.filter((each) => !word || texts(each).includes(word)).sort(SORTS[this.sort.value]);
    this.none.hidden = found.length > 0;
    this.table.hidden = found.length === 0;
    setText(this.none, this.recent.length ? "No request fits the filter." : "No request has ended yet.");
    reconcile(this.rows, found.flatMap(withDetails), ({ key }) => key, makeRow, () => {});
  }
}

/** A request, and below it its spans, which are seen once it is clicked. */
function withDetails(each) {
  const key = `${each.id} ${each.at}`;
  return [{ key, each }, { key: `${key} spans`, of: key, each }];
}

function legend() {
  return el("ul", { class: "legend" }, ...Object.entries(KINDS).map(([kind, words]) => el("li", {}, el("span", { class: `swatch k-${kind}` }), words)));
}

function makeRow({ key, of, each }) {
  return of ? detailRow(of, each) : requestRow(key, each);
}

function requestRow(key, each) {
  const button = el("button", { type: "button", class: "link mono", "aria-expanded": "false", title: each.id }, each.id);
  const row = el("tr", { class: `request${each.status >= 400 ? " failed" : ""}` },
    el("td", { class: "when" }, clock(each.at)),
    el("td", { class: "id" }, button, el("span", { class: "muted where" }, `${each.model ?? ""} ${each.path}`)),
    el("td", { class: "wide" }, each.spans.length ? bar(each) : el("span", { class: "muted" }, "no node ran")),
    el("td", { class: "number" }, duration(each.seconds)),
    el("td", { class: "number less" }, count(each.output_tokens)),
    el("td", { class: "less" }, each.finish ?? ""),
    el("td", { class: "number status" }, String(each.status)));
  row.addEventListener("click", () => {
    const isOpen = !open.delete(key) && Boolean(open.add(key));
    button.setAttribute("aria-expanded", String(isOpen));
    row.nextElementSibling.hidden = !isOpen;
  });
  return row;
}

/** All spans in one line, over the whole time of the request. */
function bar(each) {
  const rects = each.spans.map((span) => {
    const isThin = span.kind === "updates";
    return svg("rect", { class: `k-${span.kind}`, ...place(span, each.seconds), y: isThin ? 11 : 0, height: isThin ? 3 : 10 });
  });
  return svg("svg", { class: "spans", viewBox: "0 0 1000 14", preserveAspectRatio: "none", "aria-hidden": "true" }, ...rects);
}

function place({ start_s: start, seconds }, total) {
  const x = Math.min(998, (1000 * start) / Math.max(total, 1e-9));
  return { x: x.toFixed(1), width: Math.max(2, Math.min(1000 - x, (1000 * seconds) / Math.max(total, 1e-9))).toFixed(1) };
}

function detailRow(of, each) {
  const tokens = `${count(each.prompt_tokens)} prompt tokens, ${count(each.cached_tokens)} of them cached; ${count(each.output_tokens)} output tokens`;
  const facts = el("p", { class: "muted" }, `${tokens}; ${each.stream ? "streamed" : "whole reply"}`);
  const cell = el("td", { colspan: 7 }, el("p", { class: "mono" }, each.id), facts, each.spans.length > 0 && spans(each));
  return el("tr", { class: "details", hidden: !open.has(of) }, cell);
}

function spans(each) {
  const rows = each.spans.map((span) => {
    const busy = span.busy_s == null ? "" : `, busy ${duration(span.busy_s)}`;
    const line = svg("svg", { class: "spans", viewBox: "0 0 1000 10", preserveAspectRatio: "none", "aria-hidden": "true" }, svg("rect", { class: `k-${span.kind}`, ...place(span, each.seconds), y: 0, height: 10 }));
    return el("tr", {},
      el("th", { scope: "row" }, span.path), el("td", { class: "muted" }, `${KINDS[span.kind] ?? span.kind}${busy}`),
      el("td", { class: "number" }, duration(span.start_s)), el("td", { class: "number" }, duration(span.seconds)), el("td", { class: "wide" }, line));
  });
  const head = ["Node", "", "After", "For", ""].map((name, index) => el(name ? "th" : "td", name ? { scope: "col", class: index > 1 ? "number" : "" } : {}, name));
  return el("table", { class: "waterfall" }, el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...rows));
}
