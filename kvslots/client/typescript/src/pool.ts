import { follow, type PoolEventOptions, type SlotEvent } from "./events.js";
import type { Answer, Gateways, Request } from "./gateways.js";
import { Lease, under, type Holding, type Term } from "./lease.js";
import { Resource } from "./resource.js";
import { requestKey, retry, type Lines } from "./retry.js";

/** Options of the calls that take a slot or a lock. */
export interface TakeOptions {
  /** Seconds until the lease ends if it is not renewed, such as when the process has died. By default 30. */
  ttl?: number;
  /** Seconds to wait for a turn; 0 means not at all. By default the call waits until `signal` aborts. */
  wait?: number;
  /** Says who asks, such as `ci@build7:1234 make`, to those who look at holders() and line(): up to 64 printable characters. */
  label?: string;
  /** Ends the wait. With `using`, the signal of the body aborts with it, too. */
  signal?: AbortSignal;
}

export const DEFAULT_TTL = 30;

/** The ttl of TakeOptions as the gateways take it. */
export function wholeSeconds(ttl = DEFAULT_TTL): number {
  if (!(ttl > 0 && ttl < Infinity)) throw new RangeError("ttl must be a number of seconds above 0");
  return Math.ceil(ttl);
}

export interface PoolState {
  count: number;
  inUse: number;
  available: number;
  waiting: number;
}

/** A lease of a pool's slot. */
export class Slot extends Lease {
  /** The number of the slot, 0 … count − 1. */
  readonly position: number;

  /** @internal */
  constructor(position: number, fence: number, term: Term, holding: Holding) {
    super(fence, term, holding);
    this.position = position;
  }
}

/** A pool of numbered slots. Its UUID, which is a secret, is sent in a header. */
export class Pool extends Resource {
  readonly #id: string;
  readonly #gateways: Gateways;
  readonly #lines: Lines;

  /** @internal */
  constructor(id: string, gateways: Gateways, lines: Lines) {
    if (!/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(id)) throw new RangeError("pool must be a UUID of 36 characters");
    super(gateways, "/l/self", { "Kvslots-Pool": id.toLowerCase() });
    this.#id = id.toLowerCase();
    this.#gateways = gateways;
    this.#lines = lines;
  }

  /** Registers the pool, or changes the number of its slots. Without `name`, which is public, it keeps the one that it has. */
  async register(count: number, { name }: { name?: string } = {}): Promise<PoolState> {
    const key = requestKey();
    return state(await retry(() => this.#send("PUT", "", { body: { count, name }, key })));
  }

  async inspect(): Promise<PoolState> {
    return state(await retry(() => this.#send("GET", "")));
  }

  /** Deletes the pool, and ends all its leases. */
  async delete(): Promise<void> {
    await retry(() => this.#send("DELETE", ""));
  }

  /** Borrows the lowest free slot. Release the lease, or declare it with `await using`. */
  async borrow({ ttl, wait, label, signal }: TakeOptions = {}): Promise<Slot> {
    const seconds = wholeSeconds(ttl);
    const key = requestKey();
    const ask = (wait: number, signal?: AbortSignal, until?: number): Promise<Answer> =>
      this.#send("POST", "/borrow", { body: { ttl: seconds, wait, label }, key, wait }, signal, until);
    const release = async (lease: string, until: number): Promise<boolean> =>
      (await this.#send("POST", "/return", { body: { lease } }, undefined, until)).body.returned;
    const granted = await this.#lines.take(`pool ${this.#id}`, {
      wait,
      signal,
      ask,
      leave: async (until) => release((await ask(0, undefined, until)).body.lease, until),
    });
    const { lease, position, fence } = granted.body;
    return new Slot(position, fence, term(granted), {
      renew: async (signal, until) => term(await this.#send("POST", "/renew", { body: { lease, ttl: seconds } }, signal, until)),
      release: (until) => release(lease, until),
    });
  }

  /** Borrows a slot, calls `body`, and returns the slot. If the lease was lost meanwhile, it rejects with a LeaseLostError, unless the body has failed. */
  async using<T>(options: TakeOptions, body: (lease: Slot, signal: AbortSignal) => Promise<T> | T): Promise<T> {
    return under(await this.borrow(options), options.signal, body);
  }

  /** The events of this pool: see Client.events. A pool that does not exist, or no longer, is a NoPoolError. */
  events({ types, after, signal }: PoolEventOptions = {}): AsyncGenerator<SlotEvent, void, undefined> {
    return follow(this.#gateways, "/l/self/events", { types, after, signal }, { "Kvslots-Pool": this.#id });
  }

  #send(method: Request["method"], path: string, { key, ...request }: Partial<Request> & { key?: string } = {}, signal?: AbortSignal, until?: number): Promise<Answer> {
    const headers = { "Kvslots-Pool": this.#id, ...(key && { "Idempotency-Key": key }) };
    return this.#gateways.send({ method, path: `/l/self${path}`, headers, ...request }, signal, until);
  }
}

const term = ({ body, since }: Answer): Term => ({ since, ttl: body.expires_in * 1000 });

const state = ({ body: { count, in_use, available, waiting } }: Answer): PoolState => ({ count, inUse: in_use, available, waiting });
