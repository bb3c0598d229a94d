// Cline, a whole session over chat completions.  Argument: the address.  The model says what
// tests/fixtures/agent_scripts.py gives.

const assert = require("node:assert/strict");
const { run } = require("./cases.cjs");
const { TASK, binary, session } = require("./agent_session.cjs");

const base = `${process.argv[2]}/v1`;

async function edits() {
  const cline = binary("cline", "cline");
  const auth = `"${cline}" auth --provider openai --apikey none --modelid cline --baseurl ${base} --config HOME/.cline`;
  const found = await session("cline", ["/bin/sh", "-c", `${auth} && "${cline}" --json --config HOME/.cline -P openai -m cline "${TASK}"`]);
  assert.equal(found.files["hello.py"], "print(42)\n", found.out);
  assert.match(found.out, /Done: hello\.py prints 42\./);
}

run([edits]);
