// Completions: a raw prompt, without a chat template.

import { OneShot } from "./play_oneshot.js";
import { completionSettings } from "./play_settings.js";
import { STREAMED, TextChoice } from "./play_stream.js";
import { Turn } from "./play_turn.js";

const SPEC = {
  action: "Complete",
  fields: [{ name: "prompt", kind: "long", rows: 5, label: "Prompt", required: true, value: "The sun is" }],
  settings: completionSettings,
  request: (model, fields, settings) => ({
    path: "/v1/completions",
    body: { ...settings.put({ model, prompt: fields.get("prompt") ?? "" }), ...STREAMED },
  }),
  turn: (request, served) => new Turn(request, served, () => new TextChoice()),
};

export const completion = {
  id: "completion",
  label: "Completion",
  tasks: ["chat", "completion"],
  create: () => new OneShot(SPEC),
};
