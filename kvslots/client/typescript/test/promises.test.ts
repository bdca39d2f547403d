import assert from "node:assert/strict";
import http from "node:http";
import net, { type AddressInfo } from "node:net";
import { suite, test, type TestContext } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { Client, KvslotsError, LeaseLostError, LimitMismatchError, NoSlotError, RefusedError, UnreachableError, type TakeOptions } from "kvslots";
import { eventually, poolId, url } from "./gateways.js";

/** Milliseconds by which a call ends after its wait. */
const BOUND = 9_000;

async function listen(server: net.Server | http.Server, t: TestContext): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    server.close();
    if (server instanceof http.Server) server.closeAllConnections();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** The URL of a server that gives one answer to all requests. */
const foreign = (t: TestContext, status: number, body: string): Promise<string> =>
  listen(http.createServer((request, response) => void request.resume().on("end", () => response.writeHead(status).end(body))), t);

suite("promises", { concurrency: true }, () => {
  test("calls end in time although the gateway accepts and never answers", async (t) => {
    const sockets: net.Socket[] = [];
    t.after(() => sockets.forEach((socket) => socket.destroy()));
    const client = new Client(await listen(net.createServer((socket) => void sockets.push(socket.on("error", () => undefined))), t), { timeout: 2 });
    const pool = client.pool(poolId());
    const calls: [number, () => Promise<unknown>][] = [
      [0, () => pool.borrow({ wait: 0 })], [0, () => client.lock("a").acquire({ wait: 0 })],
      [1, () => pool.borrow({ wait: 1 })], [1, () => client.lock("a").acquire({ wait: 1 })],
      [0, () => pool.inspect()], [0, () => pool.holders()],
    ];
    await Promise.all(calls.map(async ([wait, call]) => {
      const before = performance.now();
      await assert.rejects(call(), UnreachableError);
      assert.ok(performance.now() - before < wait * 1000 + BOUND, String(call));
    }));
  });

  test("a foreign answer is an error that says so", async (t) => {
    for (const body of ["{}", "[]", "null", "<html>", '{"lease":7,"status":"ok","token":"x","position":0,"fence":1,"expires_in":"30","session_id":"s","idle_timeout_s":20}']) {
      const client = new Client(await foreign(t, 200, body));
      const pool = client.pool(poolId());
      const said = (error: unknown): boolean => error instanceof UnreachableError && error.permanent && /not a gateway's/.test(error.message);
      const calls = [pool.borrow({ wait: 5 }), client.lock("a").acquire({ wait: 5 }), pool.inspect(), pool.register(1), pool.holders(), pool.line()];
      await Promise.all(calls.map((call) => assert.rejects(call, said, body)));
    }
  });

  test("an answer without an end is not read to it", async (t) => {
    let sent = 0;
    const server = http.createServer((_, response) => {
      const piece = Buffer.alloc(1 << 20, " ");
      const more = (): void => {
        while (sent < 1 << 30 && !response.destroyed && response.write(piece)) sent += piece.length;
      };
      response.on("drain", more).on("error", () => undefined);
      more();
    });
    const client = new Client(await listen(server, t));
    await assert.rejects(client.pool(poolId()).inspect(), UnreachableError); // too long, or on a busy machine not in time
    assert.ok(sent < 64 << 20, `${sent} bytes`);
  });

  test("a call of a signal of many adds no listener", async () => {
    const warnings: Error[] = [];
    const warned = (warning: Error): void => void (warning.name === "MaxListenersExceededWarning" && warnings.push(warning));
    process.on("warning", warned);
    const abort = new AbortController();
    await using client = new Client(url);
    await using lease = await client.lock("listeners").acquire();
    const calls = Array.from({ length: 30 }, () => assert.rejects(client.lock("listeners").acquire({ signal: abort.signal }), { name: "AbortError" }));
    await eventually(async () => (await client.lock("listeners").line()).length === 30);
    abort.abort();
    await Promise.all(calls);
    process.off("warning", warned);
    assert.deepEqual(warnings, []);
    assert.ok(lease.fence);
  });

  test("a body that never comes ends with the time-out, also after a collection of garbage", async (t) => {
    setFlagsFromString("--expose-gc");
    const collect = runInNewContext("gc") as () => void;
    const begun = http.createServer((_, response) => response.writeHead(200, { "Content-Type": "application/json" }).write('{"count":'));
    const client = new Client(await listen(begun, t), { timeout: 1 });
    let over = false;
    const call = assert.rejects(client.pool(poolId()).inspect(), UnreachableError).finally(() => (over = true));
    for (const end = Date.now() + 20_000; !over && Date.now() < end; await pause(250)) collect();
    assert.ok(over, "the call goes on");
    await call;
  });

  test("a code of a refusal may be any text", async (t) => {
    const refusing = http.createServer((_, response) => response.writeHead(400, { "Kvslots-Error": "constructor" }).end('{"error":"no"}'));
    const inspected = new Client(await listen(refusing, t)).pool(poolId()).inspect();
    await assert.rejects(inspected, (error) => error instanceof RefusedError && error.code === "constructor");
  });

  test("options are known, or an error, and may be undefined or null", async () => {
    const mistyped = { waits: 3 } as TakeOptions;
    await assert.rejects(new Client(url).lock("a").acquire(mistyped), /there is no option waits/);
    assert.throws(() => new Client(url, { tokens: "a" } as object), /there is no option tokens/);
    const options: TakeOptions = { ttl: undefined, wait: undefined, label: undefined, signal: undefined };
    await using client = new Client(url, { token: undefined, fetch: undefined, label: undefined, timeout: undefined });
    assert.equal(await client.lock("undefined").using(options, () => 1), 1);
    assert.equal(await client.lock("undefined").using(() => 2), 2);
    await using held = await client.lock("null").acquire();
    const waiting = client.lock("null").acquire({ wait: null });
    await eventually(async () => (await client.lock("null").line()).length === 1);
    await held.release();
    await (await waiting).release();
  });

  test("a refusal says by whom and since when", async () => {
    await using client = new Client(url);
    const name = poolId();
    await using lease = await client.lock(name).acquire({ label: "ci@b7:12 make" });
    await assert.rejects(client.lock(name).acquire({ wait: 0 }), (error) => {
      assert.ok(error instanceof NoSlotError);
      assert.match(error.message, /^taken by ci@b7:12 make, for \d+ s; place 1$/);
      assert.deepEqual([error.taken?.heldBy, error.taken?.limit], ["ci@b7:12 make", undefined]);
      return error.place === 1;
    });
    const other = client.semaphore(name, 2).acquire({ wait: 0 });
    await assert.rejects(other, /^LimitMismatchError: the key is in use as a lock: taken by ci@b7:12 make, for \d+ s$/);
    await using slot = await client.semaphore(`${name}2`, 3).acquire();
    await assert.rejects(client.semaphore(`${name}2`, 2).acquire({ wait: 0 }), (error) => error instanceof LimitMismatchError && error.taken?.limit === 3);
    assert.ok(slot.fence);
    await lease.release();
    await using labelled = await client.lock(name).acquire();
    assert.match((await client.lock(name).holders())[0]!.label, new RegExp(`^\\S+@\\S+:${process.pid} promises\\.test\\.js$`));
    assert.ok(labelled.fence);
  });

  test("a closed client holds nothing, and rejects", async () => {
    const client = new Client(url);
    const pool = client.pool(poolId());
    await pool.register(1);
    const [slot, lock] = [await pool.borrow(), await client.lock(poolId()).acquire()];
    await client.close();
    assert.deepEqual([slot.lost.aborted, lock.lost.aborted], [false, false]);
    await assert.rejects(pool.inspect(), KvslotsError);
    await client.close();
  });

  test("errors of TLS are known by their code, not by a word in a text", async () => {
    const failing = (cause: object): Client => new Client("http://127.0.0.1:1", { fetch: () => Promise.reject(Object.assign(new TypeError("fetch failed"), { cause })) });
    const permanent = async (cause: object): Promise<boolean> =>
      failing(cause).pool(poolId()).inspect().then(() => false, (error: UnreachableError) => error.permanent);
    assert.equal(await permanent({ code: "DEPTH_ZERO_SELF_SIGNED_CERT" }), true);
    assert.equal(await permanent({ code: "ERR_TLS_CERT_ALTNAME_INVALID" }), true);
    assert.equal(await permanent({ code: "ENOTFOUND", message: "no host certs.example" }), false);
    assert.equal(await permanent({ message: "ISSUER of the CERT" }), false);
  });

  test("a web page is told what a refused answer may mean", async () => {
    Object.assign(globalThis, { location: { origin: "https://app.example", host: "app.example" } });
    try {
      const client = new Client("http://127.0.0.1:1", { fetch: () => Promise.reject(new TypeError("Failed to fetch")) });
      await assert.rejects(client.pool(poolId()).borrow({ wait: 0 }), /Failed to fetch; perhaps .* https:\/\/app\.example: see --http-cors-allowed-origins/);
    } finally {
      delete (globalThis as { location?: object }).location;
    }
  });

  test("classes say what an error is", () => {
    assert.ok(new NoSlotError("", { status: 409, code: "no_slot" }) instanceof RefusedError);
    assert.ok(new LeaseLostError("lease_gone", "") instanceof KvslotsError);
  });
});
