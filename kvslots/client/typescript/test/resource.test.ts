import assert from "node:assert/strict";
import { mkdtemp, writeFile } from "node:fs/promises";
import { hostname, tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import { suite, test } from "node:test";
import { BadRequestError, Client, LeaseLostError, NoPoolError, NotHeldError, OtherHolderError, ReadOnlyError, UnauthorizedError } from "kvslots";
import { aborted, eventually, poolId, Proxy, startGateway, url } from "./gateways.js";

const client = new Client(url);
const other = new Client(url);

const defaultLabel = `${userInfo().username}@${hostname()}:${process.pid} resource.test.js`;

suite("who holds it, and who waits", { concurrency: true }, () => {
  test("holders and the line of a pool have labels", async () => {
    const id = poolId();
    const pool = client.pool(id);
    await pool.register(2, { name: "screens" });
    const first = await pool.borrow({ ttl: 300, label: "ci@b7:12 make" });
    const second = await pool.borrow({ ttl: 300 });
    const [one, two, ...more] = await pool.holders();
    assert.deepEqual({ ...one, age: 0, expiresIn: 0 }, { position: 0, label: "ci@b7:12 make", fence: first.fence, age: 0, expiresIn: 0 });
    assert.ok(one!.age >= 0 && one!.expiresIn > 0 && one!.expiresIn <= 300);
    assert.deepEqual([two!.position, two!.label, two!.fence, more], [1, defaultLabel, second.fence, []]);
    assert.deepEqual(await pool.line(), []);
    const waiting = [pool.borrow({ label: "<b>&ü" })];
    await eventually(async () => (await pool.line()).length === 1);
    waiting.push(other.pool(id).using({ label: "next" }, (lease) => lease));
    await eventually(async () => (await pool.line()).length === 2);
    const line = await pool.line();
    assert.deepEqual(line.map(({ place, label }) => [place, label]), [[1, "<b>&ü"], [2, "next"]]);
    assert.ok(line[0]!.waited >= line[1]!.waited && line[1]!.waited >= 0 && !("owner" in line[0]!));
    await first.release();
    const third = await waiting[0]!;
    assert.deepEqual((await pool.holders()).map(({ position, label, fence }) => [position, label, fence])[0], [0, "<b>&ü", third.fence]);
    await second.release();
    await third.release();
    await waiting[1];
    assert.deepEqual(await pool.holders(), []);
    const named = await (await fetch(`${url}/v1/pools/${id}/leases`)).json();
    assert.equal((named as { name: string }).name, "screens");
    await pool.register(3);
    assert.equal(((await (await fetch(`${url}/v1/pools/${id}/leases`)).json()) as { name: string }).name, "screens", "it keeps its name");
  });

  test("a user without a name has a host", async (t) => {
    const builtin = process.getBuiltinModule;
    t.after(() => Object.assign(process, { getBuiltinModule: builtin }));
    const userInfo = (): never => { throw new Error("ENOENT: uv_os_get_passwd"); };
    Object.assign(process, { getBuiltinModule: () => ({ userInfo, hostname: () => "build7" }) });
    await using nameless = new Client(url);
    Object.assign(process, { getBuiltinModule: builtin });
    await using lease = await nameless.lock("nameless").acquire();
    assert.ok(lease.fence);
    assert.equal((await client.lock("nameless").holders())[0]!.label, `?@build7:${process.pid} resource.test.js`);
  });

  for (const [type, held] of [["lock", (c: Client) => c.lock("held/%?")], ["semaphore", (c: Client) => c.semaphore("held-2", 1)]] as const) {
    test(`a ${type} has holders and a line`, async () => {
      await using mine = new Client(url);
      await using theirs = new Client(url);
      const lock = held(mine);
      await assert.rejects(lock.holders(), NoPoolError);
      await assert.rejects(lock.line(), NoPoolError);
      const lease = await lock.acquire({ ttl: 300, label: "ci@b7:12 make" });
      const waiting = held(theirs).acquire({ ttl: 300, label: "next" });
      await eventually(async () => (await lock.line()).length === 1);
      const [[holder], [waiter]] = [await lock.holders(), await lock.line()];
      assert.deepEqual([holder!.position, holder!.label, holder!.fence], [0, "ci@b7:12 make", lease.fence]);
      assert.deepEqual([waiter!.place, waiter!.label], [1, "next"]);
      assert.ok(holder!.owner! > 0 && waiter!.owner! > 0 && holder!.owner !== waiter!.owner);
      assert.equal((await lock.evict(0, lease.fence)).label, "ci@b7:12 make");
      const next = await waiting;
      assert.deepEqual((await lock.holders()).map((h) => [h.label, h.fence]), [["next", next.fence]]);
      assert.equal(await lease.release(), false);
      await assert.rejects(lock.evict(0, lease.fence), OtherHolderError);
      assert.equal(await next.release(), true);
    });
  }

  test("a lease is ended by its position and fence, and its holder loses it", async () => {
    const pool = client.pool(poolId());
    await pool.register(1);
    const lease = await pool.borrow({ ttl: 3, label: "stuck" });
    await assert.rejects(pool.evict(0, lease.fence + 1), OtherHolderError);
    await assert.rejects(pool.evict(1, lease.fence), NotHeldError);
    const { label, fence, position } = await pool.evict(0, lease.fence);
    assert.deepEqual([label, fence, position], ["stuck", lease.fence, 0]);
    await assert.rejects(pool.evict(0, lease.fence), NotHeldError);
    await aborted(lease.lost);
    const { reason } = lease.lost;
    assert.ok(reason instanceof LeaseLostError && reason.reason === "lease_gone" && reason.message === "the lease is lost: an operator has ended it");
    assert.ok(reason.cause instanceof NotHeldError && reason.cause.cause === "evicted");
    assert.equal((await pool.inspect()).inUse, 0);
    await assert.rejects(client.pool(poolId()).evict(0, 1), NoPoolError);
  });

  test("all leases and places are read, page by page", async (t) => {
    const pages: Record<string, unknown> = {
      "leases?from=0": { leases: [{ position: 0, label: "", fence: 7, age_s: 1, expires_in_s: 2 }], next_from: 1 },
      "leases?from=1": { leases: [{ position: 1, label: "x", fence: 8, age_s: 3, expires_in_s: 4, owner_conn_id: 5 }] },
      "line?after=0": { line: [{ place: 1, label: "", waited_s: 2 }], next_after: 1 },
      "line?after=1": { line: [{ place: 2, label: "x", waited_s: 1, owner_conn_id: 5 }] },
    };
    const proxy = await Proxy.before(url, t);
    proxy.treat = ({ url }) => ({ status: 200, headers: {}, body: JSON.stringify(pages[url!.split("/").pop()!.split("&")[0]!]) });
    const pool = new Client(proxy.url).pool(poolId());
    assert.deepEqual(await pool.holders(), [
      { position: 0, label: "", fence: 7, age: 1, expiresIn: 2 },
      { position: 1, label: "x", fence: 8, age: 3, expiresIn: 4, owner: 5 },
    ]);
    assert.deepEqual(await pool.line(), [{ place: 1, label: "", waited: 2 }, { place: 2, label: "x", waited: 1, owner: 5 }]);
  });

  test("a holder learns of its end long before its next renewal", async () => {
    const pool = client.pool(poolId());
    await pool.register(1);
    const [lock, semaphore] = [client.lock("evicted"), client.semaphore("evicted-twice", 2)];
    const all = [
      { of: pool, lease: await pool.borrow({ ttl: 600 }) },
      { of: lock, lease: await lock.acquire({ ttl: 600 }) },
      { of: semaphore, lease: await semaphore.acquire({ ttl: 600 }) },
    ];
    const evicted = performance.now();
    await Promise.all(all.map(async ({ of, lease }) => {
      await of.evict(0, lease.fence);
      await aborted(lease.lost);
      const { reason } = lease.lost;
      assert.ok(reason instanceof LeaseLostError && reason.reason === "lease_gone" && reason.message === "the lease is lost: an operator has ended it");
    }));
    assert.ok(performance.now() - evicted < 60_000, "only a renewal has said so");
  });

  test("the answer to evict is lost, and the lease has ended", async (t) => {
    const proxy = await Proxy.before(url, t);
    const id = poolId();
    const pool = client.pool(id);
    await pool.register(1);
    const lease = await pool.borrow({ ttl: 300 });
    proxy.treat = (_, nth) => (nth === 1 ? "lose" : "pass");
    await assert.rejects(new Client(proxy.url).pool(id).evict(0, lease.fence), NotHeldError);
    assert.equal(proxy.seen.length, 2);
    assert.ok(proxy.seen.every(({ url }) => !url.includes(id)), "the pool's secret is in a URL");
    assert.deepEqual(await pool.holders(), []);
    assert.equal(await lease.release(), false);
  });

  test("labels and names that are too long are refused", async () => {
    const pool = client.pool(poolId());
    const long = "x".repeat(65);
    const fieldOf = (field: string) => (error: unknown) => error instanceof BadRequestError && error.field === field;
    await assert.rejects(pool.register(1, { name: long }), fieldOf("name"));
    await pool.register(1, { name: "x".repeat(64) });
    await assert.rejects(pool.borrow({ label: long }), fieldOf("label"));
    await assert.rejects(client.lock("labels").acquire({ label: "a\nb" }), fieldOf("label"));
    assert.equal((await pool.inspect()).inUse, 0);
  });

  test("a read token reads, and changes nothing", async () => {
    const tokens = join(await mkdtemp(join(tmpdir(), "kvslots-")), "tokens");
    await writeFile(tokens, "hunter2\nreaders read hunter3\n");
    const guarded = await startGateway("--auth-token-file", tokens);
    const id = poolId();
    await using owner = new Client(guarded.url, { token: "hunter2" });
    const reader = new Client(guarded.url, { token: "hunter3" }).pool(id);
    await owner.pool(id).register(1);
    await using lease = await owner.pool(id).borrow({ ttl: 300, label: "mine" });
    assert.deepEqual((await reader.holders()).map(({ label, fence }) => [label, fence]), [["mine", lease.fence]]);
    await assert.rejects(reader.evict(0, lease.fence), ReadOnlyError);
    await assert.rejects(reader.borrow(), ReadOnlyError);
    await assert.rejects(new Client(guarded.url).pool(id).holders(), UnauthorizedError);
  });
});
