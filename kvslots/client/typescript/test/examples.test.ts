import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { suite, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { Client } from "kvslots";
import { url } from "./gateways.js";

const run = promisify(execFile);
const programs: { name: string; pool?: string; want: string[] }[] = JSON.parse(readFileSync(new URL("examples/programs.json", import.meta.url), "utf8"));
const client = new Client(url);

const anyFence = (text: string): string => text.replaceAll(/\b\d{16}\b/g, "<fence>");

suite("the examples of the documents run, and print what they say", { concurrency: true }, () => {
  for (const { name, pool, want } of programs) {
    test(name, async () => {
      if (pool) await client.pool(pool).register(5);
      const { stdout } = await run(process.execPath, [fileURLToPath(new URL(`examples/${name}.js`, import.meta.url))]);
      assert.deepEqual(anyFence(stdout).trim().split("\n"), want.map(anyFence));
    });
  }
});
