import assert from "node:assert/strict";
import http from "node:http";
import type { AddressInfo } from "node:net";
import type { TestContext } from "node:test";
import { setTimeout as pause } from "node:timers/promises";

export interface Gateway {
  url: string;
  pid: number;
}

/** The URL of a gateway that all tests use. */
export const url = process.env["KVSLOTS_URL"]!;

/** Starts a further gateway in a process of its own, which ends with the tests. All gateways have one store. */
export async function startGateway(...flags: string[]): Promise<Gateway> {
  const answer = await fetch(process.env["KVSLOTS_GATEWAYS"]!, { method: "POST", body: JSON.stringify(flags) });
  const gateway = (await answer.json()) as Gateway;
  assert.ok(gateway.url, "the gateway does not listen");
  return gateway;
}

/** What a proxy does with a request: it passes it on, drops it, loses the answer, or answers itself. */
export type Treatment = "pass" | "drop" | "lose" | { status: number; headers: Record<string, string>; body: string } | { delay: number };

/** A proxy before a gateway. */
export class Proxy {
  url = "";
  /** Decides what becomes of each request. */
  treat: (request: http.IncomingMessage, nth: number) => Treatment = () => "pass";
  /** The requests so far, and when they came. */
  readonly seen: { method: string; url: string; headers: http.IncomingHttpHeaders; at: number }[] = [];
  readonly #server: http.Server;

  private constructor(target: string) {
    this.#server = http.createServer((request, response) => void this.#pass(target, request, response));
  }

  static async before(target: string, t: TestContext): Promise<Proxy> {
    const proxy = new Proxy(target);
    await proxy.heal();
    t.after(() => proxy.cut());
    return proxy;
  }

  /** Refuses connections, and resets all of them. */
  cut(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  async heal(): Promise<void> {
    const port = this.url ? Number(new URL(this.url).port) : 0;
    await new Promise<void>((resolve) => this.#server.listen(port, "127.0.0.1", resolve));
    this.url = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async #pass(target: string, request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
    const { method = "", url = "", headers } = request;
    this.seen.push({ method, url, headers, at: performance.now() });
    const treatment = this.treat(request, this.seen.length);
    if (typeof treatment === "object" && "status" in treatment) {
      request.resume();
      response.writeHead(treatment.status, treatment.headers).end(treatment.body);
      return;
    }
    if (treatment === "drop") return void request.socket.destroy();
    const onward = http.request(target + url, { method, headers, agent: false }, (answer) => {
      const chunks: Buffer[] = [];
      answer.on("data", (chunk: Buffer) => chunks.push(chunk));
      answer.on("error", () => request.socket.destroy());
      answer.on("end", async () => {
        if (treatment === "lose") return request.socket.destroy();
        if (typeof treatment === "object" && "delay" in treatment) await pause(treatment.delay);
        response.writeHead(answer.statusCode!, answer.headers).end(Buffer.concat(chunks));
      });
    });
    onward.on("error", () => request.socket.destroy());
    response.on("close", () => onward.destroy());
    request.pipe(onward);
  }
}

/** Waits until `condition` holds, for five minutes at most. */
export async function eventually(condition: () => Promise<boolean> | boolean): Promise<void> {
  for (const end = Date.now() + 300_000; Date.now() < end; await pause(20)) if (await condition()) return;
  assert.fail("the condition was never met");
}

/** Resolves when a signal aborts. It keeps the process alive, as the timers of a lease do not. */
export async function aborted(signal: AbortSignal): Promise<void> {
  const alive = setInterval(() => {}, 60_000);
  await new Promise<void>((resolve) => (signal.aborted ? resolve() : signal.addEventListener("abort", () => resolve())));
  clearInterval(alive);
}

/** Blocks the thread, and with it the event loop. */
export const block = (ms: number): unknown => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);

/** A port on which nothing listens. */
export async function unusedPort(): Promise<number> {
  const server = http.createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

export const poolId = (): string => crypto.randomUUID();
