// Requests, and what their streams add up to. No elements here.

import { eventsOf, request as fetched } from "./api.js";

/** Asked for in each streamed request, so that every piece says how many tokens there are so far. */
export const STREAMED = { stream: true, stream_options: { include_usage: true, continuous_usage_stats: true } };

/** The objects of a streamed reply. Throws what the server reports in it. */
export async function* replyEvents(response) {
  for await (const data of eventsOf(response)) {
    if (data === "[DONE]") return;
    const event = JSON.parse(data);
    if (event.error) throw new Error(event.error.message ?? event.error);
    yield event;
  }
}

/** An id for a request, by which the feed of the server lists it. */
export const newRequestId = () => `play-${Date.now().toString(36)}${Math.random().toString(36).slice(2, 8)}`;

/** Sends a request `{path, body}` or `{path, form}`; throws an error with the server's message where it is refused. */
export function send({ path, body, form }, { signal, id = newRequestId() } = {}) {
  const headers = { "X-Request-Id": id };
  if (form) return fetched(path, { method: "POST", body: formData(form), headers, signal });
  return fetched(path, { json: body, headers, signal });
}

function formData(fields) {
  const form = new FormData();
  for (const [name, value] of Object.entries(fields)) form.append(name, value);
  return form;
}

/** How fast a reply comes: milliseconds until its first token, and tokens per second after that. */
export class Speed {
  constructor() {
    this.began = performance.now();
    this.first = null;
    this.tokens = 0;
  }

  /** Call with the number of tokens so far. */
  count(tokens) {
    if (!tokens) return;
    this.now = performance.now();
    this.first ??= { at: this.now, tokens };
    this.tokens = tokens;
  }

  get firstTokenMs() {
    return this.first && this.first.at - this.began;
  }

  /** Null until there are tokens after the first ones. */
  get perSecond() {
    const passed = this.first ? (this.now - this.first.at) / 1000 : 0;
    return passed > 0 ? (this.tokens - this.first.tokens) / passed : null;
  }
}

/** One choice of a reply to a conversation, added up from its deltas. */
export class ChatChoice {
  constructor() {
    Object.assign(this, { content: "", reasoning: "", calls: [], tokens: [], finish: null });
  }

  add({ delta, logprobs, finish_reason: finish }) {
    this.content += delta.content ?? "";
    this.reasoning += delta.reasoning ?? delta.reasoning_content ?? "";
    for (const call of delta.tool_calls ?? []) this.addCall(call);
    this.tokens.push(...(logprobs?.content ?? []).map(chatToken));
    this.finish = finish ?? this.finish;
  }

  addCall({ index, id, function: { name, arguments: piece } }) {
    this.calls[index] ??= { id: "", name: "", arguments: "" };
    const call = this.calls[index];
    call.id ||= id ?? "";
    call.name += name ?? "";
    call.arguments += piece ?? "";
  }

  /** The message that stands for it in the next request. */
  message() {
    const message = { role: "assistant", content: this.content || (this.calls.length ? null : "") };
    if (this.reasoning) message.reasoning = this.reasoning;
    if (this.calls.length)
      message.tool_calls = this.calls.map(({ id, ...call }) => ({ id, type: "function", function: call }));
    return message;
  }
}

/** A token as the view takes it: `{bytes | text, logprob, top: [{text, logprob}]}`. */
const chatToken = ({ bytes, token, logprob, top_logprobs: top }) => ({
  bytes,
  text: token,
  logprob,
  top: top.map((each) => ({ text: each.token || `bytes ${each.bytes}`, logprob: each.logprob })),
});

/** One choice of a completion. */
export class TextChoice {
  constructor() {
    Object.assign(this, { content: "", reasoning: "", calls: [], tokens: [], finish: null });
  }

  add({ text, logprobs, finish_reason: finish }) {
    this.content += text;
    for (const [i, token] of (logprobs?.tokens ?? []).entries()) {
      const top = Object.entries(logprobs.top_logprobs?.[i] ?? {});
      this.tokens.push({
        text: token,
        logprob: logprobs.token_logprobs[i],
        top: top.map(([name, logprob]) => ({ text: name, logprob })).sort((a, b) => b.logprob - a.logprob),
      });
    }
    this.finish = finish ?? this.finish;
  }
}
