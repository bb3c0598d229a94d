// What a request waits for until its first token: its place in the feed of the server.

import { getJSON } from "./api.js";
import { el } from "./dom.js";

const PERIOD_MS = 500;

export class PromptProgress {
  constructor(model, id) {
    Object.assign(this, { model, id });
    this.words = el("span", {}, "waiting for the first token …");
    this.bar = el("progress", { "aria-label": "Prompt" });
    this.element = el("div", { class: "play-progress" }, this.bar, this.words);
    this.timer = setInterval(() => this.look(), PERIOD_MS);
  }

  async look() {
    if (this.looks) return;
    this.looks = true;
    try {
      const { requests } = await getJSON(`v1/status?model=${encodeURIComponent(this.model)}`);
      const own = requests.find(({ id }) => id === this.id);
      if (own) this.show(own);
    } catch {
      this.stop(); // the request itself reports what is wrong
    } finally {
      this.looks = false;
    }
  }

  show({ state, prompt_done: done, prompt_tokens: total, cached_tokens: cached }) {
    this.bar.max = total;
    this.bar.value = done;
    const known = cached ? `, ${cached} of them cached` : "";
    this.words.textContent = `${state}: ${done} of ${total} prompt tokens${known}`;
  }

  stop() {
    clearInterval(this.timer);
  }
}
