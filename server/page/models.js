// The models of the server with their adapters: loaded and unloaded here by those who may.

import { request } from "./api.js";
import { ask, el, notify, reconcile, setAttribute, setText } from "./dom.js";
import { bytes, count } from "./format.js";

const LOADS = ["unloaded", "failed"];
let needsAdminKey = false;

export class Models {
  constructor(hrefOf) {
    this.hrefOf = hrefOf;
    this.rows = el("tbody");
    const columns = [["Model", ""], ["State", ""], ["", "number"]];
    const head = el("tr", {}, ...columns.map(([name, kind]) => el("th", { scope: "col", class: kind }, name || el("span", { class: "visually-hidden" }, "Load or unload"))));
    this.element = el("section", { class: "panel live", "aria-labelledby": "models" },
      el("header", {}, el("h2", { id: "models" }, "Models")),
      el("div", { class: "scroll" }, el("table", {}, el("thead", {}, head), this.rows)));
  }

  update({ models, model: chosen, server }) {
    needsAdminKey = server.needs_admin_key;
    reconcile(this.rows, models, (model) => model.id, (model) => this.makeRow(model), (row, model) => updateRow(row, model, chosen));
  }

  makeRow(model) {
    const parts = {
      link: el("a", { href: this.hrefOf(model.id) }, model.id), adapters: el("span", { class: "adapters" }),
      about: el("small"), state: el("span", { class: "state" }), requests: el("small"),
      button: el("button", { type: "button", class: "small" }),
    };
    const row = el("tr", {}, el("th", { scope: "row", class: "name" }, parts.link, parts.about, parts.adapters), el("td", {}, parts.state, parts.requests), el("td", { class: "number" }, parts.button));
    parts.button.addEventListener("click", () => act(row.model));
    row.parts = parts;
    return row;
  }
}

function updateRow(row, model, chosen) {
  const { parts } = row;
  row.model = model;
  setAttribute(parts.link, "aria-current", model.id === chosen ? "true" : null);
  setText(parts.about, [model.task, model.bytes && bytes(model.bytes), model.on_request && "loads on request"].filter(Boolean).join(", "));
  setText(parts.state, model.share === null ? model.state : `${model.state} ${Math.floor(100 * model.share)} %`);
  setAttribute(parts.state, "data-state", model.state);
  setAttribute(parts.state, "title", model.problems.join("\n") || model.doing || null);
  const busy = [model.running && `${count(model.running)} running`, model.waiting && `${count(model.waiting)} waiting`];
  setText(parts.requests, busy.filter(Boolean).join(", "));
  const verb = model.state === "ready" ? "Unload" : LOADS.includes(model.state) ? "Load" : "";
  setText(parts.button, verb);
  setAttribute(parts.button, "aria-label", `${verb} ${model.id}`);
  parts.button.hidden = !verb;
  reconcile(parts.adapters, model.adapters, (adapter) => adapter.id, makeAdapter, (tag, adapter) => setAttribute(tag, "title", adapter.problem));
}

function makeAdapter(adapter) {
  const remove = el("button", { type: "button", "aria-label": `Unload adapter ${adapter.id}`, onclick: () => unloadAdapter(adapter.id) }, "×");
  return el("span", { class: "tag" }, adapter.id, remove);
}

async function act(model) {
  const isLoad = LOADS.includes(model.state);
  if (!isLoad) {
    const why = el("p", {}, "Its requests end first; then its memory is free. A later request may need to load it again.");
    if (!(await ask({ title: `Unload ${model.id}?`, body: [why], action: "Unload", dangerous: true }))) return;
  }
  await post(isLoad ? "models/load" : "models/unload", { model: model.id }, `${model.id} is ${isLoad ? "loaded" : "unloaded"}.`);
}

async function unloadAdapter(name) {
  if (!(await ask({ title: `Unload adapter ${name}?`, action: "Unload", dangerous: true }))) return;
  await post("v1/unload_lora_adapter", { lora_name: name }, `${name} is unloaded.`);
}

/** Ask which folder becomes an adapter of which name. */
export async function loadAdapter(model) {
  const field = (name, label) => el("label", { class: "field" }, label, el("input", { name, required: true, autocomplete: "off" }));
  const body = [field("lora_name", "Name of the adapter"), field("lora_path", "Folder, below that of the model's adapters")];
  const values = await ask({ title: `Load an adapter of ${model}`, body, action: "Load" });
  if (values) await post("v1/load_lora_adapter", { ...values, base_model_name: model }, `${values.lora_name} is loaded.`);
}

async function post(path, json, done) {
  try {
    await request(path, { json, admin: needsAdminKey });
    notify(done);
  } catch (error) {
    notify(error.message, "error");
  }
}
