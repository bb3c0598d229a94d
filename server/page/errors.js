// The last errors that clients were sent.

import { el, reconcile, setText } from "./dom.js";
import { clock, count } from "./format.js";

export class LastErrors {
  constructor() {
    this.rows = el("tbody");
    this.number = el("span", { class: "muted" });
    this.none = el("p", { class: "empty" }, "No error.");
    const columns = ["At", "Status", "Message", "Request"];
    const head = el("tr", {}, ...columns.map((name) => el("th", { scope: "col" }, name)));
    this.table = el("table", { class: "errors" }, el("thead", {}, head), this.rows);
    this.element = el("section", { class: "panel live", "aria-labelledby": "errors" },
      el("header", {}, el("h2", { id: "errors" }, "Last errors"), this.number), this.none, el("div", { class: "scroll bounded", tabindex: 0, role: "group", "aria-labelledby": "errors" }, this.table));
  }

  update(errors) {
    setText(this.number, errors.length ? count(errors.length) : "");
    this.none.hidden = errors.length > 0;
    this.table.hidden = errors.length === 0;
    reconcile(this.rows, errors, (error) => `${error.id} ${error.at}`, makeRow, () => {});
  }
}

function makeRow(error) {
  return el("tr", {},
    el("td", { class: "when" }, clock(error.at)),
    el("td", { class: "status bad" }, String(error.status)),
    el("td", { class: "message" }, error.message),
    el("td", { class: "id" }, el("code", { title: error.id }, error.id), el("span", { class: "muted where" }, `${error.model ?? ""} ${error.path}`)));
}
