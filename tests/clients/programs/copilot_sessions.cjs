// GitHub Copilot's command line, whole sessions over chat completions, Responses and Messages.  Argument: the address.
// The model says what tests/fixtures/agent_scripts.py gives.

const assert = require("node:assert/strict");
const { run } = require("./cases.cjs");
const { TASK, binary, session } = require("./agent_session.cjs");

const address = process.argv[2];

async function check(url, more = {}) {
  const env = { COPILOT_PROVIDER_BASE_URL: url, COPILOT_PROVIDER_API_KEY: "none", COPILOT_MODEL: "copilot", COPILOT_OFFLINE: "true", ...more };
  const found = await session("copilot", [process.execPath, binary("@github/copilot", "copilot"), "-p", TASK, "--allow-all-tools"], { env });
  assert.equal(found.files["hello.py"], "print(42)\n", found.out);
  assert.match(found.out, /Done: hello\.py prints 42\./);
}

async function overChatCompletions() {
  await check(`${address}/v1`);
}

async function overResponses() {
  await check(`${address}/v1`, { COPILOT_PROVIDER_WIRE_API: "responses" });
}

async function overMessages() {
  await check(address, { COPILOT_PROVIDER_TYPE: "anthropic" });
}

run([overChatCompletions, overResponses, overMessages]);
