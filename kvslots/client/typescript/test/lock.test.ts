import assert from "node:assert/strict";
import { test } from "node:test";
import { Client, LimitMismatchError, NoSlotError } from "kvslots";
import { eventually, url } from "./gateways.js";

interface Stats {
  connections: number;
  locks: { key: string; fence: number; waiters: number }[];
  semaphores: { key: string; holders: number; waiters: number }[];
}

/** Reads the statistics: again while other tests of this address read something that takes long, since a client has one turn. */
async function stats(): Promise<Stats> {
  const answer = await fetch(`${url}/v1/stats`);
  return answer.status === 429 ? stats() : ((await answer.json()) as Stats);
}

const lockStats = async (key: string) => (await stats()).locks.find((lock) => lock.key === key);

let names = 0;
const newName = () => `a lock/ü%?#.. ${++names}`.replaceAll(" ", "_");

test("a lock excludes others until it is released", async () => {
  await using client = new Client(url);
  await using other = new Client(url);
  const name = newName();
  const lease = await client.lock(name).acquire();
  assert.equal((await lockStats(name))?.fence, lease.fence);
  for (const rival of [client, other]) await assert.rejects(rival.lock(name).acquire({ wait: 0 }), NoSlotError);
  assert.equal(await lease.release(), true);
  await using next = await other.lock(name).acquire({ wait: 0 });
  assert.ok(next.fence > lease.fence);
});

test("callers of one process stand in line at the gateway, in the order of their arrival", async () => {
  await using client = new Client(url);
  await using other = new Client(url);
  const name = newName();
  const order: number[] = [];
  let inside = 0;
  const holder = await client.lock(name).acquire();
  const tasks: Promise<void>[] = [];
  for (let i = 0; i < 60; i++) {
    const work = async (): Promise<void> => {
      assert.equal(++inside, 1);
      await Promise.resolve();
      order.push(i);
      inside--;
    };
    tasks.push((i % 2 ? client : other).lock(name).using(work));
    await eventually(async () => (await lockStats(name))?.waiters === i + 1);
  }
  await holder.release();
  await Promise.all(tasks);
  assert.deepEqual(order, Array.from({ length: 60 }, (_, i) => i));
});

test("callers of a web page are lined up in front of the gateway", async () => {
  await using client = new Client(url, { lineUp: true });
  const lock = client.lock(newName());
  const order: number[] = [];
  await Promise.all(Array.from({ length: 50 }, (_, i) => lock.using(() => void order.push(i))));
  assert.deepEqual(order, Array.from({ length: 50 }, (_, i) => i));
  const name = newName();
  await using held = await client.lock(name).acquire();
  const abort = new AbortController();
  const calls = Array.from({ length: 20 }, () => assert.rejects(client.lock(name).acquire({ signal: abort.signal }), { name: "AbortError" }));
  await eventually(async () => (await lockStats(name))?.waiters === 1);
  abort.abort();
  await Promise.all(calls);
  assert.ok(held.fence);
});

test("tasks of two clients exclude each other, with rising fences", async () => {
  const name = newName();
  await using one = new Client(url);
  await using other = new Client(url);
  const fences: number[] = [];
  await Promise.all([one, other].flatMap((client) => Array.from({ length: 30 }, () => client.lock(name).using({}, ({ fence }) => void fences.push(fence)))));
  assert.equal(fences.length, 60);
  assert.deepEqual(fences, fences.toSorted((a, b) => a - b));
});

test("a semaphore has as many holders as its limit", async () => {
  await using client = new Client(url);
  const name = newName();
  const semaphore = client.semaphore(name, 3);
  const leases = await Promise.all([semaphore.acquire({ wait: 0 }), semaphore.acquire({ wait: 20 }), semaphore.acquire({ wait: 0 })]);
  await assert.rejects(semaphore.acquire({ wait: 0 }), NoSlotError);
  await assert.rejects(client.semaphore(name, 4).acquire(), LimitMismatchError);
  await assert.rejects(client.lock(name).acquire(), LimitMismatchError);
  const waiting = semaphore.acquire({ wait: 60 });
  await leases[1]!.release();
  await using fourth = await waiting;
  await Promise.all([leases[0]!.release(), leases[2]!.release()]);
  await fourth.release();
  assert.equal((await stats()).semaphores.find((s) => s.key === name)?.holders ?? 0, 0);
});

test("an aborted wait leaves nothing behind", async () => {
  await using client = new Client(url);
  const name = newName();
  const lock = client.lock(name);
  const holder = await lock.acquire();
  const abort = new AbortController();
  const waiting = [1, 2, 3].map(() => assert.rejects(lock.acquire({ signal: abort.signal }), { name: "AbortError" }));
  await eventually(async () => (await lockStats(name))?.waiters === 3);
  abort.abort();
  await Promise.all(waiting);
  await eventually(async () => (await lockStats(name))?.waiters === 0);
  assert.equal(await holder.release(), true);
  await using next = await lock.acquire({ wait: 0 });
});

test("acquires that are aborted at any time leave nothing behind", async () => {
  await using client = new Client(url);
  const name = newName();
  await Promise.all(
    Array.from({ length: 40 }, async (_, i) => {
      const abort = new AbortController();
      setTimeout(() => abort.abort(), Math.random() * 80);
      const lease = await client.semaphore(name, 4).acquire({ ttl: 3600, wait: i % 2 ? 0 : 20, signal: abort.signal }).catch(() => undefined);
      await lease?.release();
    }),
  );
  await eventually(async () => {
    const left = (await stats()).semaphores.find((s) => s.key === name);
    return !left || (left.holders === 0 && left.waiters === 0);
  });
});

test("sessions are reused, and end with the client", async () => {
  const sessions = new Set<string>();
  let created = 0;
  const spy: typeof fetch = async (input, init) => {
    const session = new Headers(init?.headers).get("X-Dflockd-Session");
    if (session) sessions.add(session);
    if (String(input).endsWith("/v1/sessions")) created++;
    return fetch(input, init);
  };
  const client = new Client(url, { fetch: spy });
  for (let i = 0; i < 10; i++) await client.lock(newName()).using({}, () => undefined);
  assert.deepEqual([created, sessions.size], [1, 1]);
  const name = newName();
  await client.lock(name).acquire();
  await client.close();
  const [session] = sessions;
  assert.equal((await fetch(`${url}/v1/sessions/${session}/ping`, { method: "POST" })).status, 410);
  assert.ok(!(await lockStats(name))?.fence, "the lock outlives its session");
});

test("an unused session that has ended is replaced", async () => {
  const sessions: string[] = [];
  const spy: typeof fetch = async (input, init) => {
    const session = new Headers(init?.headers).get("X-Dflockd-Session");
    if (session) sessions.push(session);
    return fetch(input, init);
  };
  await using client = new Client(url, { fetch: spy });
  await client.lock(newName()).using({}, () => undefined);
  await fetch(`${url}/v1/sessions/${sessions[0]}`, { method: "DELETE" });
  await client.lock(newName()).using({ wait: 10 }, () => undefined);
  assert.ok(new Set(sessions).size === 2);
});
