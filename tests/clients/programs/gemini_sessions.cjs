// gemini-cli, a whole session over Gemini's API.  Argument: the address.  The model says what
// tests/fixtures/agent_scripts.py gives.

const assert = require("node:assert/strict");
const { run } = require("./cases.cjs");
const { TASK, binary, session } = require("./agent_session.cjs");

async function edits() {
  const env = { GEMINI_API_KEY: "none", GOOGLE_GEMINI_BASE_URL: process.argv[2], GEMINI_CLI_TRUST_WORKSPACE: "true" };
  const settings = { security: { auth: { selectedType: "gemini-api-key" } }, privacy: { usageStatisticsEnabled: false } };
  const options = ["-p", TASK, "--yolo", "--output-format", "json", "-m", "gemini"];
  const found = await session("gemini", [process.execPath, binary("@google/gemini-cli", "gemini"), ...options], {
    env,
    files: { ".gemini/settings.json": settings },
  });
  assert.equal(found.files["hello.py"], "print(42)\n", found.out);
  assert.match(found.out, /Done: hello\.py prints 42\./);
}

run([edits]);
