// The cache of an engine: a bar of its blocks in use, and a map of whose they are.

import { colourOf, keyOf } from "./colours.js";
import { el, setAttribute, setText, svg } from "./dom.js";
import { count, percent } from "./format.js";

const CELL = 8;
const MOST_ROWS = 32;
const FREE = -1;
const REUSABLE = -2;
const SHARED = -3;
const CLASSES = ["reusable", "shared", ...Array.from({ length: 8 }, (_, colour) => `s${colour}`)];
const WORDS = { [FREE]: "free", [REUSABLE]: "free, reusable as a prefix", [SHARED]: "shared by several sequences" };

export class CacheView {
  constructor() {
    this.title = el("h3");
    this.parts = Object.fromEntries(["used", "reusable", "free"].map((name) => [name, part(name)]));
    this.bar = svg("svg", { class: "cache-bar", viewBox: "0 0 1000 12", preserveAspectRatio: "none", role: "img" });
    this.barLabel = svg("title");
    this.bar.append(this.barLabel, ...Object.values(this.parts).map(({ rect }) => rect));
    this.paths = Object.fromEntries(CLASSES.map((name) => [name, svg("path", { class: name })]));
    this.map = svg("svg", { class: "cache-map", role: "img", onpointermove: (event) => this.point(event), onpointerleave: () => setText(this.at, "") });
    this.mapLabel = svg("title");
    this.grid = svg("path", { class: "grid" });
    this.map.append(this.mapLabel, ...Object.values(this.paths), this.grid);
    this.at = el("p", { class: "muted cache-at", "aria-hidden": "true" });
    const legend = el("ul", { class: "legend" }, ...Object.values(this.parts).map(({ item }) => item));
    this.element = el("div", { class: "cache" }, this.title, this.bar, legend, this.map, this.at);
  }

  /** `queue` of the feed, the requests in flight that its map names, and whether its engine is one of several. */
  update(queue, requests, isOneOfSeveral) {
    const { blocks } = queue;
    const engine = isOneOfSeveral ? `Engine ${queue.engine}: ` : "";
    setText(this.title, `${engine}${count(blocks.total)} blocks of ${blocks.block_tokens} tokens`);
    let x = 0;
    for (const name of ["used", "reusable", "free"]) {
      const width = (1000 * blocks[name]) / Math.max(1, blocks.total);
      setAttribute(this.parts[name].rect, "x", x.toFixed(1));
      setAttribute(this.parts[name].rect, "width", width.toFixed(1));
      setText(this.parts[name].text, `${name} ${count(blocks[name])} (${percent(blocks[name] / Math.max(1, blocks.total))})`);
      x += width;
    }
    setText(this.barLabel, `Blocks: ${["used", "reusable", "free"].map((name) => `${blocks[name]} ${name}`).join(", ")}`);
    this.map.toggleAttribute("hidden", !queue.map);
    if (queue.map) this.drawMap(queue, requests);
  }

  drawMap(queue, requests) {
    const columns = Math.max(10, Math.floor((this.element.clientWidth || 400) / CELL));
    const total = queue.blocks.total;
    this.perCell = Math.max(1, Math.ceil(total / (columns * MOST_ROWS)));
    const cells = Math.ceil(total / this.perCell);
    const rows = Math.ceil(cells / columns);
    Object.assign(this, { columns, queue, requests });
    const drawn = Object.fromEntries(CLASSES.map((name) => [name, ""]));
    let at = 0;
    for (const [length, owner] of queue.map) {
      const name = className(owner, requests);
      const [from, to] = [Math.floor(at / this.perCell), Math.ceil((at + length) / this.perCell)];
      if (name) drawn[name] += run(from, to, columns);
      at += length;
    }
    for (const name of CLASSES) setAttribute(this.paths[name], "d", drawn[name] || null);
    this.size(columns, rows, cells);
    setText(this.mapLabel, `Map of the blocks, coloured by sequence${this.perCell > 1 ? `; a cell is ${this.perCell} blocks` : ""}`);
  }

  size(columns, rows, cells) {
    const key = `${columns} ${rows} ${cells}`;
    if (this.sized === key) return;
    this.sized = key;
    const [w, h] = [columns * CELL, rows * CELL];
    for (const [name, value] of [["width", w], ["height", h], ["viewBox", `0 0 ${w} ${h}`]]) setAttribute(this.map, name, value);
    let lines = "";
    for (let column = 0; column <= columns; column += 1) lines += `M${column * CELL} 0V${h}`;
    for (let row = 0; row <= rows; row += 1) lines += `M0 ${row * CELL}H${w}`;
    setAttribute(this.grid, "d", lines);
  }

  point(event) {
    const box = this.map.getBoundingClientRect();
    const [column, row] = [event.clientX - box.left, event.clientY - box.top].map((value) => Math.floor(value / CELL));
    const block = (row * this.columns + column) * this.perCell;
    let at = 0;
    for (const [length, owner] of this.queue.map) {
      at += length;
      if (block >= at) continue;
      const request = this.requests[owner];
      return setText(this.at, `Block ${block}: ${request ? `${request.id}, ${request.blocks} blocks` : (WORDS[owner] ?? "")}`);
    }
    setText(this.at, "");
  }
}

function part(name) {
  const text = el("span");
  const rect = svg("rect", { class: `part ${name}`, y: 0, height: 12 });
  return { rect, text, item: el("li", {}, el("span", { class: `swatch ${name}` }), text) };
}

function className(owner, requests) {
  if (owner === REUSABLE) return "reusable";
  if (owner === SHARED) return "shared";
  return owner >= 0 && requests[owner] ? `s${colourOf(keyOf(requests[owner]))}` : null;
}

/** Cells from `from` until `to` as rectangles, one for each row that they touch. */
function run(from, to, columns) {
  let d = "";
  while (from < to) {
    const row = Math.floor(from / columns);
    const end = Math.min(to, (row + 1) * columns);
    d += `M${(from - row * columns) * CELL} ${row * CELL}h${(end - from) * CELL}v${CELL}h${-(end - from) * CELL}z`;
    from = end;
  }
  return d;
}
