// A conversation with one model: its messages and their views; each can be edited or asked again.

import { el } from "./dom.js";
import { copy, copyButtons } from "./play_copy.js";
import { button } from "./play_dom.js";
import { attachmentView, textOf } from "./play_media.js";
import { ChatChoice, STREAMED } from "./play_stream.js";
import { ResultFields } from "./play_tools.js";
import { Turn } from "./play_turn.js";

const PATH = "/v1/chat/completions";

export class Conversation {
  /** `settings` are shared by the conversations side by side; `onChange` is called when a reply begins or ends. */
  constructor(settings, onChange) {
    Object.assign(this, { settings, onChange, entries: [], turn: null });
    this.title = el("h2", { class: "play-model" });
    this.log = el("div", { class: "play-log", role: "log", "aria-live": "off", tabindex: "0" });
    this.element = el("section", { class: "play-pane" }, this.title, this.log);
  }

  setModel({ id: model, base }) {
    this.model = model;
    this.served = base;
    this.title.textContent = model;
    this.log.setAttribute("aria-label", `Conversation with ${model}`);
    this.element.setAttribute("aria-label", model);
  }

  get runs() {
    return this.turn?.state === "running";
  }

  clear() {
    this.turn?.stop();
    this.entries = [];
    this.log.replaceChildren();
  }

  /** The body of the next request, with `message` as the user's. */
  request(message) {
    const messages = this.entries.map((entry) => entry.message());
    const system = this.settings.get("system");
    if (system) messages.unshift({ role: "system", content: system });
    if (message) messages.push(message);
    return { path: PATH, body: { ...this.settings.put({ model: this.model, messages }), ...STREAMED } };
  }

  /** Sends the user's message. */
  say(message) {
    this.add(new UserEntry(this, message));
    return this.reply();
  }

  add(entry) {
    this.entries.push(entry);
    this.log.append(entry.element);
    this.follow(true);
  }

  /** Removes a message and all after it. */
  cut(entry) {
    const from = this.entries.indexOf(entry);
    for (const removed of this.entries.splice(from)) removed.element.remove();
  }

  async reply() {
    const turn = new Turn(this.request(), this.served, () => new ChatChoice());
    this.turn = turn;
    turn.onDraw = () => this.follow();
    const entry = new ReplyEntry(this, turn);
    this.add(entry);
    this.onChange();
    await turn.run();
    entry.finish();
    this.follow();
    this.onChange();
  }

  /** Scrolls to the end, unless the reader has scrolled away from it. */
  follow(always = false) {
    const { log } = this;
    const away = log.scrollHeight - log.scrollTop - log.clientHeight;
    const grown = log.scrollHeight - (this.height ?? 0);
    if (always || away - grown < 40) log.scrollTop = log.scrollHeight;
    this.height = log.scrollHeight;
  }
}

/** A message of the user: text and what is attached to it. */
class UserEntry {
  constructor(conversation, message) {
    this.conversation = conversation;
    this.body = el("div", { class: "play-message" });
    this.element = el("article", { class: "play-entry play-user", "aria-label": "You" }, this.body);
    this.show(message);
  }

  message() {
    return this.content;
  }

  show(message) {
    this.content = message;
    const edit = button("Edit", () => this.edit(), { class: "small" });
    this.body.replaceChildren(
      ...attachmentView(message.content),
      el("div", { class: "play-text" }, textOf(message.content)),
      el("div", { class: "play-actions" }, edit),
    );
  }

  edit() {
    const area = el("textarea", { rows: 3, "aria-label": "Edit the message" });
    area.value = textOf(this.content.content);
    const save = button("Send again", () => this.save(area.value), { class: "small" });
    const cancel = button("Cancel", () => this.show(this.content), { class: "small" });
    this.body.replaceChildren(area, el("div", { class: "play-actions" }, save, cancel));
    area.focus();
  }

  /** The conversation goes on from here with another text. */
  save(text) {
    if (this.conversation.runs) return;
    const { content } = this.content;
    const parts = Array.isArray(content) ? content.map((part) => (part.type === "text" ? { ...part, text } : part)) : text;
    this.conversation.cut(this);
    this.conversation.say({ role: "user", content: parts });
  }
}

/** A reply; of several choices one is gone on with. */
class ReplyEntry {
  constructor(conversation, turn) {
    Object.assign(this, { conversation, turn, chosen: 0 });
    this.actions = el("div", { class: "play-actions" });
    const label = `Reply of ${conversation.model}`;
    this.element = el("article", { class: "play-entry play-reply", "aria-label": label }, turn.element, this.actions);
  }

  message() {
    return this.turn.choices[this.chosen]?.message() ?? { role: "assistant", content: "" };
  }

  finish() {
    const again = button("Regenerate", () => this.again(), { class: "small" });
    this.actions.replaceChildren(again, ...copyButtons(() => this.turn.request));
    if (this.message().content)
      this.actions.prepend(button("Copy text", ({ target }) => copy(target, this.message().content), { class: "small" }));
    if (this.turn.choices.length > 1) this.offerChoices();
    this.offerResults();
  }

  again() {
    if (this.conversation.runs) return;
    this.conversation.cut(this);
    this.conversation.reply();
  }

  offerChoices() {
    const buttons = this.turn.views.map((view, i) => {
      const choose = () => this.choose(i, buttons);
      const made = button(`Go on with reply ${i + 1}`, choose, { class: "small", "aria-pressed": String(i === 0) });
      view.element.prepend(made);
      return made;
    });
  }

  choose(index, buttons) {
    this.chosen = index;
    for (const [i, each] of buttons.entries()) each.setAttribute("aria-pressed", String(i === index));
    this.offerResults();
  }

  /** Fields for the results of the calls of the chosen reply. */
  offerResults() {
    this.results?.element.remove();
    const { calls } = this.turn.choices[this.chosen] ?? { calls: [] };
    if (!calls.length || this.turn.state !== "done") return;
    this.results = new ResultFields(calls, (messages) => this.goOn(messages));
    this.actions.before(this.results.element);
  }

  goOn(messages) {
    if (this.conversation.runs) return;
    const { conversation } = this;
    const next = conversation.entries[conversation.entries.indexOf(this) + 1];
    if (next) conversation.cut(next);
    this.results.element.hidden = true;
    for (const message of messages) conversation.add(new ResultEntry(message, () => this.editResults()));
    conversation.reply();
  }

  /** Back to before the results were sent, with them in their fields. */
  editResults() {
    const { conversation } = this;
    if (conversation.runs) return;
    conversation.cut(conversation.entries[conversation.entries.indexOf(this) + 1]);
    this.results.element.hidden = false;
    this.results.element.querySelector("textarea").focus();
  }
}

/** The result of a call, as the user typed it. */
class ResultEntry {
  constructor(message, edit) {
    this.content = message;
    const head = el("p", { class: "muted" }, "Result of a tool ", button("Edit", edit, { class: "small" }));
    const text = el("div", { class: "play-text" }, message.content);
    this.element = el("article", { class: "play-entry play-result", "aria-label": "Result of a tool" }, head, text);
  }

  message() {
    return this.content;
  }
}
