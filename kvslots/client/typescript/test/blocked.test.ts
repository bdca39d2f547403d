import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { Client, LeaseLostError } from "kvslots";
import { block, poolId, url } from "./gateways.js";

test("a loss while the event loop was blocked is noticed at once afterwards", async () => {
  const pool = new Client(url).pool(poolId());
  await pool.register(2);
  const work = pool.using({ ttl: 2 }, async (first, signal) => {
    await using second = await pool.borrow({ ttl: 2 });
    block(5_000);
    assert.equal(second.lost.aborted, true, "not noticed by the statement after the block");
    assert.equal(second.lost.reason.reason, "lease_gone");
    await pause(0);
    assert.equal(signal.aborted, true, "not noticed by the timers after the block");
    await using next = await pool.borrow({ wait: 60 });
    assert.ok(next.fence > first.fence);
  });
  await assert.rejects(work, LeaseLostError);
});

test("a lease survives a block that is shorter than its ttl", async () => {
  await using client = new Client(url);
  await using lease = await client.lock("short-block").acquire({ ttl: 30 });
  const first = lease.deadline;
  block(3_000);
  await pause(100);
  assert.ok(!lease.lost.aborted && lease.deadline >= first);
});
