// The driver of this client for the package promisestest, which has its protocol.
import dns from "node:dns";
import { createInterface } from "node:readline";
import { Client, NoSlotError, RefusedError, TwoStoresError, UnreachableError, type Lease } from "kvslots";

interface Call {
  url: string;
  do: "borrow" | "lock" | "pairs" | "raw pairs";
  pool: string;
  name: string;
  ttl: number;
  wait: number;
  cancel?: number;
  hold?: boolean;
  lookup?: number;
  pairs?: number;
}

const seconds = (since: number): number => (performance.now() - since) / 1000;

function outcomeOf(error: unknown, signal: AbortSignal | undefined): string {
  if (signal?.aborted) return "canceled";
  if (error instanceof NoSlotError) return "taken";
  if (error instanceof TwoStoresError) return "two stores";
  if (error instanceof UnreachableError) return error.permanent ? "foreign" : "unavailable";
  if (error instanceof RefusedError && [429, 502, 503, 504].includes(error.status)) return "unavailable";
  return String(error);
}

async function measure({ url, pool, pairs, ...call }: Call): Promise<object> {
  const post = async (operation: string, body: object): Promise<{ lease: string }> => {
    const headers = { "Content-Type": "application/json" };
    const answer = await fetch(`${url}/l/${pool}/${operation}`, { method: "POST", headers, body: JSON.stringify(body) });
    return (await answer.json()) as { lease: string };
  };
  const slots = new Client(url).pool(pool);
  const pair = call.do === "pairs"
    ? async () => (await slots.borrow({ wait: 0 })).release()
    : async () => post("return", { lease: (await post("borrow", { ttl: 60, wait: 0 })).lease });
  const begin = process.cpuUsage();
  for (let i = 0; i < pairs!; i++) await pair();
  const { user, system } = process.cpuUsage(begin);
  return { outcome: "granted", cpu: (user + system) / 1e6 };
}

const lookup = dns.lookup;

function lookUpSlowly(seconds: number): void {
  const slow = (host: string, ...rest: [object, () => void]): unknown =>
    host.endsWith(".test") ? setTimeout(() => lookup("127.0.0.1", ...rest), seconds * 1000).unref() : lookup(host, ...rest);
  Object.assign(dns, { lookup: slow });
}

async function perform({ url, pool, name, ttl, wait, cancel, ...call }: Call): Promise<object> {
  const client = new Client(url);
  const abort = cancel ? new AbortController() : undefined;
  const timer = abort && setTimeout(() => abort.abort(), cancel! * 1000);
  const options = { ttl, wait, signal: abort?.signal };
  const begin = performance.now();
  let lease: Lease;
  try {
    lease = await (call.do === "lock" ? client.lock(name).acquire(options) : client.pool(pool).borrow(options));
  } catch (error) {
    return { outcome: outcomeOf(error, abort?.signal), took: seconds(begin), back: "", back_took: 0 };
  } finally {
    clearTimeout(timer);
  }
  const took = seconds(begin);
  const given = performance.now();
  if (call.hold) {
    await new Promise((lost) => lease.lost.addEventListener("abort", lost));
    await client.close();
    return { outcome: "lost", took: seconds(given), back: "", back_took: 0 };
  }
  const back = (await lease.release()) ? "yes" : "the lease was not released";
  await client.close();
  return { outcome: "granted", took, back, back_took: seconds(given) };
}

for await (const line of createInterface({ input: process.stdin })) {
  const call = JSON.parse(line) as Call;
  lookUpSlowly(call.lookup ?? 0);
  console.log(JSON.stringify(await (call.pairs ? measure(call) : perform(call))));
}
