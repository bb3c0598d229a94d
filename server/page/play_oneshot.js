// Forms with one request and one reply for each model: fields, a button, a pane for each model.

import { el } from "./dom.js";
import { copyButtons } from "./play_copy.js";
import { button } from "./play_dom.js";
import { Fields } from "./play_fields.js";
import { send } from "./play_stream.js";

/** A reply that comes in one piece; `show` makes elements of it. */
export class Answer {
  constructor(request, show) {
    Object.assign(this, { request, show, state: "running" });
    this.control = new AbortController();
    this.body = el("div", {});
    this.stats = el("div", { class: "play-stats", role: "status" }, "waiting …");
    this.element = el("div", { class: "play-turn" }, this.body, this.stats);
  }

  stop() {
    this.control.abort();
  }

  /** Never throws. */
  async run() {
    const began = performance.now();
    try {
      const reply = await read(await send(this.request, { signal: this.control.signal }));
      const seconds = ((performance.now() - began) / 1000).toFixed(2);
      this.body.append(...[this.show(reply, this.request)].flat());
      this.state = "done";
      this.stats.textContent = [`${seconds} s`, usage(reply)].filter(Boolean).join(" · ");
    } catch (error) {
      this.state = this.control.signal.aborted ? "stopped" : "failed";
      this.stats.textContent = this.state;
      if (this.state === "failed") this.body.append(el("p", { class: "play-error", role: "alert" }, error.message));
    }
  }
}

/** JSON, sound or text, by the type of the reply. */
function read(response) {
  const type = response.headers.get("Content-Type") ?? "";
  if (type.includes("json")) return response.json();
  return type.startsWith("text/") ? response.text() : response.blob();
}

function usage({ usage: used }) {
  if (used?.seconds) return `${used.seconds} s of sound`;
  return used?.total_tokens && `${used.total_tokens} tokens`;
}

/** One model's place for its reply. */
class Pane {
  constructor() {
    this.title = el("h2", { class: "play-model" });
    this.body = el("div", {});
    this.actions = el("div", { class: "play-actions" });
    this.element = el("section", { class: "play-pane" }, this.title, this.body, this.actions);
  }

  setModel({ id: model, base }) {
    this.served = base;
    if (this.model === model) return;
    this.model = model;
    this.title.textContent = model;
    this.element.setAttribute("aria-label", model);
    this.body.replaceChildren();
    this.actions.replaceChildren();
  }

  async run(turn) {
    this.turn = turn;
    this.body.replaceChildren(turn.element);
    this.actions.replaceChildren(...copyButtons(() => turn.request));
    await turn.run();
  }

  get runs() {
    return this.turn?.state === "running";
  }
}

/**
 * A form by its table: `{id, label, tasks, action, fields, settings, extra, request(model, fields, settings),
 * turn(request, served)}`.
 * `settings` are folded groups beside it, `extra(form)` elements below its fields.
 */
export class OneShot {
  constructor(spec) {
    this.spec = spec;
    this.fields = new Fields(spec.fields);
    this.settings = spec.settings?.();
    this.panes = [new Pane(), new Pane()];
    this.paneList = el("div", { class: "play-panes" }, ...this.panes.map(({ element }) => element));
    this.form = this.makeForm();
    const main = el("div", { class: "play-main" }, this.form, this.paneList);
    this.element = el("div", { class: `play-form${this.settings ? "" : " play-alone"}` }, main, this.settings?.element);
  }

  makeForm() {
    this.sendButton = el("button", { class: "primary" }, this.spec.action);
    this.stopButton = button("Stop", () => this.stop(), { disabled: true });
    const copies = copyButtons(() => this.request(this.panes[0].model));
    const actions = el("div", { class: "play-actions" }, this.sendButton, this.stopButton, el("span", { class: "play-push" }), ...copies);
    const onsubmit = (event) => {
      event.preventDefault();
      this.send();
    };
    const form = el("form", { class: "play-composer", onsubmit }, this.fields.element, actions);
    if (this.spec.extra) this.fields.element.after(this.spec.extra(this.fields, form));
    return form;
  }

  request(model) {
    return this.spec.request(model, this.fields, this.settings);
  }

  setModels(models) {
    for (const [i, pane] of this.panes.entries()) {
      pane.element.hidden = !models[i];
      if (models[i]) pane.setModel(models[i]);
    }
    this.paneList.classList.toggle("play-two", models.length > 1);
  }

  async send() {
    if (this.panes.some(({ runs }) => runs) || !(this.settings?.check() ?? true)) return;
    const active = this.panes.filter(({ element }) => !element.hidden);
    const runs = active.map((pane) => pane.run(this.spec.turn(this.request(pane.model), pane.served)));
    this.changed();
    await Promise.all(runs);
    this.changed();
  }

  stop() {
    for (const { turn } of this.panes) turn?.stop();
  }

  changed() {
    const busy = this.panes.some(({ runs }) => runs);
    this.sendButton.disabled = busy;
    this.stopButton.disabled = !busy;
  }
}

/** A form whose replies come in one piece; `show(reply, request)` makes elements of one. */
export const simple = (spec) => ({
  ...spec,
  create: () => new OneShot({ ...spec, turn: (request) => new Answer(request, spec.show) }),
});
