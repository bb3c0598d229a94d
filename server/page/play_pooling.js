// Embeddings, rankings, scores and classes: texts in, numbers out.

import { el } from "./dom.js";
import { folded, short, table } from "./play_dom.js";
import { simple } from "./play_oneshot.js";

const ONE_A_LINE = "one a line";
const number = (value) => value.toFixed(4);

/** The cosine of the angle between two vectors. */
function cosine(a, b) {
  let [dot, aa, bb] = [0, 0, 0];
  for (let i = 0; i < a.length; i++) {
    dot += a[i] * b[i];
    aa += a[i] * a[i];
    bb += b[i] * b[i];
  }
  return dot / Math.sqrt(aa * bb);
}

/** A number with a colour of eleven, from 0 and less to 1. */
function heat(value) {
  const step = Math.max(0, Math.min(10, Math.round(10 * value)));
  return el("span", { class: `play-heat play-h${step}`, title: String(value) }, value.toFixed(3));
}

function similarities({ data }, { body }) {
  const vectors = data.map(({ embedding }) => embedding);
  const heads = body.input.map((text, i) => el("span", { title: text }, `${i + 1}`));
  const rows = vectors.map((vector, i) => [
    `${i + 1}. ${short(body.input[i])}`,
    ...vectors.map((other) => heat(cosine(vector, other))),
  ]);
  const numbers = vectors.map((vector) => `[${vector.slice(0, 8).map(number).join(", ")}, …]`);
  return [
    table("Cosine similarities", ["text", ...heads], rows),
    folded(`Vectors of ${vectors[0].length} numbers`, el("ol", { class: "play-code" }, ...numbers.map((text) => el("li", {}, text)))),
  ];
}

export const embeddings = simple({
  id: "embeddings",
  label: "Embeddings",
  tasks: ["embed"],
  action: "Compare",
  fields: [
    {
      name: "input", kind: "lines", rows: 5, label: "Texts", hint: ONE_A_LINE, required: true,
      value: "How far away is the moon?\nThe moon is 384,000 kilometres away.\nWhy does bread dough rise?\nYeast makes dough rise.",
    },
    { name: "dimensions", kind: "number", min: 1, hint: "shorter vectors, where the model has them" },
    { name: "input_type", kind: "text", hint: "the prompt before each text: search_query, search_document …" },
  ],
  request: (model, fields) => ({ path: "/v1/embeddings", body: fields.put({ model, encoding_format: "float" }) }),
  show: similarities,
});

/** A number and how much of 1 it is. */
const part = (value) => el("span", { class: "play-part" }, number(value), el("meter", { min: 0, max: 1, value, "aria-label": number(value) }));

function ranking({ results }, { body }) {
  const rows = results.map(({ index, relevance_score: score }, i) => [`${i + 1}`, body.documents[index], part(score)]);
  return table("Documents, the best first", ["rank", "document", "score"], rows);
}

const DOCUMENTS = "Yeast makes dough rise.\nThe moon is 384,000 kilometres away.\nCats sleep most of the day.";

export const rerank = simple({
  id: "rerank",
  label: "Rerank",
  tasks: ["rerank", "embed", "token_embed"],
  action: "Rank",
  fields: [
    { name: "query", kind: "long", rows: 1, label: "Query", required: true, value: "How far away is the moon?" },
    { name: "documents", kind: "lines", rows: 5, label: "Documents", hint: ONE_A_LINE, required: true, value: DOCUMENTS },
    { name: "top_n", kind: "number", min: 1, hint: "only the best" },
    { name: "instruction", kind: "text", hint: "what a document is to be good for, where the model reads it" },
  ],
  request: (model, fields) => ({ path: "/v1/rerank", body: fields.put({ model }) }),
  show: ranking,
});

function scores({ data }, { body }) {
  const queries = body.text_1;
  const rows = data.map(({ index, score }) => [queries[queries.length > 1 ? index : 0], body.text_2[index], part(score)]);
  return table("Score of each pair", ["first text", "second text", "score"], rows);
}

export const score = simple({
  id: "score",
  label: "Score",
  tasks: ["rerank", "embed", "token_embed"],
  action: "Score",
  fields: [
    { name: "text_1", kind: "lines", rows: 2, label: "First texts", hint: "one for all, or one for each of the second", required: true, value: "How far away is the moon?" },
    { name: "text_2", kind: "lines", rows: 4, label: "Second texts", hint: ONE_A_LINE, required: true, value: DOCUMENTS },
  ],
  request: (model, fields) => ({ path: "/v1/score", body: fields.put({ model }) }),
  show: scores,
});

function classes({ data }, { body }) {
  const rows = data.map(({ index, label, probs }) => {
    const others = probs.length > 1 ? probs.map((p, i) => `${i}: ${number(p)}`).join(", ") : "";
    return [short(body.input[index], 120), el("strong", {}, label ?? "none"), number(Math.max(...probs)), el("div", { class: "play-wide" }, others)];
  });
  return table("The likeliest class of each text", ["text", "class", "probability", "by class number"], rows);
}

export const classify = simple({
  id: "classify",
  label: "Classify",
  tasks: ["classify"],
  action: "Classify",
  fields: [
    { name: "input", kind: "lines", rows: 4, label: "Texts", hint: ONE_A_LINE, required: true, value: "The food was wonderful.\nIt broke after two days." },
  ],
  request: (model, fields) => ({ path: "/v1/classify", body: fields.put({ model }) }),
  show: classes,
});
