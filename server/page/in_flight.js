// The requests in flight, a row each, and the button that cancels one.

import { postJSON } from "./api.js";
import { assign, colourOf, keyOf } from "./colours.js";
import { ask, el, notify, reconcile, setAttribute, setText, svg } from "./dom.js";
import { age, count } from "./format.js";

const COLUMNS = [
  ["Request", ""], ["State", ""], ["Prompt", "wide"], ["Output", "number"], ["Age", "number"],
  ["Blocks", "number less"], ["", "number"],
];

export class InFlight {
  constructor() {
    this.rows = el("tbody");
    this.number = el("span", { class: "muted" });
    this.none = el("p", { class: "empty" }, "No request is in flight.");
    const head = el("tr", {}, ...COLUMNS.map(([name, kind]) => el("th", { scope: "col", class: kind }, name || el("span", { class: "visually-hidden" }, "Cancel"))));
    this.table = el("table", { class: "in-flight" }, el("thead", {}, head), this.rows);
    this.element = el("section", { class: "panel live", "aria-labelledby": "in-flight" },
      el("header", {}, el("h2", { id: "in-flight" }, "In flight"), this.number),
      this.none, el("div", { class: "scroll bounded", tabindex: 0, role: "group", "aria-labelledby": "in-flight" }, this.table));
  }

  /** `needsAdminKey`: where the server has admin keys, one of them cancels. */
  update(requests, needsAdminKey) {
    this.needsAdminKey = needsAdminKey;
    assign(requests.map(keyOf));
    setText(this.number, requests.length ? count(requests.length) : "");
    this.none.hidden = requests.length > 0;
    this.table.hidden = requests.length === 0;
    reconcile(this.rows, requests, keyOf, (request) => makeRow(request, () => this.cancel(request.id)), updateRow);
  }

  async cancel(id) {
    const why = el("p", {}, "Its client gets what was generated so far, with finish reason “abort”.");
    const sure = await ask({ title: "Cancel this request?", body: [el("code", {}, id), why], action: "Cancel request", dangerous: true });
    if (!sure) return;
    try {
      await postJSON(`v1/requests/${encodeURIComponent(id)}/cancel`, {}, { admin: this.needsAdminKey });
      notify(`${id} is cancelled.`);
    } catch (error) {
      notify(error.status === 404 ? `${id} has ended already.` : error.message, "error");
    }
  }
}

function makeRow(request, onCancel) {
  const parts = {
    swatch: el("span", { class: `swatch s${colourOf(keyOf(request))}` }),
    state: el("td", { class: "state" }),
    cached: svg("rect", { class: "cached", height: 8 }),
    done: svg("rect", { class: "done", height: 8 }),
    prompt: el("span", { class: "numbers" }),
    output: el("td", { class: "number" }),
    age: el("td", { class: "number" }),
    blocks: el("td", { class: "number less" }),
  };
  const bar = svg("svg", { class: "progress", viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" }, parts.done, parts.cached);
  const name = request.choice ? `${request.id} choice ${request.choice}` : request.id;
  const id = el("td", { class: "id" }, parts.swatch, el("code", { title: name }, name), request.adapter && el("span", { class: "tag" }, request.adapter));
  const cancel = el("button", { type: "button", class: "small", "aria-label": `Cancel ${name}`, onclick: onCancel }, "Cancel");
  const row = el("tr", {}, id, parts.state, el("td", { class: "wide" }, el("div", { class: "prompt" }, bar, parts.prompt)), parts.output, parts.age, parts.blocks, el("td", { class: "number" }, cancel));
  row.parts = parts;
  return row;
}

function updateRow(row, request) {
  const { parts } = row;
  const of = Math.max(1, request.prompt_tokens);
  setText(parts.state, request.state);
  setAttribute(parts.state, "data-state", request.state);
  setAttribute(parts.done, "width", ((100 * request.prompt_done) / of).toFixed(1));
  setAttribute(parts.cached, "width", ((100 * request.cached_tokens) / of).toFixed(1));
  const cached = request.cached_tokens ? `, ${count(request.cached_tokens)} cached` : "";
  setText(parts.prompt, `${count(request.prompt_done)} / ${count(request.prompt_tokens)}${cached}`);
  setText(parts.output, `${count(request.output_tokens)} / ${count(request.max_tokens)}`);
  setText(parts.age, age(request.age_s));
  setText(parts.blocks, count(request.blocks));
}
