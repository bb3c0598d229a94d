// The frame of the page: which view is shown, for which model, and the feed that both read.

import * as api from "./api.js";
import { el, reconcile, setText } from "./dom.js";
import { Feed } from "./feed.js";
import { StatusView } from "./status.js";

const $ = (id) => document.getElementById(id);
const listeners = new Set();
const ENGINE_WORDS = {
  down: "is down: it is started again, and the numbers below are the last ones.",
  starting: "is starting: its models are being loaded.",
  draining: "ends: it takes no new requests.",
};
let snapshot = null;
let playground = null;

/** What views get: the server's API, and the models as they come and go. */
const context = {
  api,
  models: () => snapshot?.models ?? [],
  onModels: (callback) => (listeners.add(callback), () => listeners.delete(callback)),
};

const status = new StatusView($("status"), (model) => hash("status", model));
const feed = new Feed(show, showConnection);

/** `#/status/NAME` or `#/playground/NAME` → the view and the model; a name may have slashes. */
function route() {
  const [, view, ...name] = location.hash.split("/");
  return { view: view === "playground" ? "playground" : "status", model: decodeURIComponent(name.join("/")) || null };
}

export function hash(view, model) {
  return `#/${view}` + (model ? `/${encodeURIComponent(model)}` : "");
}

function show(next) {
  snapshot = next;
  banner(engineWords(next.engines));
  listModels(next.models);
  status.update(next);
  for (const callback of listeners) callback(next.models);
}

function listModels(models) {
  const names = models.flatMap((model) => [model.id]);
  const make = (name) => el("option", { value: name }, name);
  reconcile($("model"), names, (name) => name, make, () => {});
  const chosen = route().model ?? snapshot.model ?? "";
  if (document.activeElement !== $("model") && $("model").value !== chosen) $("model").value = chosen;
}

function showConnection(state, text) {
  document.body.dataset.connection = state;
  setText($("connection"), { live: "Live", connecting: "Connecting", lost: "Not connected", locked: "Needs a key" }[state]);
  status.connection(state);
  if (state === "live" || state === "connecting") return;
  const seen = snapshot ? " The numbers below are the last ones that arrived." : "";
  banner(`${text}${seen}${state === "lost" ? " Trying again." : ""}`);
}

/** What is wrong with engines; the numbers of one that is down are old. */
function engineWords(engines) {
  const wrong = engines.filter((engine) => engine.state !== "ready");
  status.engines(wrong.length === engines.length && wrong.some((engine) => engine.state === "down"));
  return wrong.map(({ engine, state }) => `${engines.length > 1 ? `Engine ${engine}` : "The engine"} ${ENGINE_WORDS[state] ?? state}`).join(" ");
}

function banner(text) {
  setText($("banner"), text);
  $("banner").hidden = !text;
}

async function showView() {
  const { view, model } = route();
  for (const each of ["status", "playground"]) $(each).hidden = each !== view;
  for (const link of document.querySelectorAll("nav a")) {
    link.href = hash(link.dataset.view, model);
    if (link.dataset.view === view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = view === "status" ? "Braid: status" : "Braid: playground";
  if (view === "playground") await openPlayground();
  if (feed.model !== model || !feed.run) feed.start(model);
}

async function openPlayground() {
  if (playground) return;
  try {
    const module = await (playground = import("./playground.js"));
    module.mount($("playground"), context);
  } catch {
    playground = null;
    $("playground").replaceChildren(el("p", { class: "empty" }, "This server has no playground."));
  }
}

$("model").addEventListener("change", () => (location.hash = hash(route().view, $("model").value)));
$("keys").addEventListener("click", async () => {
  if (await api.askKey()) feed.start();
});
window.addEventListener("hashchange", showView);
showView();
