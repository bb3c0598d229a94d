// Images and sounds of a message: chosen, pasted or dropped files, as parts of the message.

import { getJSON } from "./api.js";
import { el } from "./dom.js";
import { button } from "./play_dom.js";

/** Node type of a graph → the media type that its model takes. */
const TAKEN = { images: "image/", audio: "audio/" };

/** The kinds of media that a model takes, by the nodes of its graph: some of "image/", "audio/". */
export async function mediaOf(model) {
  try {
    const { nodes } = await getJSON(`v1/models/${encodeURIComponent(model)}/graph`);
    return nodes.map(({ type }) => TAKEN[type]).filter(Boolean);
  } catch {
    return []; // a model that is not ready has no graph yet
  }
}

const asDataUrl = (file) =>
  new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });

/** A file as a part of a message. */
async function part(file) {
  const url = await asDataUrl(file);
  if (file.type.startsWith("image/")) return { type: "image_url", image_url: { url } };
  const format = file.name.split(".").pop().toLowerCase();
  return { type: "input_audio", input_audio: { data: url.slice(url.indexOf(",") + 1), format } };
}

const isMedia = ({ type }) => type !== "text";
const parts = (content) => (Array.isArray(content) ? content : [{ type: "text", text: content ?? "" }]);

/** The text of a message's content. */
export const textOf = (content) => parts(content).filter((each) => !isMedia(each)).map(({ text }) => text).join("\n");

/** What is attached to a message, as elements. */
export const attachmentView = (content) => parts(content).filter(isMedia).map(view);

function view({ type, image_url: image, input_audio: sound }) {
  if (type === "image_url") return el("img", { class: "play-image", src: image.url, alt: "Attached image" });
  return el("audio", { class: "play-audio", controls: true, src: `data:audio/${sound.format};base64,${sound.data}` });
}

/** Files waiting to be sent with the next message. */
export class Attachments {
  constructor() {
    this.parts = [];
    this.kinds = [];
    this.input = el("input", { type: "file", multiple: true, class: "visually-hidden", tabindex: "-1", "aria-hidden": "true" });
    this.input.addEventListener("change", () => this.take(this.input.files));
    this.button = button("Attach", () => this.input.click());
    this.list = el("ul", { class: "play-attached", "aria-label": "Attached" });
    this.allow([]);
  }

  /** Offers files of these media types, as `mediaOf` names them. */
  allow(kinds) {
    this.kinds = kinds;
    this.button.hidden = !kinds.length;
    this.input.accept = kinds.map((kind) => `${kind}*`).join(",");
  }

  /** Adds those files that the model takes; whether there was one. */
  async take(files) {
    const taken = [...files].filter(({ type }) => this.kinds.some((kind) => type.startsWith(kind)));
    for (const file of taken) this.parts.push(await part(file));
    this.input.value = "";
    this.show();
    return taken.length > 0;
  }

  /** Takes files that are pasted into or dropped on an element. */
  listen(element) {
    const take = (event, { files }) => {
      if (!this.kinds.length || !files.length) return;
      event.preventDefault();
      this.take(files);
    };
    element.addEventListener("paste", (event) => take(event, event.clipboardData));
    element.addEventListener("drop", (event) => take(event, event.dataTransfer));
    element.addEventListener("dragover", (event) => this.kinds.length && event.preventDefault());
  }

  show() {
    const items = this.parts.map((each) => el("li", {}, view(each), button("Remove", () => this.remove(each), { class: "small" })));
    this.list.replaceChildren(...items);
  }

  remove(removed) {
    this.parts = this.parts.filter((each) => each !== removed);
    this.show();
  }

  /** The content of the next message. */
  content(text) {
    if (!this.parts.length) return text;
    return [...this.parts, { type: "text", text }];
  }

  clear() {
    this.parts = [];
    this.show();
  }
}
