// Small charts of the last minutes: a line, the area below it, and the value under the pointer.

import { el, setAttribute, setText, svg } from "./dom.js";
import { age } from "./format.js";

const POINTS = 600;
const HEIGHT = 44;

/**
 * A tile: a name, the value now, a note and the chart of a series. `format` writes a value; `atMost` is the
 * top of the chart where it is fixed.
 */
export class Tile {
  constructor({ name, format, unit = "", atMost = null }) {
    Object.assign(this, { format, atMost, points: [], period: 1 });
    this.value = el("span", { class: "value" }, "–");
    this.note = el("span", { class: "note" });
    this.at = el("span", { class: "at", "aria-hidden": "true" });
    this.line = svg("path", { class: "line" });
    this.area = svg("path", { class: "area" });
    this.cursor = svg("path", { class: "cursor" });
    const label = svg("title");
    this.label = label;
    this.chart = svg("svg", {
      class: "chart", viewBox: `0 0 ${POINTS} ${HEIGHT}`, preserveAspectRatio: "none", role: "img",
      onpointermove: (event) => this.point(event), onpointerleave: () => this.leave(),
    }, label, this.area, this.line, this.cursor);
    this.name = name;
    this.element = el("div", { class: "tile" },
      el("h2", {}, name, this.at),
      el("p", {}, this.value, unit && el("span", { class: "unit" }, unit), this.note),
      this.chart);
  }

  /** `value` now, a `note` beside it, the series and the seconds between its points. */
  update(value, note, points, period) {
    Object.assign(this, { points, period });
    setText(this.value, this.format(value));
    setText(this.note, note);
    const known = points.filter((point) => point != null);
    const top = this.atMost ?? Math.max(1e-9, ...known);
    this.draw(top);
    const span = known.length ? `between ${this.format(Math.min(...known))} and ${this.format(Math.max(...known))}` : "no values yet";
    setText(this.label, `${this.name}, last ten minutes: ${span}`);
  }

  draw(top) {
    const left = POINTS - this.points.length;
    const y = (point) => (HEIGHT - 1 - Math.min(1, point / top) * (HEIGHT - 4)).toFixed(1);
    let line = "";
    let area = "";
    let start = null;
    this.points.forEach((point, index) => {
      const x = left + index;
      if (point == null) return void (start = null);
      line += `${start === null ? "M" : "L"}${x} ${y(point)}`;
      start ??= x;
      const next = this.points[index + 1];
      if (next == null) area += `M${start} ${HEIGHT}` + line.slice(line.lastIndexOf("M")).replace("M", "L") + `L${x} ${HEIGHT}Z`;
    });
    setAttribute(this.line, "d", line || null);
    setAttribute(this.area, "d", area || null);
  }

  point(event) {
    const box = this.chart.getBoundingClientRect();
    const x = Math.round(((event.clientX - box.left) / box.width) * (POINTS - 1));
    const point = this.points[x - (POINTS - this.points.length)];
    setAttribute(this.cursor, "d", `M${x} 0V${HEIGHT}`);
    setText(this.at, `${this.format(point)}, ${age((POINTS - 1 - x) * this.period)} ago`);
  }

  leave() {
    setAttribute(this.cursor, "d", null);
    setText(this.at, "");
  }
}
