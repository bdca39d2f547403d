import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import * as kvslots from "kvslots";
import { Client, errorClasses } from "kvslots";
import { eventually, poolId, url } from "./gateways.js";

const document = JSON.parse(readFileSync(process.env["KVSLOTS_OPENAPI"]!, "utf8"));
const text = JSON.stringify(document);

test("each code of an error has a class with its name, and no other class", () => {
  assert.deepEqual(Object.keys(errorClasses).sort(), [...document.components.headers.ErrorName.schema.enum].sort());
  for (const [code, type] of Object.entries(errorClasses)) {
    const name = `${code.replace(/(^|_)(.)/g, (_, __, letter: string) => letter.toUpperCase())}Error`.replace("ErrorError", "Error");
    assert.equal(type.name, name);
    assert.equal((kvslots as unknown as Record<string, unknown>)[name], type);
    const error = new type("text", { status: 400, code });
    assert.ok(error instanceof kvslots.RefusedError && error.name === name && error.code === code);
  }
});

test("the types and the fields of events are those of the document", () => {
  const types: Record<kvslots.EventType, true> = {
    ...{ starts_over: true, granted: true, returned: true, expired: true, evicted: true, withdrawn: true, joined: true, left: true },
    ...{ registered: true, changed: true, deleted: true, session_ended: true, peer_joined: true, peer_left: true },
  };
  const fields: Record<keyof kvslots.SlotEvent, true> = {
    ...{ id: true, type: true, at: true, hash: true, kind: true, name: true, key: true },
    ...{ position: true, fence: true, label: true, waited: true, held: true, by: true },
  };
  const { EventType, Event } = document.components.schemas;
  assert.deepEqual(Object.keys(types).sort(), [...EventType.enum].sort());
  assert.deepEqual(Object.keys(fields).sort(), Object.keys(Event.properties).map((name) => name.replace(/_s$/, "")).sort());
});

test("requests have the paths, headers and fields of the document, and use its answers", async () => {
  const used = new Set<string>();
  const spy: typeof fetch = async (input, init) => {
    const { pathname, searchParams } = new URL(String(input));
    const path = pathname.replace(/^\/l\/self/, "/l/{id}").replace(/(v1\/pools)\/[^/]+/, "$1/{ref}").replace(/leases\/\d+/, "leases/{position}").replace(/(sessions)\/\w+/, "$1/{id}").replace(/(locks|semaphores)\/[^/]+/, "$1/{key}");
    const method = init!.method!.toLowerCase();
    const operation = document.paths[path]?.[method];
    assert.ok(operation, `${method} ${path}`);
    used.add(`${method} ${path}`);
    const parameters = [...(document.paths[path].parameters ?? []), ...(operation.parameters ?? [])].map((p) => (p.$ref ? document.components.parameters[p.$ref.split("/").pop()] : p));
    for (const name of new Headers(init!.headers).keys()) {
      const known = parameters.some((p) => p.in === "header" && p.name.toLowerCase() === name);
      assert.ok(known || ["content-type", "authorization"].includes(name), `${name} in ${method} ${path}`);
    }
    for (const name of searchParams.keys()) assert.ok(parameters.some((p) => p.in === "query" && p.name === name), `${name} in ${method} ${path}`);
    const shared = operation.requestBody?.$ref?.split("/").pop();
    const schema = (shared ? document.components.requestBodies[shared] : operation.requestBody)?.content["application/json"].schema;
    const fields = schema && Object.keys((schema.$ref ? document.components.schemas[schema.$ref.split("/").pop()] : schema).properties ?? {});
    for (const name of Object.keys(init?.body ? JSON.parse(String(init.body)) : {})) assert.ok(fields?.includes(name), `${name} in ${method} ${path}`);
    return fetch(input, init);
  };
  const client = new Client(url, { fetch: spy });
  const pool = client.pool(poolId());
  await pool.register(1, { name: "contract" });
  await pool.inspect();
  const renewed = (lease: kvslots.Lease) => {
    const first = lease.deadline;
    return eventually(() => lease.deadline > first || lease.lost.aborted);
  };
  const holders = [pool, client.lock("contract"), client.semaphore("contract2", 2)];
  await Promise.all(holders.map((holder) => holder.using({ ttl: 24, label: "contract" }, renewed)));
  await Promise.all(
    holders.map((holder) =>
      holder.using({}, async () => {
        const [lease] = await holder.holders();
        assert.deepEqual(await holder.line(), []);
        await holder.evict(lease!.position, lease!.fence);
      }),
    ),
  );
  for (const events of [pool.events({ types: ["granted"], after: 1 }), client.events({ types: ["left"], keys: ["contract"], pools: ["0".repeat(32)], after: 1 })]) {
    await events.next();
    await events.return();
  }
  await pool.delete();
  await client.close();
  const reads = [...used].filter((operation) => operation.endsWith("/leases/self")); // of holders, between two renewals
  assert.ok(reads.includes("get /v1/pools/{ref}/leases/self"));
  assert.equal(used.size - reads.length, 14 + 3 + 2);
  for (const header of ["Kvslots-Error", "Kvslots-Waited", "Kvslots-Field", "Kvslots-Range", "Retry-After"]) assert.ok(text.includes(`"${header}"`), header);
});
