// opencode, whole sessions over chat completions, Responses and Messages: a file is made, changed and run, a PDF
// file is read, and in the first two an image is looked at.  Argument: the address.  The model says what tests/fixtures/agent_scripts.py gives.

const assert = require("node:assert/strict");
const { run } = require("./cases.cjs");
const { TASK, binary, session } = require("./agent_session.cjs");

const base = `${process.argv[2]}/v1`;

async function check(npm, model = "opencode") {
  const settings = { limit: { context: 131072, output: 8192 }, modalities: { input: ["text", "pdf"], output: ["text"] } };
  const config = {
    autoupdate: false,
    share: "disabled",
    provider: { braid: { npm, options: { baseURL: base, apiKey: "none" }, models: { [model]: settings } } },
    model: `braid/${model}`,
    small_model: `braid/${model}`,
    permission: { "*": "allow" },
  };
  const files = { ".config/opencode/opencode.json": config };
  const env = { OPENCODE_DISABLE_AUTOUPDATE: "1", OPENCODE_DISABLE_MODELS_FETCH: "1" };
  const found = await session("opencode", [binary("opencode-ai", "opencode"), "run", "--format", "json", TASK], { files, env });
  assert.equal(found.files["hello.py"], "print(42)\n", found.out);
  assert.match(found.out, /Done: hello\.py prints 42\./);
}

async function overChatCompletions() {
  await check("@ai-sdk/openai-compatible");
}

async function overResponses() {
  await check("@ai-sdk/openai");
}

async function overMessages() {
  await check("@ai-sdk/anthropic", "opencode-text"); // it ends where an image is refused
}

/** The shipped examples of composed graphs: the tools of the request reach the model that answers. */
async function overComposedGraphs() {
  for (const example of ["answers", "router", "cascade", "guarded"]) {
    await check("@ai-sdk/openai-compatible", `opencode-${example}`);
  }
  await check("@ai-sdk/openai", "opencode-router");
  await check("@ai-sdk/anthropic", "opencode-guarded");
}

run([overChatCompletions, overResponses, overMessages, overComposedGraphs]);
