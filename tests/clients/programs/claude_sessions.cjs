// Claude Code, whole sessions: a file is made, patched and run, an image and a PDF file are read, and a full context is
// compacted.  Argument: the address.  The model says what tests/fixtures/agent_scripts.py gives.

const assert = require("node:assert/strict");
const { spawn } = require("node:child_process");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const { run } = require("./cases.cjs");
const { paper } = require("./agent_session.cjs");

const base = process.argv[2];
const home = path.dirname(require.resolve("@anthropic-ai/claude-code/package.json"));
const { bin } = JSON.parse(fs.readFileSync(path.join(home, "package.json"), "utf8"));
const claude = path.join(home, typeof bin === "string" ? bin : bin.claude);
const dot = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";

/** Run one task in a new folder and a new home; its events, and the files of the folder. */
function session(task, model) {
  const top = fs.mkdtempSync(path.join(os.tmpdir(), "claude-"));
  const work = path.join(top, "work");
  fs.mkdirSync(work);
  fs.writeFileSync(path.join(work, "dot.png"), Buffer.from(dot, "base64"));
  fs.writeFileSync(path.join(work, "paper.pdf"), paper("The paper says 42"));
  const lines = Array.from({ length: 400 }, (_, i) => `line ${i} of a file with words that fill the context\n`);
  fs.writeFileSync(path.join(work, "long.txt"), lines.join(""));
  const options = ["--output-format", "stream-json", "--verbose", "--dangerously-skip-permissions"];
  const env = {
    PATH: process.env.PATH,
    HOME: top,
    IS_SANDBOX: "1",
    ANTHROPIC_BASE_URL: base,
    ANTHROPIC_AUTH_TOKEN: "none",
    ANTHROPIC_MODEL: model,
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
  };
  return new Promise((resolve, reject) => {
    const child = spawn(claude, ["-p", task, ...options], { cwd: work, env, stdio: ["ignore", "pipe", "pipe"] });
    const timer = setTimeout(() => child.kill("SIGKILL"), 180_000);
    let out = "";
    let errors = "";
    child.stdout.on("data", (data) => (out += data));
    child.stderr.on("data", (data) => (errors += data));
    child.on("error", reject);
    child.on("close", (code) => {
      clearTimeout(timer);
      const files = Object.fromEntries(
        fs.readdirSync(work).map((name) => [name, fs.readFileSync(path.join(work, name), "utf8")]),
      );
      fs.rmSync(top, { recursive: true, force: true });
      if (code !== 0) reject(new Error(`claude ended with ${code}: ${out.slice(-2000)}\n${errors.slice(-2000)}`));
      else resolve({ events: out.trim().split("\n").map(JSON.parse), files });
    });
  });
}

/** The template of this model refuses system messages that come later; Claude Code sends one in each request. */
async function edits() {
  const { events, files } = await session("Create hello.py that prints 42", "claude");
  assert.equal(files["hello.py"], "print(42)\n");
  const texts = events.filter((event) => event.type === "assistant").flatMap((event) => event.message.content);
  assert.ok(texts.some((block) => /image .* could not be processed and was removed/.test(block.text ?? "")));
  assert.equal(events.at(-1).result, "The paper was read.");
  assert.equal(events.at(-1).is_error, false);
}

async function compaction() {
  const { events, files } = await session("Read the numbers", "claude-short");
  assert.ok(events.some((event) => event.type === "system" && event.status === "compacting"));
  assert.equal(files["log.txt"], "went on\n");
  assert.equal(events.at(-1).result, "All numbers were read.");
}

run([edits, compaction]);
