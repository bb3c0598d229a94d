// The status view: what the chosen model and the server are doing.

import { el, reconcile, setText } from "./dom.js";

export function mountStatus(container) {
  const title = el("h1", {}, "Status");
  const rows = el("tbody");
  const head = el("tr", {}, ...["Model", "Task", "State", "Running", "Waiting"].map((name) => el("th", { scope: "col" }, name)));
  container.append(title, el("table", {}, el("thead", {}, head), rows));
  const make = () => el("tr", {}, ...Array.from({ length: 5 }, () => el("td")));
  const update = (row, model) => {
    const texts = [model.id, model.task, model.state, model.running, model.waiting];
    texts.forEach((text, index) => setText(row.children[index], text));
  };
  return {
    update: (snapshot) => {
      setText(title, snapshot.model ?? "Status");
      reconcile(rows, snapshot.models, (model) => model.id, make, update);
    },
    connection: (state) => container.classList.toggle("stale", state === "lost"),
  };
}
