import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { Client, DrainingError, KvslotsError, type Lease, LeaseLostError, NoPoolError, NoSlotError, type Pool, SessionGoneError, UnavailableError, UnreachableError } from "kvslots";
import { aborted, eventually, poolId, Proxy, startGateway, url } from "./gateways.js";

const direct = new Client(url);

/** A pool by way of `client`, and the same one without what is between. */
async function newPool(count: number, client: Client): Promise<{ pool: Pool; seen: Pool }> {
  const id = poolId();
  const seen = direct.pool(id);
  await seen.register(count);
  return { pool: client.pool(id), seen };
}

function lossOf(lease: Lease): LeaseLostError {
  const { reason } = lease.lost;
  assert.ok(reason instanceof LeaseLostError);
  return reason;
}

/** Repeats a scenario of a loss if the machine was too busy to send a renewal before it. */
async function losing(scenario: () => Promise<LeaseLostError>): Promise<LeaseLostError> {
  for (let attempt = 1; ; attempt++) {
    const loss = await scenario();
    if (loss.cause !== undefined || attempt === 5) return loss;
  }
}

/** Treats the first request to a path with "lose". */
function loseFirst(proxy: Proxy, path: RegExp): void {
  let lost = false;
  proxy.treat = ({ url = "" }) => {
    if (lost || !path.test(url)) return "pass";
    lost = true;
    return "lose";
  };
}

// Most of them wait.
suite("faults", { concurrency: true }, () => {
  test("a borrow whose answer is lost takes one slot", async (t) => {
    const proxy = await Proxy.before(url, t);
    const { pool, seen } = await newPool(2, new Client(proxy.url));
    loseFirst(proxy, /borrow/);
    const lease = await pool.borrow({ wait: 60 });
    assert.equal(lease.position, 0);
    assert.equal((await seen.inspect()).inUse, 1);
    const borrows = proxy.seen.filter((request) => request.url.endsWith("/borrow"));
    assert.equal(borrows.length, 2);
    assert.equal(borrows[0]!.headers["idempotency-key"], borrows[1]!.headers["idempotency-key"]);
    assert.ok(borrows.every((request) => request.url === "/l/self/borrow"), "the pool's id is in a path");
    assert.equal(await lease.release(), true);
  });

  test("a lock whose answer is lost is taken once", async (t) => {
    const proxy = await Proxy.before(url, t);
    await using client = new Client(proxy.url);
    loseFirst(proxy, /locks/);
    const lock = client.lock("answer lost");
    await assert.rejects(lock.acquire(), { code: "bad_request" }, "white space in a name");
    loseFirst(proxy, /locks/);
    await using lease = await client.lock("answer-lost").acquire();
    await assert.rejects(client.lock("answer-lost").acquire({ wait: 0 }), NoSlotError);
  });

  test("lost answers of a registration, a renewal and a return are no harm", async (t) => {
    const proxy = await Proxy.before(url, t);
    const client = new Client(proxy.url);
    const { pool, seen } = await newPool(1, client);
    loseFirst(proxy, /self$/);
    assert.equal((await pool.register(2)).count, 2);
    loseFirst(proxy, /renew/);
    const lease = await pool.borrow({ ttl: 24 });
    const first = lease.deadline;
    await eventually(() => lease.deadline > first || lease.lost.aborted);
    assert.equal(lease.lost.aborted, false);
    loseFirst(proxy, /return/);
    await lease.release();
    assert.equal((await seen.inspect()).inUse, 0);
  });

  test("a borrow that gives up leaves nothing behind, although its answer was lost", async (t) => {
    const proxy = await Proxy.before(url, t);
    const { pool, seen } = await newPool(1, new Client(proxy.url));
    let borrows = 0;
    proxy.treat = ({ url = "" }) => {
      if (!url.endsWith("/borrow")) return "pass";
      if (++borrows === 1) return "lose";
      return borrows === 2 ? { status: 409, headers: { "Kvslots-Error": "limit_mismatch" }, body: "{}" } : "pass";
    };
    await assert.rejects(pool.borrow({ ttl: 3600, wait: 60 }), { code: "limit_mismatch" });
    await eventually(async () => (await seen.inspect()).inUse === 0);
  });

  test("an aborted wait leaves nothing behind, although a request of that is lost", async (t) => {
    const proxy = await Proxy.before(url, t);
    await using holder = await direct.lock("abort-dropped").acquire();
    const abort = new AbortController();
    const waiting = assert.rejects(new Client(proxy.url).lock("abort-dropped").acquire({ signal: abort.signal }), { name: "AbortError" });
    await eventually(() => proxy.seen.some((request) => request.url.includes("abort-dropped")));
    const ends = () => proxy.seen.filter((request) => request.method === "DELETE").length;
    proxy.treat = () => (ends() === 1 ? "drop" : "pass");
    abort.abort();
    await waiting;
    await eventually(() => ends() === 2);
  });

  test("Retry-After is honoured", async (t) => {
    const proxy = await Proxy.before(url, t);
    const { pool } = await newPool(1, new Client(proxy.url));
    const draining = (seconds: string) => ({ status: 503, headers: { "Kvslots-Error": "draining", "Retry-After": seconds }, body: '{"error":"draining"}' });
    proxy.treat = (_, nth) => (nth === 1 ? draining("1") : "pass");
    await using lease = await pool.borrow({ wait: 30 });
    assert.ok(proxy.seen[1]!.at - proxy.seen[0]!.at >= 990);
    await lease.release();
    proxy.treat = () => draining("60");
    await assert.rejects(pool.borrow({ wait: 30 }), (error) => error instanceof DrainingError && error.retryAfter === 60);
  });

  test("a proxy's refusals are repeated", async (t) => {
    const proxy = await Proxy.before(url, t);
    const { pool } = await newPool(1, new Client(proxy.url));
    proxy.treat = (_, nth) => (nth <= 2 ? { status: 502, headers: {}, body: "<h1>Bad Gateway</h1>" } : "pass");
    await using lease = await pool.borrow({ wait: 60 });
    proxy.treat = () => ({ status: 504, headers: {}, body: "" });
    await assert.rejects(pool.inspect(), UnavailableError);
    proxy.treat = () => ({ status: 200, headers: {}, body: "hello" });
    await assert.rejects(pool.inspect(), (error) => error instanceof UnreachableError && error.permanent);
    const id = poolId();
    await new Client([proxy.url, url]).pool(id).register(1); // what is no gateway is passed over
    assert.equal((await direct.pool(id).inspect()).count, 1);
  });

  test("a gateway that cannot be reached is named, without secrets", async (t) => {
    const proxy = await Proxy.before(url, t);
    const client = new Client(proxy.url);
    const lock = await client.lock("named").acquire();
    proxy.cut();
    await assert.rejects(client.pool(poolId()).inspect(), (error) => {
      assert.ok(error instanceof UnreachableError && !error.permanent);
      return error.message === `${proxy.url}: ECONNREFUSED`;
    });
    await assert.rejects(client.lock("another").acquire({ wait: 0 }), UnreachableError);
    await proxy.heal();
    await lock.release();
  });

  test("the loss of a lease is told before it ends: no gateway answers", async (t) => {
    const proxy = await Proxy.before(url, t);
    const loss = await losing(async () => {
      const { pool, seen } = await newPool(1, new Client(proxy.url));
      const work = pool.using({ ttl: 4 }, async (lease, signal) => {
        const next = seen.borrow({ wait: 60 });
        proxy.cut();
        // On a busy machine timers are late, but all that are due have run before an immediate does.
        let [over, late] = [false, !signal.aborted];
        const end = (): unknown => (performance.now() < lease.deadline - 20 ? setTimeout(end, 5) : setImmediate(() => (over = true)));
        end();
        signal.addEventListener("abort", () => (late = over));
        await aborted(signal);
        assert.equal(late, false, "noticed after the end");
        await using after = await next;
        assert.ok(performance.now() >= lease.deadline, "the slot was lent again before the holder's deadline");
        assert.ok(after.fence > lease.fence);
      });
      const loss: unknown = await work.catch((error) => error);
      await proxy.heal();
      if (!(loss instanceof LeaseLostError)) throw loss;
      return loss;
    });
    assert.equal(loss.reason, "gateway_unreachable");
    assert.ok(loss.cause instanceof UnreachableError);
  });

  test("the deadline is never later than the gateway's, however late the answer", async (t) => {
    const proxy = await Proxy.before(url, t);
    let [sent, waited] = [0, NaN];
    const spy: typeof fetch = async (input, init) => {
      sent = performance.now();
      const answer = await fetch(input, init);
      waited = Number(answer.headers.get("Kvslots-Waited"));
      return answer;
    };
    const { pool, seen } = await newPool(1, new Client(proxy.url, { fetch: spy }));
    proxy.treat = () => ({ delay: 1_000 });
    const lease = await pool.borrow({ ttl: 2 });
    assert.ok(lease.deadline <= sent + waited + 2_000, "counted from the answer");
    proxy.cut();
    const next = await seen.borrow({ wait: 60 });
    assert.ok(performance.now() >= lease.deadline && lease.lost.aborted);
    await next.release();
  });

  test("a wait in line is not counted", async () => {
    const { pool } = await newPool(1, direct);
    const holder = await pool.borrow();
    const sent = performance.now();
    const waiting = pool.borrow({ ttl: 30 });
    await eventually(async () => (await pool.inspect()).waiting === 1);
    const travelled = performance.now() - sent; // at most, to the gateway, which the client cannot know
    await eventually(() => performance.now() > sent + 10 * travelled);
    const released = performance.now();
    await holder.release();
    await using lease = await waiting;
    assert.ok(lease.deadline > released + 30_000 - travelled - 1, "counted from the sending, without Kvslots-Waited");
  });

  test("the loss of a lease is told: the pool was deleted", async () => {
    const { pool, seen } = await newPool(1, direct);
    await using lease = await pool.borrow({ ttl: 24 });
    await seen.delete();
    await aborted(lease.lost);
    assert.equal(lossOf(lease).reason, "lease_gone");
    assert.ok(lossOf(lease).cause instanceof NoPoolError);
    assert.equal(await lease.release(), false);
  });

  test("the loss of a lock is told: its session was ended", async () => {
    let session = "";
    const spy: typeof fetch = (input, init) => {
      session = new Headers(init?.headers).get("X-Dflockd-Session") ?? session;
      return fetch(input, init);
    };
    await using client = new Client(url, { fetch: spy });
    await using lease = await client.lock("session-ended").acquire({ ttl: 24 });
    await fetch(`${url}/v1/sessions/${session}`, { method: "DELETE" });
    await aborted(lease.lost);
    assert.equal(lossOf(lease).reason, "session_gone");
    assert.ok(lossOf(lease).cause instanceof SessionGoneError);
    assert.equal(await lease.release(), false);
  });

  test("a lock with a long ttl is not believed to outlive its session", async () => {
    const long = await startGateway("--max-ttl", "3h");
    await using client = new Client(long.url);
    const before = performance.now();
    await using lease = await client.lock("long-ttl").acquire({ ttl: 7200 });
    assert.ok(lease.deadline <= performance.now() + 3600_000 && lease.deadline >= before + 3600_000);
  });

  test("the next gateway takes over when one is killed", async () => {
    const [first, second] = [await startGateway(), await startGateway()];
    await using client = new Client([first.url, second.url]);
    const { pool, seen } = await newPool(1, client);
    const lock = await client.lock("killed").acquire({ ttl: 24 });
    const lease = await pool.borrow({ ttl: 24 });
    const waiting = pool.borrow({ wait: 120 });
    await eventually(async () => (await seen.inspect()).waiting === 1);
    process.kill(first.pid, "SIGKILL");
    const [one, two] = [lock.deadline, lease.deadline];
    await eventually(() => (lock.deadline > one && lease.deadline > two) || lock.lost.aborted || lease.lost.aborted);
    assert.deepEqual([lock.lost.aborted, lease.lost.aborted], [false, false]);
    assert.equal(await lease.release(), true);
    await using next = await waiting;
    assert.equal(await lock.release(), true);
    await next.release();
    await eventually(async () => (await seen.inspect()).inUse === 0);
  });

  test("the next gateway takes over when one is silent", async () => {
    const [first, second] = [await startGateway(), await startGateway()];
    await using client = new Client(`${first.url},${second.url}`);
    const { pool } = await newPool(1, client);
    await using lease = await pool.borrow({ ttl: 24 });
    const before = lease.deadline;
    process.kill(first.pid, "SIGSTOP");
    try {
      await eventually(() => lease.deadline > before || lease.lost.aborted);
    } finally {
      process.kill(first.pid, "SIGCONT");
    }
    assert.equal(lease.lost.aborted, false);
  });

  test("the loss of a lease is told: the only gateway is silent", async () => {
    const gateway = await startGateway();
    const loss = await losing(async () => {
      const { pool } = await newPool(1, new Client(gateway.url));
      const lease = await pool.borrow({ ttl: 4 });
      process.kill(gateway.pid, "SIGSTOP");
      try {
        await aborted(lease.lost);
      } finally {
        process.kill(gateway.pid, "SIGCONT");
      }
      await lease.release();
      return lossOf(lease);
    });
    assert.equal(loss.reason, "gateway_unreachable");
    assert.ok(loss.cause instanceof UnreachableError);
  });

  test("a release is bounded in time, and never rejects", async (t) => {
    const proxy = await Proxy.before(url, t);
    const { pool } = await newPool(1, new Client(proxy.url));
    const lease = await pool.borrow({ ttl: 2 });
    proxy.cut();
    const before = performance.now();
    assert.equal(await lease.release(), false);
    assert.ok(performance.now() - before < 60_000);
  });

  test("all errors are of one class", () => {
    assert.ok(new UnreachableError("") instanceof KvslotsError);
    assert.ok(new LeaseLostError("lease_gone", "") instanceof KvslotsError);
  });
});
