// The status view: what the chosen model and the server are doing.

import { AddModel } from "./add_model.js";
import { getJSON } from "./api.js";
import { CacheView } from "./blocks.js";
import { el, reconcile, setAttribute, setText } from "./dom.js";
import { LastErrors } from "./errors.js";
import { age, bytes, count } from "./format.js";
import { GraphDrawing } from "./graph.js";
import { InFlight } from "./in_flight.js";
import { Inspector } from "./inspector.js";
import { loadAdapter, Models } from "./models.js";
import { Numbers } from "./numbers.js";
import { RecentRequests } from "./waterfall.js";

/** The view in `container`; `hrefOf(model)` is the address at which a model is shown. */
export class StatusView {
  constructor(container, hrefOf) {
    this.container = container;
    this.key = null;
    this.nodes = [];
    this.since = "now";
    this.title = el("h1", {}, "Status");
    this.about = el("p", { class: "muted" });
    this.state = el("p", { class: "problems bad", hidden: true });
    this.numbers = new Numbers();
    this.drawing = new GraphDrawing(el("div", { class: "drawing" }), (path) => this.select(path), hrefOf);
    this.inspector = new Inspector((path) => this.select(path));
    this.caches = el("div", { class: "caches" });
    this.processes = el("tbody");
    this.inFlight = new InFlight();
    this.recent = new RecentRequests();
    this.errors = new LastErrors();
    this.models = new Models(hrefOf);
    const side = el("div", { class: "side" }, this.cachePanel(), this.models.element, this.enginePanel());
    const head = el("header", { class: "head" }, this.title, this.about, this.state);
    container.append(head, this.numbers.element, el("div", { class: "columns" }, this.graphPanel(), side), this.inFlight.element, this.recent.element, this.errors.element);
  }

  graphPanel() {
    const times = ["now", "since load"].map((name) =>
      el("button", { type: "button", "aria-pressed": String(name === this.since), onclick: () => this.showTimes(name) }, name));
    this.times = times;
    this.sourceButton = el("button", { type: "button", class: "small", "aria-pressed": "false", onclick: () => this.showSource(this.inspector.element.hidden) }, "Source");
    this.inspector.element.hidden = true;
    const marks = el("ul", { class: "legend" }, ...["worker", "host"].map((name) => el("li", {}, el("span", { class: `swatch ${name}` }), name === "host" ? "engine host" : name)));
    return el("section", { class: "panel graph-panel", "aria-labelledby": "graph-title" },
      el("header", {}, el("h2", { id: "graph-title" }, "Graph"), marks,
        el("span", { class: "end controls" }, el("span", { class: "segments", role: "group", "aria-label": "Times" }, ...times), this.sourceButton)),
      el("div", { class: "graph-parts live" }, this.drawing.container, this.inspector.element));
  }

  cachePanel() {
    this.cache = el("section", { class: "panel live", "aria-labelledby": "cache-title", hidden: true },
      el("header", {}, el("h2", { id: "cache-title" }, "Key-value cache")), this.caches);
    return this.cache;
  }

  enginePanel() {
    this.adapterButton = el("button", { type: "button", class: "small", onclick: () => loadAdapter(this.model) }, "Load an adapter");
    this.addModel = new AddModel();
    this.models.element.querySelector("header").append(el("span", { class: "end controls" }, this.adapterButton, this.addModel.button));
    this.models.element.append(this.addModel.rows);
    const columns = ["Process", "State", "Memory", "Processor"];
    const head = columns.map((name, index) => el("th", { scope: "col", class: index > 1 ? "number" : "" }, name));
    return el("section", { class: "panel live", "aria-labelledby": "engines-title" },
      el("header", {}, el("h2", { id: "engines-title" }, "Processes")),
      el("div", { class: "scroll" }, el("table", { class: "processes" }, el("thead", {}, el("tr", {}, ...head)), this.processes)));
  }

  update(snapshot) {
    this.snapshot = snapshot;
    this.model = snapshot.model;
    const card = snapshot.models.find((model) => model.id === snapshot.model);
    setText(this.title, snapshot.model ?? "No model");
    setText(this.state, card?.problems.join("\n"));
    this.state.hidden = !card?.problems.length;
    this.loadGraph(card);
    this.describe(card, snapshot);
    this.numbers.update(snapshot, this.nodes);
    this.updateTimes();
    this.inspector.update(snapshot);
    this.inFlight.update(snapshot.requests, snapshot.server.needs_admin_key);
    this.updateCaches(snapshot);
    this.updateProcesses(snapshot);
    this.recent.update(snapshot.recent);
    this.errors.update(snapshot.errors);
    this.models.update(snapshot);
    this.addModel.look(snapshot.server.needs_admin_key);
  }

  describe(card, { server, created }) {
    const facts = [this.graph?.description, card?.task, card && card.state !== "ready" ? card.state : "", `Braid ${server.version}, up ${age(created - server.started)}`];
    setText(this.about, facts.filter(Boolean).join(" · "));
    this.adapterButton.hidden = !this.nodes.some((node) => Object.keys(node.settings).some((name) => name.startsWith("adapters")));
  }

  /** The graph is asked for when another model, or another instance of it, is ready. */
  async loadGraph(card) {
    const key = card ? `${card.id} ${card.instance} ${card.state === "ready"}` : null;
    if (key === this.key) return;
    this.key = key;
    if (card?.id === this.graph?.model && card?.state !== "ready") return;
    const graph = card?.state === "ready" ? await getJSON(`v1/models/${encodeURIComponent(card.id)}/graph`).catch(() => null) : null;
    if (key !== this.key) return;
    if (!graph && card?.state === "ready") this.key = null;
    this.showGraph(graph, card);
  }

  showGraph(graph, card) {
    if (graph && JSON.stringify(graph) === JSON.stringify(this.graph)) return;
    this.graph = graph;
    this.nodes = graph ? graph.nodes.flatMap((node) => [node, ...node.body]) : [];
    this.sourceButton.disabled = !graph;
    if (!graph) {
      this.showSource(false);
      return this.drawing.clear(card ? `The graph is shown once ${card.id} is loaded.` : "");
    }
    this.drawing.show(graph);
    this.inspector.show(graph, this.nodes);
    this.updateTimes();
  }

  showTimes(name) {
    this.since = name;
    for (const button of this.times) setAttribute(button, "aria-pressed", button.textContent === name);
    this.updateTimes();
  }

  updateTimes() {
    const recent = this.since === "now";
    const times = new Map(this.snapshot.nodes.map((node) => [node.path, recent ? { mean: node.recent_mean_s, share: node.recent_share } : { mean: node.mean_s, share: node.share }]));
    const queues = new Map();
    for (const { node, running, waiting } of this.snapshot.queues) {
      const sum = queues.get(node) ?? { running: 0, waiting: 0 };
      queues.set(node, { running: sum.running + running, waiting: sum.waiting + waiting });
    }
    this.drawing.update(times, queues);
  }

  select(path) {
    this.showSource(true);
    this.drawing.select(path);
    this.inspector.select(path);
  }

  showSource(isShown) {
    this.inspector.element.hidden = !isShown;
    setAttribute(this.sourceButton, "aria-pressed", isShown);
    this.container.classList.toggle("with-source", isShown);
  }

  updateCaches({ queues, requests }) {
    const withBlocks = queues.filter((queue) => queue.blocks);
    this.cache.hidden = withBlocks.length === 0;
    const update = (element, queue) => element.view.update(queue, requests, withBlocks.length > 1);
    reconcile(this.caches, withBlocks, (queue) => `${queue.engine} ${queue.node}`, makeCache, update);
  }

  updateProcesses({ engines, processes }) {
    const rows = engines.map((engine) => ({
      key: `engine ${engine.engine}`, name: engines.length > 1 ? `engine ${engine.engine}` : "engine host", pid: engine.pid,
      state: engine.state, memory: engine.resident_bytes, cpu: processes.find(({ pid }) => pid === engine.pid)?.cpu_seconds,
    }));
    const workers = processes.filter(({ process }) => process === "worker");
    rows.push(...workers.map((each) => ({ key: each.pid, name: "worker", pid: each.pid, state: "running", memory: each.resident_bytes, cpu: each.cpu_seconds })));
    reconcile(this.processes, rows, ({ key }) => key, makeProcess, updateProcess);
  }

  connection(state) {
    this.container.classList.toggle("stale", state === "lost" || state === "locked");
  }

  engines(areDown) {
    this.container.classList.toggle("engines-down", areDown);
  }
}

function makeCache() {
  const view = new CacheView();
  view.element.view = view;
  return view.element;
}

function makeProcess() {
  const name = el("th", { scope: "row" }, el("span"), el("small"));
  return el("tr", {}, name, el("td", { class: "state" }), el("td", { class: "number" }), el("td", { class: "number" }));
}

function updateProcess(row, { name, pid, state, memory, cpu }) {
  const [title, word, bytesCell, seconds] = row.children;
  setText(title.children[0], name);
  setText(title.children[1], pid && `process ${pid}`);
  setText(word, state);
  setAttribute(word, "data-state", state);
  setText(bytesCell, bytes(memory));
  setText(seconds, cpu == null ? "–" : `${count(cpu)} s`);
}
