import assert from "node:assert/strict";
import http from "node:http";
import type { AddressInfo } from "node:net";
import { suite, test, type TestContext } from "node:test";
import { Client, NoPoolError, UnauthorizedError, UnreachableError, type SlotEvent } from "kvslots";
import { poolId, startGateway, url } from "./gateways.js";

const client = new Client(url);

/** A server of streams. Each is written in the given pieces, and then ends, or stays open if it is the last one. */
async function serve(t: TestContext, streams: string[][]): Promise<{ url: string; asked: (string | undefined)[] }> {
  const asked: (string | undefined)[] = [];
  const server = http.createServer(async (request, response) => {
    const pieces = streams[asked.length] ?? [];
    asked.push(request.headers["last-event-id"] as string | undefined);
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    for (const piece of pieces) await new Promise((resolve) => response.write(Buffer.from(piece, "latin1"), resolve));
    if (asked.length < streams.length) response.end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => server.close() && server.closeAllConnections());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked };
}

const at = "2026-11-23T19:00:00.104Z";
const data = (id: number, type: string): string => `data: {"id":${id},"type":"${type}","at":"${at}"}\n\n`;

async function take(events: AsyncIterable<SlotEvent>, count: number): Promise<SlotEvent[]> {
  const taken: SlotEvent[] = [];
  for await (const event of events) if (taken.push(event) === count) break;
  return taken;
}

suite("events", { concurrency: true }, () => {
  test("of a pool are read as they happen, and resumed", async () => {
    const id = poolId();
    const pool = client.pool(id);
    await assert.rejects(pool.events().next(), NoPoolError);
    await pool.register(1, { name: "screens" });
    const events = pool.events();
    const first = (await events.next()).value!;
    assert.equal(first.type, "starts_over");
    const lease = await pool.borrow({ label: "ci@b7:12 <make>" });
    const granted = (await events.next()).value!;
    const { hash } = (await (await fetch(`${url}/l/${id}`)).json()) as { hash: string };
    const { type, kind, name, position, fence, label } = granted;
    assert.deepEqual({ type, hash: granted.hash, kind, name, position, fence, label }, { type: "granted", hash, kind: "pool", name: "screens", position: 0, fence: lease.fence, label: "ci@b7:12 <make>" });
    assert.ok(granted.waited! >= 0 && granted.at instanceof Date && !Number.isNaN(granted.at.getTime()) && granted.id > first.id);
    await lease.release();
    const returned = (await events.next()).value!;
    assert.ok(returned.type === "returned" && returned.held! >= 0);
    const later = pool.events({ after: granted.id, types: ["returned"] });
    assert.deepEqual((await later.next()).value, returned, "it begins after the event");
    await later.return();
    await events.return();
    const all = client.events({ pools: [hash], after: first.id });
    assert.deepEqual(await take(all, 2), [granted, returned]);
  });

  test("of a lock are read by its name", async () => {
    await using holder = new Client(url);
    const events = client.events({ keys: ["events/%?&"], types: ["granted", "returned"] });
    assert.equal((await events.next()).value!.type, "starts_over");
    await holder.lock("events-of-another").using({}, () => undefined);
    const fence = await holder.lock("events/%?&").using({}, (lease) => lease.fence);
    const [granted, returned] = await take(events, 2);
    assert.deepEqual([granted!.type, granted!.key, granted!.kind, granted!.fence], ["granted", "events/%?&", "lock", fence]);
    assert.equal(returned!.type, "returned");
  });

  test("a signal ends the stream with its reason", async () => {
    const abort = new AbortController();
    const why = new Error("enough");
    const events = client.events({ keys: ["quiet"], signal: abort.signal });
    await events.next();
    const next = assert.rejects(events.next(), why);
    abort.abort(why);
    await next;
    await assert.rejects(client.events({ signal: abort.signal }).next(), why);
  });

  test("a stream that is lost goes on after the last id, and no event is doubled", async (t) => {
    const { url, asked } = await serve(t, [
      ["retry: 20\n\n", `id: 5\n${data(5, "starts_over")}`, ":\n\n", data(7, "granted")],
      [data(7, "granted"), `id: 7\r\n${data(7, "returned").replaceAll("\n", "\r\n")}`, ":\nid: 9\n\n"],
      [":\n\n", data(10, "granted") + `id: 10\n${data(10, "left").slice(0, -1)}`],
      [...`${data(10, "granted")}id: 10\n${data(10, "left").replace('"at"', '"label":"\xc3\xbc","at"')}`],
    ]);
    const taken = await take(new Client(url).events(), 5);
    assert.deepEqual(taken.map(({ id, type }) => [id, type]), [[5, "starts_over"], [7, "granted"], [7, "returned"], [10, "granted"], [10, "left"]]);
    assert.equal(taken[4]!.label, "ü");
    assert.deepEqual(asked, [undefined, "5", "9", "9"]);
  });

  test("starts_over without an id is told at once", async (t) => {
    const { url } = await serve(t, [[data(0, "starts_over")]]);
    assert.deepEqual(await take(new Client(url).events(), 1), [{ id: 0, type: "starts_over", at: new Date(at) }]);
  });

  test("what is no stream of a gateway is an error", async (t) => {
    for (const text of ["data: hunter2\n\n", "x".repeat(70_000)]) {
      const { url } = await serve(t, [[text]]);
      await assert.rejects(new Client(url).events().next(), (e) => e instanceof UnreachableError && e.permanent && !e.message.includes("hunter2"));
    }
  });

  test("the token is sent, and the next gateway takes over", async () => {
    const flags = ["--auth-token", "hunter2"];
    const [one, other] = [await startGateway(...flags), await startGateway(...flags)];
    await assert.rejects(new Client(one.url).events().next(), UnauthorizedError);
    const both = new Client([one.url, other.url], { token: "hunter2" });
    const pool = both.pool(poolId());
    await pool.register(1);
    const events = pool.events({ types: ["granted"] });
    assert.equal((await events.next()).value!.type, "starts_over");
    process.kill(one.pid, "SIGKILL");
    const lease = await pool.borrow({ wait: 60 });
    let next = (await events.next()).value!;
    if (next.type === "starts_over") {
      await lease.release(); // the other gateway may not have followed the events before
      await (await pool.borrow({ wait: 60 })).release();
      next = (await events.next()).value!;
    }
    assert.equal(next.type, "granted");
    await events.return();
  });
});
