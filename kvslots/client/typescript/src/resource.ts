import { UnreachableError } from "./errors.js";
import { integer, type Answer, type Gateways, type Request } from "./gateways.js";
import { retry } from "./retry.js";
import { now } from "./time.js";

/** The most leases or places that a gateway lists in one answer. */
const PAGE = 1000;

/** A lease, as others see it. Times are in seconds. */
export interface Holder {
  position: number;
  /** What the holder says about itself: data of another program. Empty if it says nothing. */
  label: string;
  fence: number;
  age: number;
  /** Until it ends, unless it is renewed. */
  expiresIn: number;
  /** The number of the holder's session. Slots of pools have none. */
  owner?: number;
}

/** A place in line, as others see it. */
export interface Waiter {
  /** 1 is next. */
  place: number;
  /** What the waiting client says about itself: data of another program. Empty if it says nothing. */
  label: string;
  /** Seconds in line. */
  waited: number;
  /** The number of the session that waits. Those that wait for slots of pools have none. */
  owner?: number;
}

/** What pools, locks and semaphores have in common: who holds them, and who waits. */
export abstract class Resource {
  readonly #gateways: Gateways;
  readonly #ref: string | Promise<string>;
  readonly #headers: Record<string, string>;

  /** @internal */
  constructor(gateways: Gateways, ref: string | Promise<string>, headers: Record<string, string> = {}) {
    this.#gateways = gateways;
    this.#ref = ref;
    this.#headers = headers;
  }

  /** Who holds it, by position. A lock or a semaphore of which nothing is held or waited for is a NoPoolError. More than 1,000 are not of one instant. */
  async holders(): Promise<Holder[]> {
    return this.#list("leases", "from", holder);
  }

  /** Who waits, in the order of the line. A lock or a semaphore of which nothing is held or waited for is a NoPoolError. More than 1,000 are not of one instant. */
  async line(): Promise<Waiter[]> {
    return this.#list("line", "after", waiter);
  }

  /**
   * Ends the lease that has the position, if it has the fence, which holders() has read. Its holder learns of it at its
   * next renewal. After a NotHeldError or an OtherHolderError the lease has ended, too: it may be an earlier attempt of
   * this call that did it.
   */
  async evict(position: number, fence: number): Promise<Holder> {
    return holder((await this.#ask("DELETE", `/leases/${position}?fence=${fence}`)).body.evicted);
  }

  async #list<T>(name: string, parameter: string, item: (json: any) => T): Promise<T[]> {
    const items: T[] = [];
    for (let at: number | undefined = 0; at !== undefined; ) {
      const { body } = await this.#ask("GET", `/${name}?${parameter}=${at}&limit=${PAGE}`);
      items.push(...listed(body, name).map(item));
      const next = `next_${parameter}`;
      at = body[next] === undefined ? undefined : integer(body, next);
    }
    return items;
  }

  async #ask(method: Request["method"], path: string): Promise<Answer> {
    const ref = await this.#ref;
    return this.retry((until) => this.#gateways.send({ method, path: `/v1/pools/${ref}${path}`, headers: this.#headers }, undefined, until));
  }

  /** Repeats a request without a wait, within the time-out of the client. */
  protected retry(attempt: (until: number) => Promise<Answer>): Promise<Answer> {
    const end = now() + this.#gateways.timeout;
    return retry(() => attempt(end), undefined, end);
  }
}

function listed(body: any, name: string): any[] {
  if (!Array.isArray(body?.[name])) throw new UnreachableError("the answer is not a gateway's", true);
  return body[name];
}

const holder = ({ position, label, fence, age_s, expires_in_s, owner_conn_id }: any): Holder => ({
  ...{ position, label, fence, age: age_s, expiresIn: expires_in_s },
  ...(owner_conn_id && { owner: owner_conn_id }),
});

const waiter = ({ place, label, waited_s, owner_conn_id }: any): Waiter => ({
  ...{ place, label, waited: waited_s },
  ...(owner_conn_id && { owner: owner_conn_id }),
});
