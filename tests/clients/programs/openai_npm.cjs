// The npm package openai: chat, streams, the tool runner, parsed replies, Responses.  Argument: the address.

const assert = require("node:assert/strict");
const OpenAI = require("openai").default;
const { run } = require("./cases.cjs");

const client = new OpenAI({ baseURL: `${process.argv[2]}/v1`, apiKey: "none", maxRetries: 0 });
const model = "braid-demo";
const capital = [{ role: "user", content: "What is the capital of France?" }];
const weather = { Oslo: [7, "rain"], Paris: [21, "sun"], Rome: [30, "sun"], Lima: [18, "fog"] };
const askedFor = [];
const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const person = {
  type: "object",
  properties: { name: { type: "string", maxLength: 12 }, age: { type: "integer" } },
  required: ["name", "age"],
  additionalProperties: false,
};

function getWeather({ city }) {
  askedFor.push(city);
  const [temperature, condition] = weather[city];
  return JSON.stringify({ temperature, condition });
}

const tool = {
  type: "function",
  function: {
    name: "get_weather",
    description: "Current weather of a city",
    parameters,
    parse: JSON.parse,
    function: getWeather,
  },
};

async function chat() {
  const reply = await client.chat.completions.create({ model, messages: capital, temperature: 0 });
  assert.match(reply.choices[0].message.content, /Paris/);
  assert.equal(reply.usage.total_tokens, reply.usage.prompt_tokens + reply.usage.completion_tokens);
}

async function stream() {
  const options = { stream: true, stream_options: { include_usage: true }, temperature: 0 };
  let text = "";
  let usage;
  for await (const chunk of await client.chat.completions.create({ model, messages: capital, ...options })) {
    text += chunk.choices[0]?.delta?.content ?? "";
    usage = chunk.usage ?? usage;
  }
  assert.match(text, /Paris/);
  assert.ok(usage.completion_tokens > 0);
}

/** Four questions in one conversation; the runner calls the tool and sends its result. */
async function toolRunner() {
  let messages = [];
  for (const [city, [temperature]] of Object.entries(weather)) {
    messages.push({ role: "user", content: `What is the weather in ${city}?` });
    const runner = client.chat.completions.runTools({ model, messages, tools: [tool], temperature: 0 });
    const text = await runner.finalContent();
    assert.equal(askedFor.at(-1), city);
    assert.match(text, new RegExp(`${temperature}`));
    messages = [...runner.messages];
  }
  assert.equal(messages.length, 16);
}

async function streamedTools() {
  const messages = [{ role: "user", content: "What is the weather in Oslo?" }];
  const options = { messages, tools: [tool], temperature: 0, stream: true };
  const runner = client.chat.completions.runTools({ model, ...options });
  assert.match(await runner.finalContent(), /7/);
  assert.equal(askedFor.at(-1), "Oslo");
}

async function parsed() {
  const format = { type: "json_schema", json_schema: { name: "person", schema: person, strict: true } };
  const messages = [{ role: "user", content: "Ada is 36 years old." }];
  const options = { model, messages, response_format: format, max_tokens: 80, temperature: 0 };
  const reply = await client.chat.completions.parse(options);
  assert.equal(typeof reply.choices[0].message.parsed.age, "number");
}

async function responses() {
  const input = "What is the capital of France?";
  const reply = await client.responses.create({ model, input, temperature: 0 });
  assert.match(reply.output_text, /Paris/);
  const events = client.responses.stream({ model, input, temperature: 0 });
  assert.match((await events.finalResponse()).output_text, /Paris/);
  const next = { model, input: "What is the capital of Italy?", previous_response_id: reply.id };
  assert.match((await client.responses.create({ ...next, temperature: 0 })).output_text, /Rome/);
}

async function embeddings() {
  const reply = await client.embeddings.create({ model: "braid-embed", input: ["one", "two"] });
  assert.deepEqual(reply.data.map((one) => one.embedding.length), [128, 128]);
}

async function refusal() {
  await assert.rejects(
    client.chat.completions.create({ model, messages: capital, temperature: 9 }),
    (error) => error instanceof OpenAI.BadRequestError && /temperature/.test(error.message),
  );
}

run([chat, stream, toolRunner, streamedTools, parsed, responses, embeddings, refusal]);
