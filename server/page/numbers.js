// The tiles of a model: its numbers now, each with its last ten minutes.

import { Tile } from "./charts.js";
import { el } from "./dom.js";
import { bytes, count, percent } from "./format.js";

const last = (points) => points.findLast((point) => point != null) ?? null;
const share = (part, whole) => (whole ? part / whole : null);

/**
 * A tile each: the series of the history that it draws, how it is written, `now` where its value is not the
 * last of the series, a `note`, and `shown` for tiles of some models only.
 */
const TILES = [
  { name: "Running", series: "running", format: count, now: (s) => inAll(s, "running") },
  {
    name: "Waiting", series: "waiting", format: count, now: (s) => inAll(s, "waiting"),
    note: (s) => (total(s.queues, "swapped") ? `${count(total(s.queues, "swapped"))} swapped out` : ""),
  },
  { name: "Prompt", series: "prompt_tokens_per_s", format: count, unit: "tokens/s", note: (s) => `${count(s.totals.prompt_tokens)} so far` },
  {
    name: "Output", series: "output_tokens_per_s", format: count, unit: "tokens/s", shown: generates,
    note: (s) => `${count(s.totals.output_tokens)} so far`,
  },
  {
    name: "Blocks used", series: "blocks_used", format: count, shown: hasBlocks, top: (s) => blocks(s, "total"),
    now: (s) => blocks(s, "used"), note: (s) => `of ${count(blocks(s, "total"))}`,
  },
  {
    name: "Prefix hits", series: "prefix_hit_rate", format: percent, shown: hasBlocks, top: () => 1,
    note: (s) => `${percent(share(s.totals.cached_tokens, s.totals.prompt_tokens))} so far`,
  },
  {
    name: "Draft accepted", series: "draft_accept_rate", format: percent, shown: speculates, top: () => 1,
    note: (s) => `${percent(share(s.totals.accepted_tokens, s.totals.draft_tokens))} so far`,
  },
  { name: "Preemptions", series: "preemptions", format: count, shown: generates, now: (s) => s.totals.preemptions, note: () => "so far" },
  { name: "Memory", series: "resident_bytes", format: bytes, now: (s) => resident(s) ?? last(s.history.series.resident_bytes), note: () => "engine host" },
];

export class Numbers {
  constructor() {
    this.tiles = TILES.map((spec) => ({ spec, tile: new Tile(spec) }));
    this.element = el("div", { class: "tiles live" }, ...this.tiles.map(({ tile }) => tile.element));
  }

  update(snapshot, nodes) {
    const { series, period_s: period } = snapshot.history;
    for (const { spec, tile } of this.tiles) {
      tile.element.hidden = Boolean(spec.shown) && !spec.shown(snapshot, nodes);
      if (tile.element.hidden) continue;
      const points = series[spec.series] ?? [];
      tile.atMost = spec.top ? spec.top(snapshot) : null;
      tile.update(spec.now ? spec.now(snapshot) : last(points), spec.note ? spec.note(snapshot) : "", points, period);
    }
  }
}

function total(queues, name) {
  return queues.reduce((sum, queue) => sum + queue[name], 0);
}

/** Of all queues of the model; before they are reported, what its card says. */
function inAll(snapshot, name) {
  const card = snapshot.models.find((model) => model.id === snapshot.model);
  return snapshot.queues.length ? total(snapshot.queues, name) : card?.[name];
}

function resident(snapshot) {
  const known = snapshot.engines.filter((engine) => engine.resident_bytes != null);
  return known.length ? known.reduce((sum, engine) => sum + engine.resident_bytes, 0) : null;
}

function blocks(snapshot, name) {
  return snapshot.queues.reduce((sum, queue) => sum + (queue.blocks?.[name] ?? 0), 0);
}

function hasBlocks(snapshot) {
  return blocks(snapshot, "total") > 0;
}

function generates(_, nodes) {
  return nodes.some((node) => node.type === "scheduler");
}

function speculates(_, nodes) {
  return nodes.some((node) => node.type === "lookup" || node.type === "draft");
}
