// The npm package ollama: lists, chats, streams, tools, schemas, vectors.  Argument: the address.

const assert = require("node:assert/strict");
const { Ollama } = require("ollama");
const { run } = require("./cases.cjs");

const client = new Ollama({ host: process.argv[2] });
const model = "braid-demo:latest";
const options = { temperature: 0 };
const messages = [{ role: "user", content: "What is the capital of France?" }];
const tools = [
  {
    type: "function",
    function: {
      name: "get_weather",
      description: "Current weather of a city",
      parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
    },
  },
];

async function lists() {
  const { models } = await client.list();
  const found = models.find((each) => each.name === model);
  assert.ok(found.modified_at && found.details.family === "qwen3");
  const shown = await client.show({ model });
  assert.ok(shown.capabilities.includes("tools"));
  assert.equal(shown.model_info["qwen3.context_length"], 2048);
  assert.ok((await client.ps()).models.length > 0);
}

async function chats() {
  const reply = await client.chat({ model, messages, options });
  assert.match(reply.message.content, /Paris/);
  const next = [...messages, reply.message, { role: "user", content: "What is the capital of Italy?" }];
  assert.match((await client.chat({ model, messages: next, options })).message.content, /Rome/);
}

async function streams() {
  let text = "";
  let last;
  for await (const part of await client.chat({ model, messages, options, stream: true })) {
    text += part.message.content;
    last = part;
  }
  assert.match(text, /Paris/);
  assert.ok(last.done && last.eval_count > 0 && !Number.isNaN(Date.parse(last.created_at)));
}

async function callsTools() {
  const asked = [{ role: "user", content: "What is the weather in Oslo?" }];
  const reply = await client.chat({ model, messages: asked, tools, options });
  const [call] = reply.message.tool_calls;
  assert.deepEqual(call.function.arguments, { city: "Oslo" });
  const result = { role: "tool", tool_name: call.function.name, content: "7 degrees and rain" };
  const last = await client.chat({ model, messages: [...asked, reply.message, result], tools, options });
  assert.match(last.message.content, /7/);
}

async function generatesJson() {
  const format = { type: "object", properties: { age: { type: "integer" } }, required: ["age"] };
  const reply = await client.generate({ model, prompt: "Tom is 8 years old.", format, options });
  assert.equal(typeof JSON.parse(reply.response).age, "number");
}

async function embeds() {
  const { embeddings } = await client.embed({ model: "braid-embed", input: ["moon", "dough"] });
  assert.deepEqual(embeddings.map((each) => each.length), [128, 128]);
}

async function namesWhatIsWrong() {
  await assert.rejects(client.show({ model: "none" }), /model 'none' not found/);
}

run([lists, chats, streams, callsTools, generatesJson, embeds, namesWhatIsWrong]);
