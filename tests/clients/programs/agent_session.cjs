// Runs one task of a coding agent in a new folder and a new home.

const { spawn } = require("node:child_process");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");

const DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";
const TASK = "Create hello.py that prints 42";

/** A PDF file of one page. */
function paper(text) {
  const drawn = `BT /F1 18 Tf 20 50 Td (${text}) Tj ET`;
  const objects = [
    "<< /Type /Catalog /Pages 2 0 R >>",
    "<< /Type /Pages /Kids [4 0 R] /Count 1 >>",
    "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 400 100] /Contents 5 0 R /Resources << /Font << /F1 3 0 R >> >> >>",
    `<< /Length ${drawn.length} >>\nstream\n${drawn}\nendstream`,
  ];
  let out = "%PDF-1.4\n";
  const places = objects.map((object, i) => {
    const place = out.length;
    out += `${i + 1} 0 obj\n${object}\nendobj\n`;
    return `${String(place).padStart(10, "0")} 00000 n \n`;
  });
  const table = `xref\n0 6\n0000000000 65535 f \n${places.join("")}`;
  return `${out}${table}trailer << /Size 6 /Root 1 0 R >>\nstartxref\n${out.length}\n%%EOF\n`;
}

/** The file that an installed package runs for its command `name`. */
function binary(pack, name) {
  const folder = path.join(process.env.NODE_PATH, pack);
  const { bin } = JSON.parse(fs.readFileSync(path.join(folder, "package.json"), "utf8"));
  return path.join(folder, typeof bin === "string" ? bin : bin[name]);
}

/**
 * Of an agent's name: what `command`, [file, ...arguments], printed, and the texts of the files that are in its folder at the end.
 * `files` are written into the home first, by their paths; `env` is its environment beside PATH and HOME.
 * WORK in an argument stands for the folder, HOME for the home.
 */
function session(agent, command, { files = {}, env = {}, seconds = 240 } = {}) {
  const home = path.join(os.tmpdir(), `braid-agent-${agent}`); // the scripts of the models name it too
  const work = path.join(home, "work");
  fs.rmSync(home, { recursive: true, force: true });
  fs.mkdirSync(work, { recursive: true });
  fs.writeFileSync(path.join(work, "dot.png"), Buffer.from(DOT, "base64"));
  fs.writeFileSync(path.join(work, "paper.pdf"), paper("The paper says 42"));
  for (const [name, content] of Object.entries(files)) {
    fs.mkdirSync(path.dirname(path.join(home, name)), { recursive: true });
    fs.writeFileSync(path.join(home, name), typeof content === "string" ? content : JSON.stringify(content));
  }
  const filled = (text) => text.replaceAll("WORK", work).replaceAll("HOME", home);
  const variables = Object.fromEntries(Object.entries(env).map(([name, value]) => [name, filled(value)]));
  const settings = { PATH: process.env.PATH, HOME: home, NO_COLOR: "1", CI: "1", ...variables };
  const [file, ...options] = command.map(filled);
  return new Promise((resolve, reject) => {
    const child = spawn(file, options, { cwd: work, env: settings, stdio: ["ignore", "pipe", "pipe"], detached: true });
    const end = () => {
      try {
        process.kill(-child.pid, "SIGKILL");
      } catch {} // it ended with all that it started
    };
    const timer = setTimeout(end, seconds * 1000);
    let out = "";
    let errors = "";
    child.stdout.on("data", (data) => (out += data));
    child.stderr.on("data", (data) => (errors += data));
    child.on("error", reject);
    child.on("close", (code) => {
      clearTimeout(timer);
      end();
      const found = fs.readdirSync(work).filter((name) => fs.statSync(path.join(work, name)).isFile());
      const texts = Object.fromEntries(found.map((name) => [name, fs.readFileSync(path.join(work, name), "utf8")]));
      fs.rmSync(home, { recursive: true, force: true, maxRetries: 5 });
      if (code !== 0) reject(new Error(`${path.basename(file)} ended with ${code}: ${out.slice(-3000)}\n${errors.slice(-3000)}`));
      else resolve({ out, errors, files: texts });
    });
  });
}

module.exports = { TASK, binary, paper, session };
