// A request as a command of curl, and as a program with OpenAI's Python client.

import { address, hasKey } from "./api.js";
import { el } from "./dom.js";
import { button } from "./play_dom.js";

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/** `request` is `{path, body}` or `{path, form}`; the key itself is never copied, but read from OPENAI_API_KEY. */
export function asCurl({ path, body, form, file }) {
  const lines = [`curl -sN ${quoted(address(path))}`];
  if (hasKey()) lines.push(`-H "Authorization: Bearer $OPENAI_API_KEY"`);
  if (form) lines.push(...Object.entries(form).map(([name, value]) => `-F ${quoted(formField(name, value))}`));
  else lines.push("-H 'Content-Type: application/json'", "--data-binary @- <<'END'");
  if (file) lines.splice(1, 0, `-o ${file}`);
  return lines.join(" \\\n  ") + (form ? "\n" : `\n${JSON.stringify(body, null, 2)}\nEND\n`);
}

const formField = (name, value) =>
  value instanceof Blob ? `${name}=@"${value.name.replaceAll(/["\\]/g, "\\$&")}"` : `${name}=${value}`;

const SAMPLING = ["model", "n", "stream", "stream_options", "temperature", "top_p", "max_tokens", "seed", "stop",
  "presence_penalty", "frequency_penalty", "logprobs", "logit_bias"];

/** Path → the client's method, its own parameters, and what shows the reply. */
const METHODS = {
  "/v1/chat/completions": {
    call: "chat.completions.create",
    own: [...SAMPLING, "messages", "top_logprobs", "tools", "tool_choice", "parallel_tool_calls", "response_format", "reasoning_effort"],
  },
  "/v1/completions": { call: "completions.create", own: [...SAMPLING, "prompt", "echo"] },
  "/v1/embeddings": { call: "embeddings.create", own: ["model", "input", "encoding_format", "dimensions"] },
  "/v1/audio/speech": { call: "audio.speech.create", own: ["model", "input", "voice", "response_format", "speed"], file: true },
  "/v1/audio/transcriptions": {
    call: "audio.transcriptions.create",
    own: ["model", "file", "language", "prompt", "response_format", "temperature", "timestamp_granularities"],
  },
  "/v1/audio/translations": {
    call: "audio.translations.create",
    own: ["model", "file", "prompt", "response_format", "temperature"],
  },
};

const WORDS = { true: "True", false: "False", null: "None" };

/** A JSON value as a literal of Python. */
function literal(value, indent = "") {
  const deeper = `${indent}    `;
  if (value instanceof Blob) return `open(${JSON.stringify(value.name)}, "rb")`;
  if (value === null || typeof value === "boolean") return WORDS[value];
  if (typeof value !== "object") return JSON.stringify(value);
  const items = Array.isArray(value)
    ? value.map((item) => literal(item, deeper))
    : Object.entries(value).map(([name, item]) => `${JSON.stringify(name)}: ${literal(item, deeper)}`);
  const [open, close] = Array.isArray(value) ? "[]" : "{}";
  return items.length ? `${open}\n${deeper}${items.join(`,\n${deeper}`)},\n${indent}${close}` : open + close;
}

export function asPython({ path, body, form, file }) {
  const fields = body ?? withLists(form);
  const method = METHODS[path];
  const key = hasKey() ? "" : ', api_key="none"';
  const lines = [`from openai import OpenAI\n\nclient = OpenAI(base_url="${address("v1")}"${key})\n`];
  lines.push(method ? call(method, fields) : post(path, fields));
  lines.push(shown(fields, file));
  return lines.join("");
}

/** Fields of an upload as the client takes them: it writes the brackets of lists itself. */
function withLists(form) {
  const entries = Object.entries(form);
  return Object.fromEntries(entries.map(([name, value]) => (name.endsWith("[]") ? [name.slice(0, -2), [value]] : [name, value])));
}

function call({ call: name, own }, fields) {
  const others = Object.fromEntries(Object.entries(fields).filter(([field]) => !own.includes(field)));
  const given = own.filter((field) => fields[field] !== undefined).map((field) => `${field}=${literal(fields[field], "    ")}`);
  if (Object.keys(others).length) given.push(`extra_body=${literal(others, "    ")}`);
  return `reply = client.${name}(\n    ${given.join(",\n    ")},\n)\n`;
}

/** Paths that the client has no method for. */
function post(path, fields) {
  const under = path.replace(/^\/v1/, "");
  return `reply = client.post(\n    "${under}",\n    body=${literal(fields, "    ")},\n    cast_to=object,\n)\n`;
}

function shown(fields, file) {
  if (file) return `reply.write_to_file(${JSON.stringify(file)})\n`;
  return fields.stream ? "for chunk in reply:\n    print(chunk.model_dump_json())\n" : "print(reply)\n";
}

/** Two buttons that copy what `request()` returns. */
export function copyButtons(request) {
  const forms = [
    ["curl", asCurl],
    ["Python", asPython],
  ];
  return forms.map(([name, form]) =>
    button(`Copy as ${name}`, ({ target }) => copy(target, form(request())), { class: "small" }),
  );
}

/** To the clipboard; where the browser has none (a page without https), into a box to copy from. */
export async function copy(near, text) {
  try {
    await navigator.clipboard.writeText(text);
    said(near, "copied");
  } catch {
    const area = el("textarea", { readonly: true, rows: 12, class: "play-code", "aria-label": "Text to copy" }, text);
    const close = button("Close", () => dialog.remove());
    const dialog = el("dialog", { class: "play-dialog", onclose: () => dialog.remove(), "aria-label": "Copy" }, area, close);
    near.after(dialog);
    dialog.showModal();
    area.select();
  }
}

/** A word beside a button that leaves by itself. */
function said(near, word) {
  const note = el("span", { role: "status", class: "play-said" }, word);
  near.after(note);
  setTimeout(() => note.remove(), 2000);
}
