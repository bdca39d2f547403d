// Calls the gateway at the URL in the first argument with a generated client.
import assert from "node:assert/strict";
import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

const pool = "6c8d6a0e-5b2f-4a39-9c41-2f6f6a1d7b02";
const client = createClient<paths>({ baseUrl: process.argv[2] });

async function read() {
  const greeting = await client.GET("/", { headers: { Accept: "application/json" } });
  assert.ok(typeof greeting.data === "object", "not JSON");
  assert.equal(greeting.data.apis.length, 4);
  const ready = await client.GET("/ready");
  const sync: "always" | "interval" | "external" | undefined = ready.data?.sync;
  assert.equal(sync, "always");
}

async function lend() {
  const self = { path: { id: "self" }, header: { "Kvslots-Pool": pool } };
  const inPath = { path: { id: pool } };
  const state = await client.PUT("/l/{id}", { params: self, body: { count: 1 } });
  assert.equal(state.data?.available, 1);
  const lent = await client.POST("/l/{id}/borrow", { params: inPath, body: { ttl: 30 } });
  assert.ok(lent.data, "no slot");
  assert.ok(Number.isSafeInteger(lent.data.fence));
  const none = await client.POST("/l/{id}/borrow", { params: inPath, body: { ttl: 30 } });
  assert.equal(none.response.status, 409);
  const returned = await client.POST("/l/{id}/return", { params: inPath, body: { lease: lent.data.lease } });
  assert.equal(returned.data?.returned, true);
  const deleted = await client.DELETE("/l/{id}", { params: self });
  assert.equal(deleted.data?.deleted, true);
}

// The compiler accepts this only if the discriminator tells the alternatives apart.
function tokenOf(answer: components["schemas"]["Granted"] | components["schemas"]["TimedOut"]): string | undefined {
  switch (answer.status) {
    case "ok":
      return answer.token;
    case "timeout":
      return undefined;
  }
}

async function lock() {
  const tokens: (string | undefined)[] = [];
  const sessions: string[] = [];
  for (let i = 0; i < 2; i++) {
    const created = await client.POST("/v1/sessions", {});
    assert.ok(created.data, "no session");
    sessions.push(created.data.session_id);
    const taken = await client.POST("/v1/locks/{key}", {
      params: { path: { key: "a/b" }, header: { "X-Dflockd-Session": created.data.session_id } },
      body: { acquire_timeout_s: 0 },
    });
    assert.ok(taken.data, "no answer");
    tokens.push(tokenOf(taken.data));
  }
  const [token, none] = tokens;
  assert.ok(token);
  assert.equal(none, undefined);
  const params = { path: { key: "a/b" }, header: { "X-Dflockd-Session": sessions[0] } };
  const conflict = await client.POST("/v1/semaphores/{key}", { params, body: { acquire_timeout_s: 0, limit: 2 } });
  assert.equal(conflict.response.status, 409);
  const released = await client.POST("/v1/locks/{key}/release", { params, body: { token } });
  assert.equal(released.response.status, 204);
}

async function call() {
  const call = { function: "urn:cline:forrst:ext:atomic-lock:fn:status", arguments: { key: "lock:k" } };
  const status = await client.POST("/rpc", { body: { protocol: { name: "forrst", version: "0.1.0" }, id: "r", call } });
  assert.ok(status.data?.result);
}

await read();
await lend();
await lock();
await call();
