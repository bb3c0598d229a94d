// Qwen Code, a whole session over chat completions.  Argument: the address.  The model says what
// tests/fixtures/agent_scripts.py gives.

const assert = require("node:assert/strict");
const { run } = require("./cases.cjs");
const { TASK, binary, session } = require("./agent_session.cjs");

async function edits() {
  const env = { OPENAI_API_KEY: "none", OPENAI_BASE_URL: `${process.argv[2]}/v1`, OPENAI_MODEL: "qwen" };
  const settings = { security: { auth: { selectedType: "openai" } }, privacy: { usageStatisticsEnabled: false } };
  const command = [process.execPath, binary("@qwen-code/qwen-code", "qwen"), "-p", TASK, "--yolo", "--output-format", "json"];
  const found = await session("qwen", command, { env, files: { ".qwen/settings.json": settings } });
  assert.equal(found.files["hello.py"], "print(42)\n", found.out);
  assert.match(found.out, /Done: hello\.py prints 42\./);
}

run([edits]);
