// One reply being streamed: its choices, speed, progress and usage, for conversations and completions.

import { el } from "./dom.js";
import { oncePerFrame } from "./play_dom.js";
import { PromptProgress } from "./play_progress.js";
import { ReplyView } from "./play_reply.js";
import { Speed, newRequestId, replyEvents, send } from "./play_stream.js";

export class Turn {
  /** `served` is the model that computes it, of an adapter its model; `makeChoice` makes what the deltas of one choice are added to. */
  constructor(request, served, makeChoice) {
    Object.assign(this, { request, served, makeChoice, choices: [], views: [], usage: null, state: "running" });
    this.control = new AbortController();
    this.body = el("div", { class: "play-choices" });
    this.stats = el("div", { class: "play-stats" });
    this.end = el("p", { class: "visually-hidden", role: "status" });
    this.element = el("div", { class: "play-turn" }, this.body, this.stats, this.end);
    this.draw = oncePerFrame(() => this.show());
    this.onDraw = () => {};
  }

  stop() {
    this.control.abort();
  }

  /** Streams the reply to its end; never throws. */
  async run() {
    const id = newRequestId();
    this.speed = new Speed();
    this.progress = new PromptProgress(this.served, id);
    this.body.append(this.progress.element);
    try {
      const response = await send(this.request, { signal: this.control.signal, id });
      for await (const event of replyEvents(response)) this.add(event);
      this.state = "done";
    } catch (error) {
      this.state = this.control.signal.aborted ? "stopped" : "failed";
      if (this.state === "failed") this.body.append(el("p", { class: "play-error", role: "alert" }, error.message));
    } finally {
      this.finish();
    }
  }

  add({ choices, usage }) {
    for (const choice of choices) this.choice(choice.index).add(choice);
    if (usage) this.usage = usage;
    this.speed.count(usage?.completion_tokens);
    this.draw();
  }

  choice(index) {
    while (this.choices.length <= index) {
      const choice = this.makeChoice();
      this.choices.push(choice);
      this.views.push(new ReplyView(choice));
      this.body.append(this.views.at(-1).element);
    }
    return this.choices[index];
  }

  show() {
    if (this.state !== "running") return;
    if (this.speed.first) this.endProgress();
    for (const view of this.views) view.update();
    this.stats.textContent = this.summary();
    this.onDraw();
  }

  endProgress() {
    this.progress.stop();
    this.progress.element.remove();
  }

  finish() {
    this.endProgress();
    for (const view of this.views) view.finish();
    this.stats.textContent = this.summary();
    this.end.textContent = `Reply ${this.state}, ${this.speed.tokens} tokens`;
    this.onDraw();
  }

  /** Tokens, speed and time; at the end also the usage and why the reply ended. */
  summary() {
    const { tokens, perSecond, firstTokenMs } = this.speed;
    const parts = [`${tokens} tokens`];
    if (perSecond) parts.push(`${perSecond.toFixed(1)} tokens/s`);
    if (firstTokenMs) parts.push(`first token ${(firstTokenMs / 1000).toFixed(2)} s`);
    if (this.state !== "running") parts.push(...this.ending());
    return parts.join(" · ");
  }

  ending() {
    const ends = this.choices.map(({ finish }) => finish).filter(Boolean);
    const parts = [this.state === "done" ? `finish: ${[...new Set(ends)].join(", ")}` : this.state];
    if (!this.usage) return parts;
    const cached = this.usage.prompt_tokens_details?.cached_tokens;
    parts.unshift(`prompt ${this.usage.prompt_tokens}${cached ? ` (${cached} cached)` : ""}`);
    const thought = this.usage.completion_tokens_details?.reasoning_tokens;
    if (thought) parts.unshift(`reasoning ${thought}`);
    return parts;
  }
}
