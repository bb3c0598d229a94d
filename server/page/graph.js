// The graph of a model as a drawing: its nodes with their times, and the queues of its engines.

import { el, setAttribute, setText, svg } from "./dom.js";
import { count, duration, percent } from "./format.js";
import { layout } from "./graph_layout.js";

const DOTS = 16;
/** Waiting requests that are drawn, a dot each, where there is room. */

/**
 * A drawing of graphs. `onSelect(path)` is called with the node that is clicked; `hrefOf(model)` is where the
 * graph of another model is shown.
 */
export class GraphDrawing {
  constructor(container, onSelect, hrefOf) {
    this.container = container;
    this.onSelect = onSelect;
    this.hrefOf = hrefOf;
    this.graph = null;
    this.nodes = new Map();
    this.queues = new Map();
    this.numbers = null;
    new ResizeObserver(() => this.draw()).observe(container);
  }

  show(graph) {
    this.graph = graph;
    this.drawnWidth = 0;
    this.draw();
  }

  /** Nothing but a sentence. */
  clear(text) {
    this.graph = null;
    this.nodes.clear();
    this.queues.clear();
    this.container.replaceChildren(el("p", { class: "empty" }, text));
  }

  draw() {
    const width = Math.floor(this.container.clientWidth);
    if (!this.graph || !width || width === this.drawnWidth) return;
    this.drawnWidth = width;
    this.nodes.clear();
    this.queues.clear();
    const places = layout(this.graph, width);
    const size = { width: places.width, height: places.height, viewBox: `0 0 ${places.width} ${places.height}` };
    const drawing = svg("svg", { class: "graph", role: "group", "aria-label": `Graph of ${this.graph.model}`, ...size });
    drawing.append(...places.boxes.filter((box) => box.kind === "frame").map(frame));
    drawing.append(...places.edges.map(edge));
    for (const box of places.boxes) drawing.append(...this.elements(box));
    this.container.replaceChildren(drawing);
    if (this.numbers) this.update(...this.numbers);
    this.select(this.selected);
  }

  elements(box) {
    if (box.kind === "root") return [root(box)];
    if (box.kind === "queue") return [this.queue(box)];
    return box.kind === "node" ? this.node(box) : [];
  }

  node(box) {
    const { node } = box;
    const room = box.w - 104;
    const name = svg("text", { class: "name", x: box.x + 14, y: box.y + 20 }, cut(node.name, room / 8.4));
    const type = svg("tspan", { class: "type", dx: 8 }, cut(node.type, room / 8 - node.name.length - 1));
    name.append(type);
    const about = [node.process, ...Object.entries(node.settings).map(([key, value]) => `${key}: ${shown(value)}`)];
    const line = svg("text", { class: "about", x: box.x + 14, y: box.y + 37 }, cut(about.join(" · "), room / 6.1));
    const time = svg("text", { class: "time", x: box.x + box.w - 12, y: box.y + 20 });
    const share = svg("text", { class: "about share", x: box.x + box.w - 12, y: box.y + 37 });
    const bar = svg("rect", { class: "bar", x: box.x + 7, y: box.y + box.h - 4, height: 3, width: 0 });
    const label = svg("title");
    const group = svg("g", {
      class: `node ${node.process === "worker" ? "worker" : "host"}${box.isEngine ? " engine" : ""}`,
      role: "button", tabindex: 0, "data-path": node.path, "aria-pressed": "false",
      onclick: () => this.onSelect(node.path),
      onkeydown: (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        this.onSelect(node.path);
      },
    }, label, ...shape(box), name, line, time, share, bar);
    this.nodes.set(node.path, { group, time, share, bar, label, node, width: box.w - 12 });
    return node.graphs.length ? [group, this.links(box)] : [group];
  }

  /** Where the graphs of the models that a node asks are shown. */
  links({ node, x, y, w }) {
    const links = node.graphs.map((name) => svg("a", { href: this.hrefOf(name) }, svg("tspan", {}, ` ${name}`)));
    return svg("text", { class: "link", x: x + w - 12, y: y - 6 }, svg("tspan", {}, "→"), ...links);
  }

  queue(box) {
    const y = box.y + box.h / 2;
    const w = Math.min(box.w, 360);
    const x = box.x + (box.w - w) / 2;
    const dots = Array.from({ length: Math.min(DOTS, Math.floor((w - 220) / 8)) }, (_, index) => svg("circle", { class: "waiting", cx: x + w - 16 - index * 8, cy: y, r: 3 }));
    const text = svg("text", { class: "about", x: x + 14, y: y + 4 });
    this.queues.set(box.node.name, { text, dots });
    return svg("g", { class: "queue" }, svg("rect", { x, y: box.y, width: w, height: box.h, rx: box.h / 2 }), text, ...dots);
  }

  /** `times`: path → {mean, share, runs}; `queues`: engine node → {running, waiting}. */
  update(times, queues) {
    this.numbers = [times, queues];
    for (const [path, drawn] of this.nodes) {
      const { mean, share } = times.get(path) ?? {};
      setText(drawn.time, duration(mean));
      setText(drawn.share, share == null ? "" : percent(share));
      setAttribute(drawn.bar, "width", Math.round((share ?? 0) * drawn.width));
      const { node } = drawn;
      const words = [`${node.name}, ${node.type}`, node.process];
      if (mean != null) words.push(`${duration(mean)} on average`);
      if (share != null) words.push(`${percent(share)} of the time`);
      setText(drawn.label, words.join(", "));
    }
    for (const [name, { text, dots }] of this.queues) {
      const { running = 0, waiting = 0 } = queues.get(name) ?? {};
      setText(text, `queue: ${count(waiting)} waiting, ${count(running)} running`);
      dots.forEach((dot, index) => setAttribute(dot, "visibility", index < waiting ? "visible" : "hidden"));
    }
  }

  select(path) {
    this.selected = path;
    for (const [each, { group }] of this.nodes) setAttribute(group, "aria-pressed", each === path);
  }
}

function shape({ x, y, w, h, isEngine }) {
  const strip = `M${x + 7} ${y}h-1a6 6 0 0 0 -6 6v${h - 12}a6 6 0 0 0 6 6h1z`;
  return [svg("rect", { class: "box", x, y, width: w, height: h, rx: isEngine ? 8 : 6 }), svg("path", { class: "strip", d: strip })];
}

function frame({ x, y, w, h }) {
  return svg("rect", { class: "frame", x, y, width: w, height: h, rx: 8 });
}

function root({ x, y, w, h, name, type }) {
  const text = svg("text", { class: "root-text", x: x + w / 2, y: y + h / 2 + 4 }, name);
  text.append(svg("tspan", { class: "type", dx: 8 }, cut(type ?? "", w / 7.6 - name.length - 3)));
  return svg("g", { class: "root" }, svg("rect", { x, y, width: w, height: h, rx: h / 2 }), text);
}

function edge({ d, tip: [x, y], isSide, label, from, to }) {
  const head = isSide ? `M${x + 6} ${y - 4}L${x} ${y}L${x + 6} ${y + 4}` : `M${x - 4} ${y - 6}L${x} ${y}L${x + 4} ${y - 6}`;
  const group = svg("g", { class: "edge", "data-from": from, "data-to": to }, svg("path", { d }), svg("path", { d: head }));
  if (label && isSide) group.append(svg("title", {}, label));
  else if (label) group.append(svg("text", { class: "port", x: x + 8, y: y - 7 }, label));
  return group;
}

function shown(value) {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** At most `length` characters. */
function cut(text, length) {
  const most = Math.max(0, Math.floor(length));
  return text.length <= most ? text : most > 1 ? `${text.slice(0, most - 1)}…` : "";
}
