// A node in words, and the source of the graph with its lines.

import { el, reconcile, setAttribute, setText } from "./dom.js";
import { count, duration, percent } from "./format.js";

/** `onSelect(path)` is called when the lines of a node are clicked. */
export class Inspector {
  constructor(onSelect) {
    this.onSelect = onSelect;
    this.facts = el("dl", { class: "facts" });
    this.times = el("dl", { class: "facts" });
    this.phases = el("div", { class: "phases" });
    this.title = el("h3", {}, "Click a node");
    this.source = el("div", { class: "source", role: "group", "aria-label": "Source of the graph" });
    this.blocks = new Map();
    this.element = el("div", { class: "inspector" }, this.title, this.facts, this.times, this.phases, el("h3", {}, "graph.yaml"), el("div", { class: "scroll" }, this.source));
  }

  /** `nodes`: all nodes of the graph, those of bodies after their engine. */
  show(graph, nodes) {
    this.nodes = new Map(nodes.map((node) => [node.path, node]));
    this.blocks.clear();
    this.source.replaceChildren(...this.lines(graph.source.split("\n"), nodes));
    this.select(null);
  }

  /** The lines of each node as one button; other lines as text. */
  lines(texts, nodes) {
    if (texts[texts.length - 1] === "") texts.pop();
    const starts = new Map(nodes.filter((node) => node.line).map((node) => [node.line, node]));
    const parts = [];
    let block = null;
    texts.forEach((text, index) => {
      const node = starts.get(index + 1);
      if (node) parts.push((block = this.block(node)));
      const line = el("span", { class: "line", "data-number": index + 1 }, text || " ");
      const belongs = block && /^\s+[^\s#]/.test(text);
      if (belongs) block.append(line);
      else parts.push(line);
    });
    return parts;
  }

  block(node) {
    const block = el("button", { type: "button", class: "block", "aria-pressed": "false", "data-path": node.path, onclick: () => this.onSelect(node.path) });
    this.blocks.set(node.path, block);
    return block;
  }

  select(path) {
    this.selected = path;
    for (const [each, block] of this.blocks) setAttribute(block, "aria-pressed", each === path);
    const node = this.nodes?.get(path);
    setText(this.title, node ? node.name : "Select a node, or lines of it");
    this.facts.replaceChildren(...(node ? staticFacts(node) : []));
    this.phases.replaceChildren();
    if (this.numbers) this.update(this.numbers);
  }

  /** `snapshot`: the feed's; of the node that is selected how its model is run, times and phases. */
  update(snapshot) {
    this.numbers = snapshot;
    const node = this.nodes?.get(this.selected);
    this.times.hidden = !node;
    if (!node) return;
    const times = snapshot.nodes.find(({ path }) => path === this.selected);
    const rows = times ? [...openedFacts(times.opened), ...timeFacts(times)] : [];
    reconcile(this.times, rows, ([name]) => name, makeFact, updateFact);
    const phases = snapshot.phases.filter((phase) => phase.engine_node === node.name && node.body.length);
    if (phases.length) this.showPhases(phases);
  }

  /** The mean of each phase, a column for each kind of step. */
  showPhases(phases) {
    const kinds = [...new Set(phases.map(({ kind }) => kind))];
    const means = new Map(phases.map(({ kind, name, mean_s: mean }) => [`${kind} ${name}`, mean]));
    const names = [...new Set(phases.map(({ name }) => name))];
    const texts = names.map((name) => [name, ...kinds.map((kind) => duration(means.get(`${kind} ${name}`)))]);
    if (this.phaseKinds !== kinds.join() || !this.phases.firstChild) this.phaseTable(kinds);
    reconcile(this.rows, texts, ([name]) => name, makeCells, (row, cells) => cells.forEach((text, index) => setText(row.children[index], text)));
  }

  phaseTable(kinds) {
    this.phaseKinds = kinds.join();
    this.rows = el("tbody");
    const head = ["Phase of a step", ...kinds.map((kind) => kind.replaceAll("_", " "))];
    const cells = head.map((name, index) => el("th", { scope: "col", class: index ? "number" : "" }, name));
    this.phases.replaceChildren(el("table", {}, el("thead", {}, el("tr", {}, ...cells)), this.rows));
  }
}

function staticFacts(node) {
  const reads = Object.entries(node.from).map(([port, source]) => (port === source ? source : `${port}: ${source}`));
  const facts = [["Type", node.type], ["Runs in", node.process], ["Reads", reads.join(", ")], ["Gives", node.gives]];
  for (const [name, value] of Object.entries(node.settings)) facts.push([name, typeof value === "string" ? value : JSON.stringify(value)]);
  return facts.map((fact) => {
    const element = makeFact();
    updateFact(element, fact);
    return element;
  });
}

/** "Linear layers", "30 of 31 by braid kernels": what the engine says of the model that the node opened. */
function openedFacts(opened) {
  return Object.entries(opened).map(([name, text]) => [name.charAt(0).toUpperCase() + name.slice(1).replaceAll("_", " "), text]);
}

function timeFacts(times) {
  return [
    ["Now", `${duration(times.recent_mean_s)} on average, ${percent(times.recent_share)} of the time, ${count(times.recent_runs)} runs`],
    ["Since load", `${duration(times.mean_s)} on average, ${percent(times.share)} of the time, ${count(times.runs)} runs`],
  ];
}

function makeFact() {
  return el("div", {}, el("dt"), el("dd"));
}

function updateFact(element, [name, text]) {
  setText(element.children[0], name);
  setText(element.children[1], text);
}

function makeCells(texts) {
  return el("tr", {}, ...texts.map((_, index) => el("td", { class: index ? "number" : "" })));
}
