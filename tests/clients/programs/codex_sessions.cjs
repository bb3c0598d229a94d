// Codex, whole sessions over HTTP and a WebSocket: files are made and patched, commands run, an image is looked at,
// a PDF file is read by a command, since Codex has no tool for it, and a full context is compacted.  Argument: the address.  The model says what tests/fixtures/agent_scripts.py gives.

const assert = require("node:assert/strict");
const { spawn } = require("node:child_process");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const { run } = require("./cases.cjs");
const { paper } = require("./agent_session.cjs");

const base = `${process.argv[2]}/v1`;
const codex = path.join(path.dirname(require.resolve("@openai/codex/package.json")), "bin", "codex.js");
const known = "gpt-5.5"; // a name that Codex knows: it declares apply_patch as a custom tool, and tool_search
const unknown = "agent";
const dot = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";
const provider = (more = "") => `
model_provider = "braid"
model_context_window = 131072
model_auto_compact_token_limit = 24000
[model_providers.braid]
name = "braid"
base_url = "${base}"
wire_api = "responses"
env_key = "BRAID_KEY"
${more}
`;

/** Run one task in a new folder and a new home; its events, and the folder. */
function session(task, model, config, auth) {
  const home = fs.mkdtempSync(path.join(os.tmpdir(), "codex-"));
  const work = path.join(home, "work");
  fs.mkdirSync(path.join(home, ".codex"));
  fs.mkdirSync(work);
  fs.writeFileSync(path.join(home, ".codex", "config.toml"), `model = "${model}"\n${config}`);
  if (auth) fs.writeFileSync(path.join(home, ".codex", "auth.json"), JSON.stringify(auth));
  fs.writeFileSync(path.join(work, "dot.png"), Buffer.from(dot, "base64"));
  fs.writeFileSync(path.join(work, "paper.pdf"), paper("The paper says 42"));
  const options = ["--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "-C", work];
  const env = { PATH: process.env.PATH, HOME: home, BRAID_KEY: "none" };
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [codex, "exec", ...options, task], { env, stdio: ["ignore", "pipe", "pipe"] });
    const timer = setTimeout(() => child.kill("SIGKILL"), 90_000);
    let out = "";
    let errors = "";
    child.stdout.on("data", (data) => (out += data));
    child.stderr.on("data", (data) => (errors += data));
    child.on("error", reject);
    child.on("close", (code) => {
      clearTimeout(timer);
      const events = out.trim().split("\n").map(JSON.parse);
      const files = Object.fromEntries(
        fs.readdirSync(work).map((name) => [name, fs.readFileSync(path.join(work, name), "utf8")]),
      );
      fs.rmSync(home, { recursive: true, force: true });
      if (code !== 0) reject(new Error(`codex ended with ${code}: ${out.slice(-2000)}\n${errors.slice(-2000)}`));
      else resolve({ events, files });
    });
  });
}

const items = (events, type) =>
  events.filter((event) => event.type === "item.completed" && event.item.type === type).map((event) => event.item);

/** The share of all prompt tokens that were found in the cache. */
function reused(events) {
  const { usage } = events.at(-1);
  return usage.cached_input_tokens / usage.input_tokens;
}

function checkEdits({ events, files }) {
  assert.equal(files["hello.py"], "print(42)\n");
  assert.deepEqual(items(events, "file_change").map((item) => item.changes[0].kind), ["add", "update"]);
  const commands = items(events, "command_execution").map((item) => [item.exit_code, item.aggregated_output]);
  assert.deepEqual(commands.sort(), [[0, "10 hello.py\n"], [0, "42\n"], [0, "The paper says 42\n"]]);
  assert.equal(items(events, "agent_message").at(-1).text, "Done: hello.py prints 42.");
  assert.equal(events.at(-1).type, "turn.completed");
}

function checkCompaction({ events, files }) {
  assert.equal(files["log.txt"], "read\nread\nwent on\n");
  assert.equal(items(events, "agent_message").at(-1).text, "All numbers were read.");
  assert.equal(events.at(-1).type, "turn.completed");
}

async function edits() {
  const found = await session("Create hello.py that prints 42", known, provider().replace("24000", "120000"));
  checkEdits(found);
  assert.ok(reused(found.events) > 0.75, "of five prompts only the first is new");
}

/** How many images the models of the server were given so far. */
async function imagesEncoded() {
  const lines = (await (await fetch(`${process.argv[2]}/metrics`)).text()).split("\n");
  const counts = lines.filter((line) => line.startsWith("vllm:mm_cache_queries_total"));
  return counts.reduce((sum, line) => sum + Number(line.split(" ").at(-1)), 0);
}

/** By a vision model: the image is in the prompt of the next turn, and of those after it. */
async function looksAtAnImage() {
  const before = await imagesEncoded();
  const { events } = await session("Look at dot.png", "seeing", provider());
  assert.equal(items(events, "agent_message").at(-1).text, "I looked at it.");
  assert.equal(events.at(-1).type, "turn.completed");
  assert.ok((await imagesEncoded()) > before);
}

async function editsAgainOverWebSocket() {
  const config = provider("supports_websockets = true").replace("24000", "120000");
  const found = await session("Create hello.py that prints 42", known, config);
  checkEdits(found);
  assert.ok(reused(found.events) > 0.85, "a new session has the instructions and tools of the one before");
}

async function compaction() {
  checkCompaction(await session("Read the numbers", unknown, provider()));
}

/** As with OpenAI: a WebSocket, and a compaction that the server makes. */
async function compactionByTheServer() {
  const config = `openai_base_url = "${base}"\nmodel_auto_compact_token_limit = 28000\n`;
  const auth = { OPENAI_API_KEY: "sk-none", auth_mode: "apikey", tokens: null, last_refresh: null };
  checkCompaction(await session("Read the numbers", known, config, auth));
}

run([edits, looksAtAnImage, editsAgainOverWebSocket, compaction, compactionByTheServer]);
