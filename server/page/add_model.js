// A model of a hub by its name: fetched by the server, with its progress, until it is served or cancelled.

import { eventsOf, getJSON, hasKey, request } from "./api.js";
import { ask, el, notify, setText } from "./dom.js";
import { bytes } from "./format.js";

const ENDS = ["success", "failed", "cancelled"];
const LOOK_MS = 5000;
const WORDS = { resolving: "looking it up", waiting: "waiting for another process", verifying: "verifying", converting: "converting" };

export class AddModel {
  constructor() {
    this.admin = false;
    this.shown = new Set();
    this.looked = -Infinity;
    this.rows = el("ul", { class: "pulls", "aria-label": "Models that are fetched" });
    this.button = el("button", { type: "button", class: "small", onclick: () => this.open() }, "Add a model");
  }

  /** Show what others have the server fetch, now and then; no key is asked for. */
  async look(admin) {
    this.admin = admin;
    if (performance.now() - this.looked < LOOK_MS || (admin && !hasKey("admin"))) return;
    this.looked = performance.now();
    const listed = await getJSON("models/pull", { admin }).catch(() => ({ data: [] }));
    for (const pull of listed.data) {
      if (ENDS.includes(pull.status) || this.shown.has(pull.id)) continue;
      request(`models/pull/${pull.id}`, { admin, headers: { Accept: "text/event-stream" } })
        .then((response) => this.follow(pull.name, response))
        .catch(() => {});
    }
  }

  async open() {
    const field = (name, label, settings) => el("label", { class: "field" }, label, el("input", { name, autocomplete: "off", ...settings }));
    const body = [
      field("model", "Name on a hub, as Qwen/Qwen3-4B-GGUF:Q4_K_M", { required: true, autofocus: true }),
      field("as", "Name here, if another one", {}),
    ];
    const values = await ask({ title: "Add a model", body, action: "Fetch" });
    if (values?.model) await this.fetch(values);
  }

  /** The same name again joins the fetch that runs. */
  async fetch(values) {
    const name = values.model.trim();
    const json = { model: name, ...(values.as ? { as: values.as.trim() } : {}) };
    try {
      const response = await request("models/pull", { json, admin: this.admin });
      await this.follow(name, response);
    } catch (error) {
      notify(error.message, "error");
    }
  }

  /** One row for a pull, whoever asked for it: the same events may be followed already. */
  async follow(name, response) {
    let row = null;
    let last = null;
    try {
      for await (const data of eventsOf(response)) {
        if (data === "[DONE]") break;
        last = JSON.parse(data);
        if (row === null) {
          if (this.shown.has(last.id)) return;
          this.shown.add(last.id);
          row = new Row(name, (id) => this.cancel(id));
          this.rows.append(row.element);
        }
        row.update(last);
      }
    } finally {
      if (row !== null) {
        row.element.remove();
        this.shown.delete(last.id);
      }
    }
    if (last?.status === "success" && !last.error) notify(`${last.model} is fetched.`);
    else notify(last?.error || `${name} is not fetched: ${last?.status ?? "the connection ended"}`, "error");
  }

  async cancel(id) {
    try {
      await request(`models/pull/${id}`, { method: "DELETE", admin: this.admin });
    } catch (error) {
      notify(error.message, "error");
    }
  }
}

class Row {
  constructor(name, cancel) {
    this.text = el("small", { role: "status" });
    this.bar = el("progress", { max: "1", "aria-label": `How much of ${name} is fetched` });
    const button = el("button", { type: "button", class: "small", "aria-label": `Cancel ${name}`, onclick: () => cancel(this.id) }, "Cancel");
    this.element = el("li", {}, el("span", { class: "name" }, name), this.bar, this.text, button);
  }

  update(event) {
    this.id = event.id;
    if (event.total) this.bar.value = event.completed / event.total;
    const size = event.total ? `${bytes(event.completed)} of ${bytes(event.total)}` : "";
    setText(this.text, [WORDS[event.status] ?? "", size, event.message].filter(Boolean).join(" · "));
  }
}
