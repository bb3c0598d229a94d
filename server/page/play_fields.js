// Fields of the forms, from tables. What the user left empty is in no request.

import { el } from "./dom.js";

/** Kind of a field → its input, and the value of that; undefined: not set. */
const KINDS = {
  number: {
    input: ({ min, max, placeholder }) => el("input", { type: "number", step: "any", min, max, placeholder }),
    read: (input) => (input.value === "" ? undefined : input.valueAsNumber),
  },
  text: {
    input: ({ placeholder }) => el("input", { type: "text", autocomplete: "off", placeholder }),
    read: (input) => input.value || undefined,
  },
  long: {
    input: ({ rows = 3, placeholder, required }) => el("textarea", { rows, placeholder, required }),
    read: (input) => input.value || undefined,
  },
  lines: {
    input: ({ rows = 2, placeholder, required }) => el("textarea", { rows, placeholder, required }),
    read: (input) => {
      const lines = input.value.split("\n").filter((line) => line.trim());
      return lines.length ? lines : undefined;
    },
  },
  choice: {
    input: ({ choices, empty = "default" }) =>
      el("select", {}, el("option", { value: "" }, empty), ...choices.map((name) => el("option", {}, name))),
    read: (input) => input.value || undefined,
  },
  flag: {
    input: () => el("input", { type: "checkbox" }),
    read: (input) => input.checked || undefined,
  },
  json: {
    input: ({ rows = 5, placeholder }) =>
      el("textarea", { rows, placeholder, class: "play-code", spellcheck: "false", oninput: checkJson }),
    read: (input) => (input.value.trim() ? JSON.parse(input.value) : undefined),
  },
  file: {
    input: ({ accept, required }) => el("input", { type: "file", accept, required }),
    read: (input) => input.files[0],
  },
};

/** The browser's own message at a field whose JSON cannot be read. */
function checkJson({ target }) {
  let problem = "";
  try {
    if (target.value.trim()) JSON.parse(target.value);
  } catch (error) {
    problem = `This is not JSON: ${error.message}`;
  }
  target.setCustomValidity(problem);
  target.toggleAttribute("aria-invalid", Boolean(problem));
}

let made = 0; // fields so far, for ids

/**
 * A group of fields.  Each is `{name, kind, label, hint, value, …}`; `value` is what stands in it at first,
 * `put(body, value)` writes it into a request where it is more than the field of its name.
 */
export class Fields {
  constructor(table) {
    this.table = table;
    this.inputs = new Map(table.map((field) => [field.name, KINDS[field.kind].input(field)]));
    this.element = el("div", { class: "play-fields" }, ...table.map((field) => this.labelled(field)));
    for (const input of this.inputs.values()) input.addEventListener("invalid", unfold);
    for (const { name, value } of table) if (value !== undefined) this.set(name, value);
  }

  labelled(field) {
    const input = this.inputs.get(field.name);
    input.id = `play-field-${++made}`;
    const label = el("label", { class: "play-label", for: input.id }, field.label ?? field.name);
    const hint = field.hint && el("span", { class: "play-hint", id: `${input.id}-hint` }, field.hint);
    if (hint) input.setAttribute("aria-describedby", hint.id);
    const parts = field.kind === "flag" ? [input, label] : [label, input];
    return el("div", { class: `play-field play-as-${field.kind}` }, parts, hint);
  }

  /** The value of one field, undefined where nothing is set. */
  get(name) {
    const { kind } = this.table.find((field) => field.name === name);
    return KINDS[kind].read(this.inputs.get(name));
  }

  set(name, value) {
    const input = this.inputs.get(name);
    input.value = value;
    input.dispatchEvent(new Event("input", { bubbles: true }));
  }

  /** Writes all that is set into the body of a request. */
  put(body) {
    for (const { name, put } of this.table) {
      const value = this.get(name);
      if (value === undefined) continue;
      if (put) put(body, value, this);
      else body[name] = value;
    }
    return body;
  }

  /** Whether every field can be read; the browser points to the first that cannot. */
  check() {
    return [...this.inputs.values()].every((input) => input.reportValidity());
  }

  get numSet() {
    return this.table.filter(({ name }) => this.inputs.get(name).validity.valid && this.get(name) !== undefined).length;
  }
}

/** Opens the folded parts around a field that the browser is about to point to. */
function unfold({ target }) {
  for (let part = target.closest("details"); part; part = part.parentElement.closest("details")) part.open = true;
}
