// The AI SDK with @ai-sdk/openai-compatible: text, streams, tool loops, objects, embeddings.  Argument: the address.

const assert = require("node:assert/strict");
const { createOpenAICompatible } = require("@ai-sdk/openai-compatible");
const ai = require("ai");
const { z } = require("zod");
const { run } = require("./cases.cjs");

const provider = createOpenAICompatible({
  name: "braid",
  baseURL: `${process.argv[2]}/v1`,
  apiKey: "none",
  includeUsage: true,
  supportsStructuredOutputs: true,
});
const common = { model: provider("braid-demo"), temperature: 0, maxRetries: 0 };
const weather = { Oslo: [7, "rain"], Rome: [30, "sun"] };
const askedFor = [];
const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const tools = {
  get_weather: ai.tool({
    description: "Current weather of a city",
    inputSchema: ai.jsonSchema(parameters),
    execute: async ({ city }) => {
      askedFor.push(city);
      const [temperature, condition] = weather[city];
      return { temperature, condition };
    },
  }),
};

async function text() {
  const reply = await ai.generateText({ ...common, prompt: "What is the capital of France?" });
  assert.match(reply.text, /Paris/);
  assert.ok(reply.usage.outputTokens > 0);
}

async function stream() {
  const reply = ai.streamText({ ...common, prompt: "What is the capital of France?" });
  let text = "";
  for await (const piece of reply.textStream) text += piece;
  assert.match(text, /Paris/);
  assert.ok((await reply.usage).outputTokens > 0);
}

/** Two questions in one conversation, each a call and an answer; all messages so far are sent again. */
async function toolLoop() {
  const messages = [];
  for (const [city, [temperature]] of Object.entries(weather)) {
    messages.push({ role: "user", content: `What is the weather in ${city}?` });
    const reply = await ai.generateText({ ...common, messages, tools, stopWhen: ai.stepCountIs(4) });
    assert.equal(askedFor.at(-1), city);
    assert.equal(reply.steps.length, 2);
    assert.match(reply.text, new RegExp(`${temperature}`));
    messages.push(...reply.responseMessages);
  }
  assert.equal(messages.length, 8);
}

async function streamedToolLoop() {
  const prompt = "What is the weather in Oslo?";
  const reply = ai.streamText({ ...common, prompt, tools, stopWhen: ai.stepCountIs(4) });
  assert.match(await reply.text, /7/);
  assert.equal(askedFor.at(-1), "Oslo");
}

/** zod schemas bring `$schema` and `additionalProperties: false`. */
async function requiredTool() {
  const zodTools = { get_weather: ai.tool({ description: "Weather", inputSchema: z.object({ city: z.string() }) }) };
  const prompt = "What is the weather in Oslo?";
  const reply = await ai.generateText({ ...common, prompt, tools: zodTools, toolChoice: "required" });
  assert.equal(reply.toolCalls.length, 1);
  assert.deepEqual(Object.keys(reply.toolCalls[0].input), ["city"]);
}

/** Three tools with zod's schemas, whose results are words, a number and an error. */
async function zodToolLoop() {
  const city = z.object({ city: z.string() });
  const tools = {
    get_weather: ai.tool({ description: "Weather of a city", inputSchema: city, execute: async () => "sunny" }),
    set_timer: ai.tool({
      description: "Set a timer",
      inputSchema: z.object({ minutes: z.number().int() }),
      execute: async ({ minutes }) => `Error: ${minutes} is not available`,
    }),
    get_stock_price: ai.tool({
      description: "Get the price of a stock",
      inputSchema: z.object({ symbol: z.string() }),
      execute: async () => 42,
    }),
  };
  const asked = [
    ["What is the weather in Oslo?", "get_weather", { city: "Oslo" }, /sunny/],
    ["Set a timer for 5 minutes.", "set_timer", { minutes: 5 }, /not available/],
    ["What is the price of AAPL?", "get_stock_price", { symbol: "AAPL" }, /42/],
  ];
  for (const [prompt, name, input, expected] of asked) {
    const reply = await ai.generateText({ ...common, prompt, tools, stopWhen: ai.stepCountIs(4) });
    const [call] = reply.steps[0].toolCalls;
    assert.equal(call.toolName, name);
    assert.deepEqual(call.input, input);
    assert.match(reply.text, expected);
  }
}

async function object() {
  const schema = z.object({ name: z.string().max(12), age: z.number().int().max(99) });
  const prompt = "Ada is 36 years old.";
  const output = ai.Output.object({ schema });
  const reply = await ai.generateText({ ...common, prompt, output, maxOutputTokens: 80 });
  assert.equal(typeof reply.output.age, "number");
}

async function embeddings() {
  const model = provider.textEmbeddingModel("braid-embed");
  const reply = await ai.embedMany({ model, values: ["one", "two"] });
  assert.deepEqual(reply.embeddings.map((one) => one.length), [128, 128]);
}

run([text, stream, toolLoop, streamedToolLoop, requiredTool, zodToolLoop, object, embeddings]);
