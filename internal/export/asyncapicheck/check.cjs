// Reads AsyncAPI documents with the official parser and its rules. Prints every finding and
// ends with 1 on one of severity error or warning.
//
//   NODE_PATH=… node check.cjs FILE...
const { readFileSync } = require("node:fs");
const { Parser } = require("@asyncapi/parser");

const severities = ["error", "warning", "info", "hint"];

async function main(files) {
  const parser = new Parser();
  let failed = files.length === 0;
  for (const file of files) {
    const { document, diagnostics } = await parser.parse(readFileSync(file, "utf8"), { source: file });
    for (const d of diagnostics) {
      console.log(`${file}:${d.range.start.line + 1}: ${severities[d.severity]}: ${d.message} [${d.code}]`);
      failed ||= d.severity <= 1;
    }
    if (!document) {
      failed = true;
      continue;
    }
    const { length: channels } = document.channels().all();
    const { length: operations } = document.operations().all();
    console.log(`${file}: ${channels} channels, ${operations} operations, ${document.allMessages().all().length} messages`);
    failed ||= channels === 0 || operations === 0;
  }
  process.exitCode = failed ? 1 : 0;
}

main(process.argv.slice(2));
