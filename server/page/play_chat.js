// Chat: one composer and one set of settings for one or two conversations.

import { el } from "./dom.js";
import { Conversation } from "./play_conversation.js";
import { copyButtons } from "./play_copy.js";
import { button } from "./play_dom.js";
import { Attachments, mediaOf } from "./play_media.js";
import { chatSettings } from "./play_settings.js";

class Chat {
  constructor() {
    this.settings = chatSettings();
    this.attachments = new Attachments();
    this.conversations = [0, 1].map(() => new Conversation(this.settings, () => this.changed()));
    this.panes = el("div", { class: "play-panes" }, ...this.conversations.map(({ element }) => element));
    this.composer = this.makeComposer();
    const main = el("div", { class: "play-main" }, this.panes, this.composer);
    this.element = el("div", { class: "play-form" }, main, this.settings.element);
    this.changed();
  }

  makeComposer() {
    const onkeydown = (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.send();
    };
    this.text = el("textarea", { rows: 3, "aria-label": "Message", placeholder: "Message: Enter sends, Shift+Enter begins a line", onkeydown });
    this.sendButton = el("button", { class: "primary" }, "Send");
    this.stopButton = button("Stop", () => this.stop());
    this.clearButton = button("New chat", () => this.clear());
    const copies = copyButtons(() => this.conversations[0].request(this.written()));
    const onsubmit = (event) => (event.preventDefault(), this.send());
    const actions = el("div", { class: "play-actions" }, this.sendButton, this.stopButton, this.attachments.button, this.clearButton, el("span", { class: "play-push" }), ...copies);
    const form = el("form", { class: "play-composer", onsubmit }, this.attachments.list, this.text, this.attachments.input, actions);
    this.attachments.listen(form);
    return form;
  }

  /** Conversations whose models are chosen. */
  get active() {
    return this.conversations.filter(({ element }) => !element.hidden);
  }

  async setModels(models) {
    for (const [i, conversation] of this.conversations.entries()) {
      conversation.element.hidden = !models[i];
      if (models[i]) conversation.setModel(models[i]);
    }
    this.panes.classList.toggle("play-two", models.length > 1);
    const taken = await Promise.all(models.map((model) => mediaOf(model.base)));
    this.attachments.allow(taken.reduce((all, some) => all.filter((kind) => some.includes(kind))));
  }

  /** What the composer holds, as a message; null where it is empty. */
  written() {
    const content = this.attachments.content(this.text.value);
    return this.text.value.trim() || this.attachments.parts.length ? { role: "user", content } : null;
  }

  send() {
    const message = this.written();
    if (!message || this.running || !this.settings.check()) return;
    for (const conversation of this.active) conversation.say(message);
    this.text.value = "";
    this.attachments.clear();
  }

  get running() {
    return this.conversations.some(({ runs }) => runs);
  }

  stop() {
    for (const { turn } of this.conversations) turn?.stop();
  }

  clear() {
    for (const conversation of this.conversations) conversation.clear();
    this.text.focus();
  }

  changed() {
    this.sendButton.disabled = this.running;
    this.stopButton.disabled = !this.running;
    this.element.classList.toggle("play-busy", this.running);
  }
}

export const chat = { id: "chat", label: "Chat", tasks: ["chat"], create: () => new Chat() };
