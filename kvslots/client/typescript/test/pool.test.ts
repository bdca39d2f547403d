import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { BadRequestError, Client, NoPoolError, NoSlotError, NotFoundError, UnauthorizedError } from "kvslots";
import { eventually, poolId, startGateway, url } from "./gateways.js";

const client = new Client(url);

async function newPool(count: number, on = client) {
  const pool = on.pool(poolId());
  await pool.register(count);
  return pool;
}

// Most of them wait.
suite("pools", { concurrency: true }, () => {
  test("a pool is registered, inspected and deleted", async () => {
    const pool = client.pool(poolId());
    await assert.rejects(pool.inspect(), NoPoolError);
    assert.deepEqual(await pool.register(3), { count: 3, inUse: 0, available: 3, waiting: 0 });
    await using lease = await pool.borrow({ ttl: 10 });
    assert.deepEqual(await pool.inspect(), { count: 3, inUse: 1, available: 2, waiting: 0 });
    await pool.delete();
    await assert.rejects(pool.borrow(), NoPoolError);
  });

  test("a lease has a position, a fence and a deadline", async () => {
    const pool = await newPool(2);
    const before = performance.now();
    const [first, second] = [await pool.borrow({ ttl: 30 }), await pool.borrow({ ttl: 30 })];
    assert.deepEqual([first.position, second.position], [0, 1]);
    assert.ok(second.fence > first.fence && Number.isSafeInteger(second.fence));
    assert.ok(first.deadline >= before + 30_000 && first.deadline <= performance.now() + 30_000);
    assert.equal(await first.release(), true);
    assert.equal(await first.release(), true, "the result of the first call");
    assert.equal(await second.release(), true);
    assert.equal(first.lost.aborted, false);
    assert.equal((await pool.inspect()).inUse, 0);
  });

  test("using returns what the body returns, and rejects with its error", async () => {
    const pool = await newPool(1);
    assert.equal(await pool.using((lease) => lease.position + 42), 42);
    const mine = new Error("mine");
    await assert.rejects(pool.using(() => Promise.reject(mine)), mine);
    assert.equal((await pool.inspect()).inUse, 0);
  });

  test("the body's error is not masked by a release that fails", async () => {
    const pool = await newPool(1);
    const mine = new Error("mine");
    await assert.rejects(
      pool.using({}, async () => {
        await pool.delete();
        throw mine;
      }),
      mine,
    );
  });

  test("await using returns the slot at the end of the block", async () => {
    const pool = await newPool(1);
    {
      await using lease = await pool.borrow();
      assert.equal(lease.position, 0);
      await assert.rejects(pool.borrow({ wait: 0 }), NoSlotError);
    }
    assert.equal((await pool.inspect()).inUse, 0);
  });

  test("a lease is renewed", async () => {
    const pool = await newPool(1);
    await using lease = await pool.borrow({ ttl: 24 });
    const first = lease.deadline;
    await eventually(() => lease.deadline > first || lease.lost.aborted);
    assert.equal(lease.lost.aborted, false);
    assert.equal((await pool.inspect()).inUse, 1);
  });

  test("errors say what the gateway says", async () => {
    await assert.rejects(client.pool(poolId()).register(5_000), (error) => {
      assert.ok(error instanceof BadRequestError && error instanceof Error);
      assert.deepEqual([error.name, error.code, error.status, error.field], ["BadRequestError", "bad_request", 400, "count"]);
      return error.range !== "" && error.message.includes("count");
    });
    await assert.rejects(new Client(`${url}/elsewhere`).pool(poolId()).inspect(), NotFoundError);
  });

  test("arguments are checked without showing them", async () => {
    for (const wrong of ["hunter2", "", "hunter2\r\nX: y"]) assert.throws(() => client.pool(wrong), (e) => e instanceof RangeError && !e.message.includes("hunter2"));
    for (const wrong of ["hunter2", "ftp://hunter2", "http://me:hunter2@localhost", ""]) assert.throws(() => new Client(wrong), (e) => e instanceof RangeError && !String(e).includes("hunter2"));
    for (const none of [[], undefined, null]) assert.throws(() => new Client(none as string[]), /^RangeError: urls must have one at least, such as/);
    assert.throws(() => new Client(url, { token: "hunter2\n" }), (e) => e instanceof RangeError && !e.message.includes("hunter2"));
    for (const name of ["", ".", "..", undefined, null, 1]) assert.throws(() => client.lock(name as string), RangeError);
    for (const limit of [undefined, null, 0, -1, 1.5, 65_536, NaN, "2"]) assert.throws(() => client.semaphore("a", limit as number), /^RangeError: limit must be an integer between 1 and 65535$/);
    const pool = await newPool(1);
    for (const wait of [-1, NaN]) await assert.rejects(pool.borrow({ wait }), RangeError);
    for (const ttl of [0, -1, NaN, Infinity, 86_401]) await assert.rejects(pool.borrow({ ttl }), RangeError);
    assert.equal((await pool.inspect()).inUse, 0);
  });

  test("a wait is longer than the gateway's maximum, and keeps its place", async () => {
    const short = await startGateway("--max-wait", "1s");
    const pool = await newPool(1, new Client(short.url));
    const holder = await pool.borrow();
    const waiting = pool.borrow({ wait: 60 });
    await eventually(async () => (await pool.inspect()).waiting === 1);
    for (let i = 0; i < 25; i++) {
      assert.equal((await pool.inspect()).waiting, 1, "out of line between two requests, or in it twice");
      await pause(100);
    }
    await holder.release();
    await using lease = await waiting;
    assert.equal(lease.position, 0);
  });

  test("when the wait is over, nothing is left in line", async () => {
    const pool = await newPool(1);
    await using holder = await pool.borrow();
    await assert.rejects(pool.borrow({ wait: 1 }), NoSlotError);
    assert.equal((await pool.inspect()).waiting, 0);
  });

  test("an aborted wait leaves nothing behind", async () => {
    const pool = await newPool(1);
    const holder = await pool.borrow();
    const why = new Error("enough");
    const abort = new AbortController();
    const waiting = [1, 2, 3].map(() => assert.rejects(pool.borrow({ signal: abort.signal }), why));
    await eventually(async () => (await pool.inspect()).waiting === 3);
    abort.abort(why);
    await Promise.all(waiting);
    await eventually(async () => (await pool.inspect()).waiting === 0);
    await holder.release();
    assert.equal((await pool.inspect()).inUse, 0);
    await assert.rejects(pool.borrow({ signal: abort.signal }), why);
    assert.equal((await pool.inspect()).inUse, 0);
  });

  test("borrows that are aborted at any time leave nothing behind", async () => {
    const pool = await newPool(3);
    const borrows = Array.from({ length: 60 }, async (_, i) => {
      const abort = new AbortController();
      const borrow = pool.borrow({ ttl: 3600, wait: i % 2 ? 0 : 20, signal: abort.signal });
      setTimeout(() => abort.abort(), Math.random() * 60);
      const lease = await borrow.catch(() => undefined);
      await lease?.release();
    });
    await Promise.all(borrows);
    await eventually(async () => {
      const { inUse, waiting } = await pool.inspect();
      return inUse === 0 && waiting === 0;
    });
  });

  test("the signal of a body aborts with the caller's", async () => {
    const pool = await newPool(1);
    const abort = new AbortController();
    const body = pool.using({ signal: abort.signal }, async (_lease, signal) => {
      setTimeout(() => abort.abort(new Error("enough")));
      await pause(60_000, undefined, { signal });
    });
    await assert.rejects(body, { name: "AbortError" });
    assert.equal((await pool.inspect()).inUse, 0);
  });

  test("a token is sent", async () => {
    const guarded = await startGateway("--auth-token", "hunter2");
    await assert.rejects(new Client(guarded.url).pool(poolId()).register(1), UnauthorizedError);
    assert.equal((await new Client(guarded.url, { token: "hunter2" }).pool(poolId()).register(1)).count, 1);
  });

  test("waiting borrows of several clients are served in order", async () => {
    const id = poolId();
    const [one, other] = [client.pool(id), new Client(url).pool(id)];
    await one.register(1);
    const holder = await one.borrow();
    const served: string[] = [];
    const tasks: Promise<void>[] = [];
    for (const [name, pool] of [["one", one], ["other", other]] as const) {
      tasks.push(pool.using({}, () => void served.push(name)));
      await eventually(async () => (await one.inspect()).waiting === tasks.length);
    }
    await holder.release();
    await Promise.all(tasks);
    assert.deepEqual(served, ["one", "other"]);
  });
});
