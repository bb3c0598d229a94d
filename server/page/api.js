// Requests to this server: the key, JSON, server-sent events, and errors in words.

import { ask, el } from "./dom.js";

const keys = { api: "", admin: "" };
/** In memory only: a reload of the page asks again. */
let asking = null;

/** What the server answered instead of what was asked for. */
export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** An address of this server, also where a proxy serves the page under a prefix. */
export function address(path) {
  return new URL(path.replace(/^\//, ""), document.baseURI).href;
}

/**
 * A fetch with the key. Answers of 400 and above are thrown as ApiError; at 401 a key is asked for once and
 * the request is made again. `admin: true` sends the admin key.
 */
export async function request(path, { admin = false, json, headers = {}, ...options } = {}) {
  const send = () => {
    const key = (admin && keys.admin) || keys.api;
    const sent = { ...headers, ...(key ? { Authorization: `Bearer ${key}` } : {}) };
    if (json === undefined) return fetch(address(path), { ...options, headers: sent });
    const body = JSON.stringify(json);
    return fetch(address(path), { method: "POST", ...options, headers: { "Content-Type": "application/json", ...sent }, body });
  };
  let response = await send();
  while (response.status === 401 && (await askKey(admin ? "admin" : "api"))) response = await send();
  if (!response.ok) throw new ApiError(response.status, await errorText(response));
  return response;
}

/** The JSON of an answer; `options` as of `request`. */
export async function getJSON(path, options) {
  return (await request(path, options)).json();
}

export function postJSON(path, json, options = {}) {
  return getJSON(path, { ...options, json });
}

/**
 * The `data` of each event of a stream, as text, while it arrives. Ends when the stream ends; with
 * `options.signal` aborted it throws an AbortError.
 */
export async function* events(path, options = {}) {
  const response = await request(path, { ...options, headers: { Accept: "text/event-stream", ...options.headers } });
  yield* eventsOf(response);
}

/** The same of a response that has begun. */
export async function* eventsOf(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const parts = (rest + value).split(/\r?\n\r?\n/);
      rest = parts.pop();
      for (const part of parts) {
        const lines = part.split(/\r?\n/).filter((line) => line.startsWith("data:"));
        if (lines.length) yield lines.map((line) => line.slice(5).trimStart()).join("\n");
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** The message of OpenAI's, Anthropic's and OVMS's errors; else the answer's text. */
export async function errorText(response) {
  const text = await response.text().catch(() => "");
  try {
    const body = JSON.parse(text);
    const error = body.error ?? body;
    return String(error.message ?? error.detail ?? error);
  } catch {
    return text.slice(0, 500) || `${response.status} ${response.statusText}`;
  }
}

/** Whether a key was given to the page: one of the kind, or any. */
export function hasKey(kind) {
  return Boolean(kind ? keys[kind] : keys.api || keys.admin);
}

/** Whether a request waits for a key. */
export function isAsking() {
  return asking !== null;
}

/** Ask for a key in a dialog; true when one was given. All that wait for a key share one dialog. */
export function askKey(kind = "api") {
  asking ??= keyDialog(kind).finally(() => (asking = null));
  return asking;
}

async function keyDialog(kind) {
  const name = kind === "admin" ? "Admin key" : "API key";
  const input = el("input", { name: "key", type: "password", autocomplete: "off", required: true, autofocus: true });
  const why =
    kind === "admin" ? "This needs an admin key (BRAID_ADMIN_KEYS)." : "This server needs a key (BRAID_API_KEYS).";
  const where = "It stays in the memory of this page: a reload asks again.";
  const body = [el("p", {}, `${why} ${where}`), el("label", { class: "field" }, name, input)];
  const values = await ask({ title: name, body, action: "Use key" });
  if (!values?.key) return false;
  keys[kind] = values.key.trim();
  return true;
}
