// The settings of generated text: tables of fields, in folded groups.

import { el } from "./dom.js";
import { button, folded } from "./play_dom.js";
import { Fields } from "./play_fields.js";

const SAMPLING = [
  { name: "temperature", kind: "number", min: 0, max: 2, hint: "0: always the likeliest token" },
  { name: "top_p", kind: "number", min: 0, max: 1 },
  { name: "top_k", kind: "number", min: -1 },
  { name: "min_p", kind: "number", min: 0, max: 1 },
  { name: "max_tokens", kind: "number", min: 1 },
  { name: "seed", kind: "number" },
  { name: "presence_penalty", kind: "number", min: -2, max: 2 },
  { name: "frequency_penalty", kind: "number", min: -2, max: 2 },
  { name: "repetition_penalty", kind: "number", min: 0 },
  { name: "n", kind: "number", min: 1, hint: "replies to each prompt" },
  {
    name: "stop",
    kind: "lines",
    hint: "one a line; \\n is a line break",
    put: (body, lines) => (body.stop = lines.map((line) => line.replaceAll("\\n", "\n"))),
  },
  { name: "ignore_eos", kind: "flag" },
];

const chatLogprobs = {
  name: "logprobs",
  kind: "number",
  min: 0,
  max: 20,
  label: "log-probabilities",
  hint: "how many alternatives of each token; shown on hover",
  put: (body, count) => Object.assign(body, { logprobs: true, top_logprobs: count }),
};

const completionLogprobs = { ...chatLogprobs, put: (body, count) => (body.logprobs = count) };

const EFFORTS = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];

const REASONING = [
  {
    name: "enable_thinking",
    kind: "choice",
    choices: ["on", "off"],
    put: (body, value) => (body.enable_thinking = value === "on"),
  },
  { name: "reasoning_effort", kind: "choice", choices: EFFORTS },
  { name: "thinking_token_budget", kind: "number", min: 0, hint: "most tokens of reasoning" },
];

/** Declared tools as the API takes them: a list, where a bare function counts as one too. */
function asTools(value) {
  return [].concat(value).map((tool) => (tool.function ? tool : { type: "function", function: tool }));
}

const TOOL_EXAMPLE = [
  {
    type: "function",
    function: {
      name: "get_weather",
      description: "Current weather of a city",
      parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
    },
  },
];

const TOOLS = [
  {
    name: "tools",
    kind: "json",
    rows: 8,
    label: "declarations (JSON)",
    put: (body, value) => (body.tools = asTools(value)),
  },
  {
    name: "tool_choice",
    kind: "text",
    placeholder: "auto",
    hint: "auto, none, required, or the name of a tool",
    put: (body, value) => (body.tool_choice = chosenTool(value)),
  },
  {
    name: "parallel_tool_calls",
    kind: "choice",
    choices: ["on", "off"],
    put: (body, value) => (body.parallel_tool_calls = value === "on"),
  },
];

const chosenTool = (value) =>
  ["auto", "none", "required"].includes(value) ? value : { type: "function", function: { name: value } };

const SCHEMA_EXAMPLE = {
  type: "object",
  properties: { name: { type: "string" }, age: { type: "integer" } },
  required: ["name", "age"],
  additionalProperties: false,
};

const FORMAT = [
  {
    name: "schema",
    kind: "json",
    rows: 8,
    label: "JSON Schema",
    hint: "the reply is held to it",
    put: (body, schema) =>
      (body.response_format = { type: "json_schema", json_schema: { name: "reply", schema } }),
  },
  {
    name: "any_object",
    kind: "flag",
    label: "any JSON object",
    put: (body) => (body.response_format ??= { type: "json_object" }),
  },
];

const OTHER = [
  {
    name: "other",
    kind: "json",
    label: "other fields (JSON object)",
    placeholder: '{"logit_bias": {"42": -100}}',
    put: (body, fields) => Object.assign(body, fields),
  },
];

const SYSTEM = [{ name: "system", kind: "long", label: "System prompt", put: () => {} }];

const ECHO = { name: "echo", kind: "flag", hint: "the prompt before the text" };
const isWide = () => matchMedia("(min-width: 60rem)").matches;

/** Groups of fields that are shown folded, with a count of those that are set. */
export class Settings {
  constructor(groups) {
    this.fields = groups.map(({ table }) => new Fields(table));
    this.element = el("div", { class: "play-settings" }, ...groups.map((group, i) => this.group(group, i)));
  }

  group({ title, example, open }, i) {
    const fields = this.fields[i];
    if (!title) return fields.element;
    const details = folded(title, fields.element, example && button("Example", () => putExample(fields, example)));
    details.open = Boolean(open);
    details.addEventListener("input", () => {
      details.firstChild.textContent = fields.numSet ? `${title} (${fields.numSet} set)` : title;
    });
    return details;
  }

  put(body) {
    for (const fields of this.fields) fields.put(body);
    return body;
  }

  /** Whether every field can be read; the browser points to the first that cannot. */
  check() {
    return this.fields.every((fields) => fields.check());
  }

  get(name) {
    return this.fields.find((fields) => fields.inputs.has(name)).get(name);
  }
}

function putExample(fields, { name, value }) {
  fields.set(name, JSON.stringify(value, null, 2));
}

export const chatSettings = () =>
  new Settings([
    { table: SYSTEM },
    { title: "Sampling", table: [...SAMPLING, chatLogprobs], open: isWide() },
    { title: "Reasoning", table: REASONING },
    { title: "Tools", table: TOOLS, example: { name: "tools", value: TOOL_EXAMPLE } },
    { title: "JSON", table: FORMAT, example: { name: "schema", value: SCHEMA_EXAMPLE } },
    { title: "Other fields", table: OTHER },
  ]);

export const completionSettings = () =>
  new Settings([
    { title: "Sampling", table: [...SAMPLING, completionLogprobs, ECHO], open: isWide() },
    { title: "Other fields", table: OTHER },
  ]);
