// The view of one choice of a reply: reasoning folded, text, calls, tokens. It grows while the choice does.

import { el } from "./dom.js";
import { folded } from "./play_dom.js";
import { tokensView } from "./play_tokens.js";

export class ReplyView {
  constructor(choice) {
    this.choice = choice;
    this.textNode = document.createTextNode("");
    this.thoughtNode = document.createTextNode("");
    this.text = el("div", { class: "play-text" }, this.textNode);
    this.thought = folded("Reasoning", el("div", { class: "play-text" }, this.thoughtNode));
    this.thought.hidden = true;
    this.calls = el("div", { class: "play-calls" });
    this.element = el("div", { class: "play-choice" }, this.thought, this.text, this.calls);
  }

  /** Shows what has come since the last call. */
  update() {
    grow(this.textNode, this.choice.content);
    if (this.choice.reasoning) {
      this.thought.hidden = false;
      grow(this.thoughtNode, this.choice.reasoning);
    }
    for (const [i, call] of this.choice.calls.entries()) if (call) this.showCall(i, call);
  }

  showCall(i, { name, arguments: given }) {
    this.calls.children[i] ??
      this.calls.append(el("div", { class: "play-call" }, el("p", {}, "Call of ", el("code", {}, name)), el("pre", {})));
    this.calls.children[i].querySelector("code").textContent = name;
    this.calls.children[i].querySelector("pre").textContent = given;
  }

  /** The reply is whole: tokens in place of the text where there are log-probabilities. */
  finish() {
    this.update();
    const { tokens, content, calls, reasoning } = this.choice;
    this.text.hidden = !content && (calls.length > 0 || Boolean(reasoning));
    if (!tokens.length) return;
    const view = tokensView(content, tokens);
    if (content) this.text.replaceWith(view);
    else this.element.append(folded("Tokens", view));
  }
}

/** Appends to a text what is new; the text before stays as it is, so long replies cost no more than short ones. */
function grow(node, text) {
  if (text.length > node.length) node.appendData(text.slice(node.length));
}
