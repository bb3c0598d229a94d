// Speech to text, of a file or the microphone, and text to speech.

import { el, notify } from "./dom.js";
import { button, table } from "./play_dom.js";
import { simple } from "./play_oneshot.js";

const seconds = (value) => `${value.toFixed(2)} s`;

/** A text, or with `verbose_json` also its segments and words with their times. */
function transcript(reply) {
  if (typeof reply === "string") return el("pre", { class: "play-text" }, reply);
  const parts = [el("p", { class: "play-text play-transcript" }, reply.text)];
  for (const [name, key] of [["segments", "text"], ["words", "word"]]) {
    if (!reply[name]?.length) continue;
    const rows = reply[name].map((each) => [seconds(each.start), seconds(each.end), each[key]]);
    parts.push(table(name, ["from", "to", "text"], rows));
  }
  return parts;
}

/** A button that records until it is pressed again, puts the recording into the field `file`, and sends the form. */
function recording(fields, form) {
  const input = fields.inputs.get("file");
  const preview = el("audio", { class: "play-audio", controls: true, hidden: true });
  let recorder = null;
  const stopped = (pieces, stream) => {
    for (const track of stream.getTracks()) track.stop();
    const type = recorder.mimeType.split(";")[0];
    const name = `recording.${type.split("/")[1]}`;
    recorder = null;
    toggle.textContent = "Record";
    toggle.setAttribute("aria-pressed", "false");
    const held = new DataTransfer();
    held.items.add(new File(pieces, name, { type }));
    input.files = held.files;
    input.dispatchEvent(new Event("change"));
    form.requestSubmit();
  };
  const start = async () => {
    const stream = await navigator.mediaDevices.getUserMedia({ audio: true });
    const pieces = [];
    recorder = new MediaRecorder(stream);
    recorder.ondataavailable = ({ data }) => pieces.push(data);
    recorder.onstop = () => stopped(pieces, stream);
    recorder.start();
    toggle.textContent = "Stop recording and send";
    toggle.setAttribute("aria-pressed", "true");
  };
  const press = () => (recorder ? recorder.stop() : start().catch((error) => notify(`No recording: ${error.message}`, "error")));
  const toggle = button("Record", press, { "aria-pressed": "false" });
  toggle.hidden = !navigator.mediaDevices; // browsers give the microphone to pages of https and of this machine
  input.addEventListener("change", () => {
    if (preview.src) URL.revokeObjectURL(preview.src);
    preview.hidden = !input.files.length;
    if (input.files.length) preview.src = URL.createObjectURL(input.files[0]);
  });
  return el("div", { class: "play-actions" }, toggle, preview);
}

const TRANSLATE = "to English";

function transcribeRequest(model, fields) {
  const form = fields.put({ model });
  const path = form.task === TRANSLATE ? "/v1/audio/translations" : "/v1/audio/transcriptions";
  delete form.task;
  return { path, form };
}

export const transcription = simple({
  id: "transcription",
  label: "Transcription",
  tasks: ["transcribe"],
  action: "Transcribe",
  fields: [
    { name: "file", kind: "file", label: "Recording", accept: "audio/*,video/*", required: true },
    { name: "task", kind: "choice", choices: [TRANSLATE], empty: "as spoken", label: "Text" },
    { name: "language", kind: "text", placeholder: "en", hint: "of what is spoken; else it is detected" },
    { name: "prompt", kind: "text", hint: "what was said before, or words to expect" },
    { name: "response_format", kind: "choice", choices: ["json", "text", "srt", "vtt", "verbose_json"] },
    { name: "words", kind: "flag", label: "times of words", put: (body) => Object.assign(body, WITH_WORDS) },
    { name: "temperature", kind: "number", min: 0, max: 1 },
  ],
  extra: recording,
  request: transcribeRequest,
  show: transcript,
});

const WITH_WORDS = { response_format: "verbose_json", "timestamp_granularities[]": "word" };

/** A player, and a link that saves the sound. */
function player(sound, { file }) {
  const url = URL.createObjectURL(sound);
  return [
    el("audio", { class: "play-audio", controls: true, src: url }),
    el("p", {}, el("a", { href: url, download: file }, `Save ${file}`), ` (${Math.ceil(sound.size / 1000)} kB)`),
  ];
}

export const speech = simple({
  id: "speech",
  label: "Speech",
  tasks: ["speak"],
  action: "Speak",
  fields: [
    { name: "input", kind: "long", rows: 4, label: "Text", required: true, value: "Hello, world! This text was spoken by Braid." },
    { name: "voice", kind: "text", label: "voice", value: "alloy", hint: "a voice of the model, or alloy: its own" },
    { name: "response_format", kind: "choice", choices: ["mp3", "wav", "opus", "aac", "flac", "pcm"] },
    { name: "speed", kind: "number", min: 0.25, max: 4 },
  ],
  request: (model, fields) => {
    const body = fields.put({ model });
    return { path: "/v1/audio/speech", body, file: `speech.${body.response_format ?? "mp3"}` };
  },
  show: player,
});
