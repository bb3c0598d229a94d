// Continue's command line, a whole session over chat completions.  Argument: the address.  The model says what
// tests/fixtures/agent_scripts.py gives.

const assert = require("node:assert/strict");
const { run } = require("./cases.cjs");
const { TASK, binary, session } = require("./agent_session.cjs");

const config = `name: braid
version: 1.0.0
schema: v1
models:
  - name: braid
    provider: openai
    model: continue
    apiBase: ${process.argv[2]}/v1
    apiKey: none
    roles: [chat, edit, apply]
    capabilities: [tool_use]
`;

async function edits() {
  const options = ["-p", TASK, "--auto", "--config", "HOME/.continue/config.yaml"];
  const found = await session("continue", [process.execPath, binary("@continuedev/cli", "cn"), ...options], {
    files: { ".continue/config.yaml": config },
  });
  assert.equal(found.files["hello.py"], "print(42)\n", found.out);
  assert.match(found.out, /Done: hello\.py prints 42\./);
}

run([edits]);
