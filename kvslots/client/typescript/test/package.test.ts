import assert from "node:assert/strict";
import { execFile, spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, suite, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { Client } from "kvslots";
import { eventually, poolId, startGateway, unusedPort, url } from "./gateways.js";

const run = promisify(execFile);
const root = fileURLToPath(new URL("../..", import.meta.url));

// The package as npm would install it from the registry.
const dir = mkdtempSync(join(tmpdir(), "kvslots-"));
after(() => rmSync(dir, { recursive: true }));
const packed = join(dir, "node_modules", "kvslots");
await mkdir(packed, { recursive: true });
const tarball = readdirSync(root).find((name) => name.endsWith(".tgz"))!;
await run("tar", ["-xzf", join(root, tarball), "-C", packed, "--strip-components", "1"]);

function script(name: string, code: string): string {
  const file = join(dir, name);
  writeFileSync(file, code);
  return file;
}

/** A program that borrows a slot and ends, without returning it. */
const borrower = (pool: string, on = url) => `
const pool = new Client(${JSON.stringify(on)}).pool(${JSON.stringify(pool)});
pool.register(1).then(() => pool.borrow({ ttl: 3600 })).then((lease) => console.log(lease.position), (e) => console.log(e.name, e.message, e.permanent));
`;

suite("the package", { concurrency: true }, () => {
  test("is small, and has what it needs", async () => {
    const { stdout } = await run("tar", ["-tzf", join(root, tarball)]);
    const files = stdout.trim().split("\n").map((name) => name.replace("package/", ""));
    for (const name of files) assert.match(name, /^(package\.json|(README|CHANGELOG)\.md|LICENSE|dist\/\w+\.(js|js\.map|d\.ts))$/);
    for (const name of ["LICENSE", "CHANGELOG.md", "README.md", "dist/index.js.map"]) assert.ok(files.includes(name), name);
    const { default: description } = await import(join(packed, "package.json"), { with: { type: "json" } });
    assert.equal(description.dependencies, undefined);
  });

  test("is imported, and its timers do not keep a program alive", async () => {
    const file = script("esm.mjs", `import { Client } from "kvslots";${borrower(poolId())}`);
    assert.equal((await run(process.execPath, [file])).stdout, "0\n");
  });

  test("is required", async () => {
    const file = script("cjs.cjs", `const { Client } = require("kvslots");${borrower(poolId())}`);
    assert.equal((await run(process.execPath, [file])).stdout, "0\n");
    const both = script("both.cjs", `import("kvslots").then((esm) => console.log(esm.KvslotsError === require("kvslots").KvslotsError));`);
    assert.equal((await run(process.execPath, [both])).stdout, "true\n");
  });

  test("trusts the certificates that fetch trusts", async () => {
    const [cert, key] = [process.env["KVSLOTS_CERT"]!, process.env["KVSLOTS_KEY"]!];
    const gateway = await startGateway("--tls-cert", cert, "--tls-key", key);
    const address = gateway.url.replace("http:", "https:");
    const file = script("tls.mjs", `import { Client } from "kvslots";${borrower(poolId(), address)}`);
    assert.equal((await run(process.execPath, [file], { env: { ...process.env, NODE_EXTRA_CA_CERTS: cert } })).stdout, "0\n");
    assert.match((await run(process.execPath, [file])).stdout, /^UnreachableError https:\S+ \w*SIGNED_CERT\w* true\n$/);
  });

  for (const [runtime, ...args] of [["node"], ["deno", "run", "--allow-net", "--allow-read"], ["bun", "run"]] as const) {
    const installed = spawnSync(runtime, ["--version"]).status === 0;
    test(`runs on ${runtime}`, { skip: !installed && `${runtime} is not installed` }, async () => {
      const file = script(`${runtime}.mjs`, `
        import { Client, NoSlotError } from "./node_modules/kvslots/dist/index.js";
        const gone = "http://127.0.0.1:${await unusedPort()}";
        const client = new Client([gone, "${url}"]);
        const pool = client.pool("${poolId()}");
        await pool.register(1);
        const renewed = await pool.using({ ttl: 24 }, async (lease) => {
          const abort = new AbortController();
          setTimeout(() => abort.abort(new Error("enough")), 100);
          console.log(await Promise.all([
            pool.borrow({ wait: 0 }).catch((error) => error instanceof NoSlotError),
            pool.borrow({ signal: abort.signal }).catch((error) => error.message),
          ]));
          for (const first = lease.deadline; lease.deadline === first && !lease.lost.aborted; ) await new Promise((resolve) => setTimeout(resolve, 20));
          return !lease.lost.aborted;
        });
        let together = 0;
        const alone = await Promise.all(Array.from({ length: 20 }, () => client.lock("${runtime}").using(() => ++together === 1 && --together === 0)));
        const { inUse, waiting } = await pool.inspect();
        console.log(JSON.stringify([renewed, inUse, waiting, alone.every(Boolean)]));
        await new Client(gone).pool("${poolId()}").inspect().catch((error) => console.log(error.name, error.permanent));
        await client.close();
        const last = new Client("${url}").pool("${poolId()}");
        await last.register(1);
        await last.borrow({ ttl: 3600 }); // its timers do not keep the program alive
      `);
      const { stdout } = await run(runtime, [...args, file]);
      assert.match(stdout, /^\[ true, ['"]enough['"] \]\n\[true,0,0,true\]\nUnreachableError false\n$/);
    });
  }

  test("gives the slots of a killed program back after their ttl", async () => {
    const pool = poolId();
    const file = script("killed.mjs", `import { Client } from "kvslots";
      const pool = new Client(${JSON.stringify(url)}).pool(${JSON.stringify(pool)});
      await pool.register(1);
      await pool.borrow({ ttl: 1 });
      process.kill(process.pid, "SIGKILL");`);
    await assert.rejects(run(process.execPath, [file]), { signal: "SIGKILL" });
    await using lease = await new Client(url).pool(pool).borrow({ wait: 60 });
    await eventually(() => lease.position === 0);
  });
});
