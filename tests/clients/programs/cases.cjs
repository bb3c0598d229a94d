// Runs the cases of a program one after the other, each a function, and prints what became of each.

/** Print `passed NAME` or `failed NAME`, with its error on stderr; exit with 1 where one failed. */
async function run(cases) {
  let failed = false;
  for (const one of cases) {
    try {
      await one();
      console.log("passed", one.name);
    } catch (error) {
      failed = true;
      console.error(error);
      console.log("failed", one.name);
    }
  }
  process.exit(failed ? 1 : 0);
}

module.exports = { run };
