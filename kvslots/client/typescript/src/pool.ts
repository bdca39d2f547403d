import type { Shared } from "./client.js";
import { follow, type PoolEventOptions, type SlotEvent } from "./events.js";
import { integer, matching, type Answer, type Request } from "./gateways.js";
import { Lease, promised, under, type How, type Holding, type Term } from "./lease.js";
import { known, takeOptions, wholeSeconds, type TakeOptions } from "./options.js";
import { Resource } from "./resource.js";
import { requestKey, take } from "./retry.js";

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
  constructor(position: number, fence: number, term: Term, holding: Holding, holds: Set<Lease>) {
    super(fence, term, holding, holds);
    this.position = position;
  }
}

/** A pool of numbered slots. Its UUID, which is a secret, is sent in a header. */
export class Pool extends Resource {
  readonly #id: string;
  readonly #shared: Shared;

  /** @internal */
  constructor(id: string, shared: Shared) {
    if (!/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(id)) throw new RangeError("pool must be a UUID of 36 characters");
    super(shared.gateways, "self", { "Kvslots-Pool": id.toLowerCase() });
    this.#id = id.toLowerCase();
    this.#shared = shared;
  }

  /** Registers the pool, or changes the number of its slots. Without `name`, which is public, it keeps the one that it has. */
  async register(count: number, options: { name?: string | undefined } = {}): Promise<PoolState> {
    const { name } = known(options, "name");
    const key = requestKey();
    return state(await this.retry((until) => this.#send("PUT", "", { body: { count, name }, key }, undefined, until)));
  }

  async inspect(): Promise<PoolState> {
    return state(await this.retry((until) => this.#send("GET", "", {}, undefined, until)));
  }

  /** Deletes the pool, and ends all its leases. */
  async delete(): Promise<void> {
    await this.retry((until) => this.#send("DELETE", "", {}, undefined, until));
  }

  /** Borrows the lowest free slot. Release the lease, or declare it with `await using`. */
  async borrow(options: TakeOptions = {}): Promise<Slot> {
    const { ttl, wait, label = this.#shared.label, signal } = takeOptions(options);
    const { gateways, lines, holds } = this.#shared;
    const seconds = wholeSeconds(ttl);
    const key = requestKey();
    const ask = async (wait: number, uncounted: boolean, signal?: AbortSignal, until?: number): Promise<Granted> =>
      granted(await this.#send("POST", "/borrow", { body: { ttl: seconds, wait, label, uncounted }, key, wait, undo }, signal, until));
    const undo = ({ lease }: any): Request => this.#request("POST", "/return", { body: { lease } });
    const release = async (lease: string, until: number): Promise<boolean> =>
      (await gateways.send(undo({ lease }), undefined, until)).body.returned !== false;
    const leave = async (until: number): Promise<unknown> => release((await ask(0, true, undefined, until)).lease, until);
    const { lease, position, fence, term } = await take(lines, `pool ${this.#id}`, { wait, signal, gateways: gateways.count, ask, leave });
    const holding: Holding = {
      renew: async (signal, until) => termOf(await this.#send("POST", "/renew", { body: { lease, ttl: seconds } }, signal, until)),
      held: (signal, until) => gateways.send({ method: "GET", path: "/v1/pools/self/leases/self", headers: { "Kvslots-Pool": this.#id, "Kvslots-Lease": lease } }, signal, until),
      release: (until) => release(lease, until),
    };
    return new Slot(position, fence, promised(term, seconds), holding, holds);
  }

  /** Borrows a slot, calls `body`, and returns the slot. If the lease was lost meanwhile, it rejects with a LeaseLostError, unless the body has failed. */
  async using<T>(...how: How<Slot, T>): Promise<T> {
    return under((options) => this.borrow(options), how);
  }

  /** The events of this pool: see Client.events. A pool that does not exist, or no longer, is a NoPoolError. */
  events(options: PoolEventOptions = {}): AsyncGenerator<SlotEvent, void, undefined> {
    known(options, "types", "after", "signal");
    return follow(this.#shared.gateways, "/l/self/events", options, { "Kvslots-Pool": this.#id });
  }

  #send(method: Request["method"], path: string, request: Parts = {}, signal?: AbortSignal, until?: number): Promise<Answer> {
    return this.#shared.gateways.send(this.#request(method, path, request), signal, until);
  }

  #request(method: Request["method"], path: string, { key, headers, ...request }: Parts): Request {
    return { method, path: `/l/self${path}`, headers: { "Kvslots-Pool": this.#id, ...(key && { "Idempotency-Key": key }), ...headers }, ...request };
  }
}

type Parts = Partial<Request> & { key?: string };

interface Granted {
  lease: string;
  position: number;
  fence: number;
  term: Term;
}

const granted = (answer: Answer): Granted => ({
  lease: matching(answer.body, "lease", /^[0-9A-Za-z-]+$/),
  position: integer(answer.body, "position"),
  fence: integer(answer.body, "fence"),
  term: termOf(answer),
});

const termOf = ({ body, since }: Answer): Term => ({ since, ttl: integer(body, "expires_in") * 1000 });

const state = ({ body }: Answer): PoolState => ({
  count: integer(body, "count"),
  inUse: integer(body, "in_use"),
  available: integer(body, "available"),
  waiting: integer(body, "waiting"),
});
