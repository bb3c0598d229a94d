// Calls of tools: the user types what each gave, and the conversation goes on.

import { el } from "./dom.js";

export class ResultFields {
  /** `send` gets the messages of role "tool", one for each call. */
  constructor(calls, send) {
    const fields = calls.map(({ name, id }) => ({ id, input: el("textarea", { rows: 2, "aria-label": `Result of ${name}` }), name }));
    const onsubmit = (event) => {
      event.preventDefault();
      send(fields.map(({ id, input }) => ({ role: "tool", tool_call_id: id, content: input.value })));
    };
    this.element = el(
      "form",
      { class: "play-results", onsubmit },
      ...fields.map(({ name, input }) => el("label", { class: "play-field" }, el("span", { class: "play-label" }, `Result of ${name}`), input)),
      el("button", {}, fields.length > 1 ? "Send results" : "Send result"),
    );
  }
}
