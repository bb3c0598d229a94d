// Where the nodes and edges of a graph are drawn: data in, places out.

const NODE_HEIGHT = 50;
const ROOT_HEIGHT = 26;
const QUEUE_HEIGHT = 24;
const ROW_GAP = 26;
const COLUMN_GAP = 16;
const MIN_WIDTH = 230;
const MAX_WIDTH = 620;
const PADDING = 14;
const CHANNEL = 14;

/**
 * Places of a graph in a drawing of at most `width`: `boxes` ({kind: node | engine | queue | root, …, x, y,
 * w, h}), `edges` ({from, to, label, points of a curve as `d`}), `width` and `height`.
 */
export function layout(graph, width) {
  const drawing = { boxes: [], edges: [] };
  const inside = Math.min(width, MAX_WIDTH + CHANNEL * 4) - 2;
  const list = { nodes: graph.nodes, prefix: "", roots: [["request", graph.request]], end: ["reply", graph.reply] };
  const height = placeList(drawing, list, { x: 1, y: 1, w: inside });
  return { ...drawing, width: inside + 2, height: height + 2 };
}

/** Rows of one list of nodes, from `area.y` down; returns the y where they end. */
function placeList(drawing, list, area) {
  const items = itemsOf(list);
  const rows = rowsOf(items, Math.max(1, Math.floor((area.w + COLUMN_GAP) / (MIN_WIDTH + COLUMN_GAP))));
  const edges = edgesOf(items);
  const skipping = edges.filter((edge) => edge.to.row - edge.from.row > 1);
  skipping.forEach((edge, index) => (edge.channel = index));
  const room = { ...area, w: area.w - skipping.length * CHANNEL - (skipping.length ? 4 : 0) };
  let y = area.y;
  for (const row of rows) y = placeRow(drawing, row, room, y) + ROW_GAP;
  spread(edges);
  for (const edge of edges) drawing.edges.push(drawn(edge, room));
  return y - ROW_GAP;
}

/** Roots, nodes and the end of a list, each with what it reads. */
function itemsOf({ nodes, prefix, roots, end }) {
  const items = roots.map(([name, type]) => ({ kind: "root", name, type, reads: [], key: `${prefix}${name}` }));
  for (const node of nodes) {
    const reads = Object.entries(node.from).map(([port, source]) => ({ port, source }));
    items.push({ kind: node.body.length ? "engine" : "node", name: node.name, node, reads, key: node.path });
  }
  if (end) {
    const reads = [{ port: "", source: nodes[nodes.length - 1].name }];
    items.push({ kind: "root", name: end[0], type: end[1], reads, key: `${prefix}${end[0]}`, isEnd: true });
  }
  return items;
}

/** Items by depth; a row has at most `columns` of them, and an engine has a row of its own. */
function rowsOf(items, columns) {
  const depth = new Map();
  const layers = [];
  for (const item of items) {
    const above = item.reads.map(({ source }) => depth.get(source.split(".")[0]) ?? 0);
    const level = item.kind === "root" && !item.isEnd ? 0 : 1 + Math.max(0, ...above);
    if (!item.isEnd) depth.set(item.name, level);
    (layers[level] ??= []).push(item);
  }
  const rows = [];
  for (const layer of layers.filter(Boolean)) {
    const single = layer.filter((item) => item.kind !== "engine");
    for (let at = 0; at < single.length; at += columns) rows.push(single.slice(at, at + columns));
    for (const engine of layer.filter((item) => item.kind === "engine")) rows.push([engine]);
  }
  rows.forEach((row, index) => row.forEach((item) => (item.row = index)));
  return rows;
}

/** Edges between the items of a list; what is read of several inputs, or of a field, has a label. */
function edgesOf(items) {
  const byName = new Map(items.filter((item) => !item.isEnd).map((item) => [item.name, item]));
  const edges = [];
  for (const to of items) {
    for (const { port, source } of to.reads) {
      const [root, ...fields] = source.split(".");
      const from = byName.get(root);
      if (!from) continue;
      const words = [to.reads.length > 1 ? port : "", fields.join(".")];
      edges.push({ from, to, label: words.filter((word, index) => word && words.indexOf(word) === index).join(": ") });
    }
  }
  return edges;
}

function placeRow(drawing, row, area, top) {
  const width = (area.w - COLUMN_GAP * (row.length - 1)) / row.length;
  let bottom = top;
  row.forEach((item, index) => {
    const place = { x: area.x + index * (width + COLUMN_GAP), y: top, w: width };
    bottom = Math.max(bottom, placeItem(drawing, item, place));
  });
  return bottom;
}

/** Adds the boxes of an item; returns where it ends. Edges come to `item.box`, or to the queue before it. */
function placeItem(drawing, item, place) {
  if (item.kind === "root") {
    const w = Math.min(place.w, 260);
    item.box = { ...item, ...place, x: place.x + (place.w - w) / 2, w, h: ROOT_HEIGHT };
    drawing.boxes.push(item.box);
    return place.y + ROOT_HEIGHT;
  }
  if (item.kind === "node") {
    item.box = { ...item, ...place, h: NODE_HEIGHT };
    drawing.boxes.push(item.box);
    return place.y + NODE_HEIGHT;
  }
  return placeEngine(drawing, item, place);
}

function placeEngine(drawing, item, place) {
  const queue = { ...item, kind: "queue", x: place.x, y: place.y, w: place.w, h: QUEUE_HEIGHT };
  const top = place.y + QUEUE_HEIGHT + 8;
  const frame = { ...item, kind: "frame", x: place.x, y: top, w: place.w, h: 0 };
  const head = { ...item, kind: "node", isEngine: true, x: place.x, y: top, w: place.w, h: NODE_HEIGHT };
  drawing.boxes.push(queue, frame, head);
  const { node } = item;
  const list = { nodes: node.body, prefix: `${node.path}.`, roots: [[node.root, node.root_type]], end: null };
  const inner = { x: place.x + PADDING, y: top + NODE_HEIGHT + 12, w: place.w - 2 * PADDING };
  frame.h = placeList(drawing, list, inner) + PADDING - top;
  item.box = { ...frame };
  item.box.entry = queue;
  return top + frame.h;
}

/** Edges that leave or enter the same side are put side by side. */
function spread(edges) {
  for (const [end, mark] of [["from", "out"], ["to", "into"]]) {
    const direct = edges.filter((edge) => edge.channel === undefined);
    for (const edge of direct) {
      const same = direct.filter((other) => other[end] === edge[end]);
      const other = end === "from" ? "to" : "from";
      const sorted = [...same].sort((a, b) => a[other].box.x - b[other].box.x);
      edge[mark] = (sorted.indexOf(edge) + 1) / (same.length + 1);
    }
  }
}

/** An edge as the path of a curve: straight down to the next row, or around rows between at the right. */
function drawn(edge, room) {
  const from = edge.from.box;
  const to = edge.to.box.entry ?? edge.to.box;
  const common = { label: edge.label, from: edge.from.key, to: edge.to.key };
  if (edge.channel === undefined) {
    const [x1, y1, x2, y2] = [from.x + from.w * edge.out, from.y + from.h, to.x + to.w * edge.into, to.y];
    const middle = (y1 + y2) / 2;
    return { ...common, d: `M${x1} ${y1}C${x1} ${middle} ${x2} ${middle} ${x2} ${y2 - 1}`, tip: [x2, y2], isSide: false };
  }
  const lane = room.x + room.w + (edge.channel + 1) * CHANNEL;
  const [x1, y1, x2, y2] = [from.x + from.w, from.y + from.h / 2, to.x + to.w, to.y + to.h / 2];
  const d = `M${x1} ${y1}H${lane - 8}Q${lane} ${y1} ${lane} ${y1 + 8}V${y2 - 8}Q${lane} ${y2} ${lane - 8} ${y2}H${x2 + 1}`;
  return { ...common, d, tip: [x2, y2], isSide: true };
}
