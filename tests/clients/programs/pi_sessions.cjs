// pi, whole sessions over Responses, chat completions and Messages: a file is made, edited and run.  Argument: the
// address.  The model says what tests/fixtures/agent_scripts.py gives.

const assert = require("node:assert/strict");
const { spawn } = require("node:child_process");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const { run } = require("./cases.cjs");

const address = process.argv[2];
const modules = process.env.NODE_PATH;
const manifest = path.join(modules, "@mariozechner", "pi-coding-agent", "package.json");
const pi = path.join(path.dirname(manifest), JSON.parse(fs.readFileSync(manifest, "utf8")).bin.pi);
const cost = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 };
const model = { id: "pi", name: "pi", reasoning: false, input: ["text"], cost, contextWindow: 131072, maxTokens: 8192 };

/** Run the task over one API in a new folder; its events, and the file. */
function session(api, baseUrl) {
  const home = fs.mkdtempSync(path.join(os.tmpdir(), "pi-"));
  const work = path.join(home, "work");
  const settings = { providers: { braid: { baseUrl, api, apiKey: "none", models: [model] } } };
  fs.mkdirSync(path.join(home, ".pi", "agent"), { recursive: true });
  fs.mkdirSync(work);
  fs.writeFileSync(path.join(home, ".pi", "agent", "models.json"), JSON.stringify(settings));
  const options = ["-p", "--mode", "json", "--provider", "braid", "--model", "pi", "Create hello.py that prints 42"];
  const env = { PATH: process.env.PATH, HOME: home };
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [pi, ...options], { env, cwd: work, stdio: ["ignore", "pipe", "pipe"] });
    const timer = setTimeout(() => child.kill("SIGKILL"), 90_000);
    let out = "";
    let errors = "";
    child.stdout.on("data", (data) => (out += data));
    child.stderr.on("data", (data) => (errors += data));
    child.on("error", reject);
    child.on("close", (code) => {
      clearTimeout(timer);
      const file = path.join(work, "hello.py");
      const text = fs.existsSync(file) ? fs.readFileSync(file, "utf8") : "";
      fs.rmSync(home, { recursive: true, force: true });
      if (code !== 0) reject(new Error(`pi ended with ${code}: ${errors.slice(-2000)}`));
      else resolve({ messages: out.trim().split("\n").map(JSON.parse).at(-1).messages, text });
    });
  });
}

async function check(api, baseUrl) {
  const { messages, text } = await session(api, baseUrl);
  assert.equal(text, "print(42)\n");
  const replies = messages.filter((message) => message.role === "assistant");
  assert.equal(replies.at(-1).content.at(-1).text, "Done: hello.py prints 42.");
  assert.equal(replies.length, 4);
  for (const { usage } of replies.slice(1)) assert.ok(usage.cacheRead > 0.95 * (usage.cacheRead + usage.input));
}

async function overResponses() {
  await check("openai-responses", `${address}/v1`);
}

async function overChatCompletions() {
  await check("openai-completions", `${address}/v1`);
}

async function overMessages() {
  await check("anthropic-messages", address);
}

run([overResponses, overChatCompletions, overMessages]);
