// The playground: what the chosen model can do, as forms; a second model may stand beside it.

import { el } from "./dom.js";
import { chat } from "./play_chat.js";
import { completion } from "./play_completion.js";
import { classify, embeddings, rerank, score } from "./play_pooling.js";
import { speech, transcription } from "./play_sound.js";

const FORMS = [chat, completion, embeddings, rerank, score, classify, transcription, speech];
const NO_SECOND = "";

/** Every model and adapter that requests can name, as `{id, task, base, note}`; `base` is the model of an adapter. */
function named(models) {
  return models.flatMap(({ id, task, state, adapters = [] }) => [
    { id, task, base: id, note: state === "ready" ? "" : ` (${state})` },
    ...adapters.filter(({ problem }) => !problem).map((each) => ({ id: each.id, task, base: id, note: ` (adapter of ${id})` })),
  ]);
}

class Playground {
  constructor() {
    this.models = [];
    this.forms = new Map();
    this.first = el("select", { onchange: () => this.chosen() });
    this.second = el("select", { onchange: () => this.chosen() });
    this.tabs = el("fieldset", { class: "play-tabs" }, el("legend", {}, "What to ask for"));
    this.empty = el("p", { class: "muted" });
    this.area = el("div", {}, this.empty);
    const models = el("div", { class: "play-models" }, labelled("Model", this.first), labelled("Beside it", this.second));
    this.element = el("div", { class: "playground" }, el("h1", { class: "play-title" }, "Playground"), el("div", { class: "play-top" }, models, this.tabs), this.area);
  }

  setModels(models) {
    const found = named(models);
    if (JSON.stringify(found) === JSON.stringify(this.models)) return;
    const before = this.first.value;
    this.models = found;
    options(this.first, found);
    const usual = found.find(({ task }) => task === "chat") ?? found[0];
    this.first.value = found.some(({ id }) => id === before) ? before : (usual?.id ?? "");
    this.chosen();
  }

  get model() {
    return this.models.find(({ id }) => id === this.first.value);
  }

  /** The models, or the form, were chosen anew. */
  chosen() {
    const { task } = this.model ?? {};
    const offered = FORMS.filter(({ tasks }) => tasks.includes(task));
    this.showTabs(offered);
    const form = offered.find(({ id }) => id === this.formId) ?? offered[0];
    this.empty.textContent = form ? "" : missing(this.model);
    this.showForm(form);
  }

  showTabs(offered) {
    const radios = offered.map(({ id, label }) => {
      const onchange = () => ((this.formId = id), this.chosen());
      return el("label", {}, el("input", { type: "radio", name: "play-form", value: id, onchange }), el("span", {}, label));
    });
    const shown = [...this.tabs.querySelectorAll("input")].map(({ value }) => value);
    if (shown.join() === offered.map(({ id }) => id).join()) return;
    this.tabs.replaceChildren(this.tabs.firstChild, ...radios);
  }

  showForm(form) {
    for (const [spec, { element }] of this.forms) element.hidden = spec !== form;
    this.showSecond(form);
    if (!form) return;
    if (!this.forms.has(form)) this.forms.set(form, this.make(form));
    this.tabs.querySelector(`[value=${form.id}]`).checked = true;
    const beside = this.models.find(({ id }) => id === this.second.value);
    this.forms.get(form).setModels([this.model, beside].filter(Boolean));
  }

  /** The form is made when it is first chosen, and stays as the user leaves it. */
  make(form) {
    const made = form.create();
    this.area.append(made.element);
    return made;
  }

  /** Beside the first model stands one that the same form fits. */
  showSecond(form) {
    const before = this.second.value;
    const fitting = this.models.filter(({ id, task }) => form?.tasks.includes(task) && id !== this.first.value);
    options(this.second, [{ id: NO_SECOND, note: "no other model" }, ...fitting]);
    this.second.value = fitting.some(({ id }) => id === before) ? before : NO_SECOND;
    this.second.disabled = !fitting.length;
  }
}

function labelled(text, input) {
  input.id = `play-model-${text.toLowerCase().replaceAll(" ", "-")}`;
  return el("div", { class: "play-field" }, el("label", { class: "play-label", for: input.id }, text), input);
}

function options(select, models) {
  select.replaceChildren(...models.map(({ id, note }) => el("option", { value: id }, `${id}${note}`)));
}

function missing(model) {
  if (!model) return "No model is served yet.";
  if (!model.task) return `${model.id} is not ready: its task is not known.`;
  return `${model.id} takes tensors (task ${model.task}): ask it by KServe's protocol, at /v2/models/${model.id}/infer.`;
}

let playground = null;

/** Shows the playground in `container`; what is in it stays until the page is left, wherever it is shown. */
export function mount(container, { models, onModels }) {
  if (!playground) {
    document.head.append(el("link", { rel: "stylesheet", href: new URL("playground.css", import.meta.url).href }));
    playground = new Playground();
    onModels((found) => playground.setModels(found ?? models()));
  }
  container.append(playground.element);
  playground.setModels(models());
}
