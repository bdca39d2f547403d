import { follow, type EventOptions, type SlotEvent } from "./events.js";
import { Gateways } from "./gateways.js";
import { Lock } from "./lock.js";
import { Pool } from "./pool.js";
import { Lines } from "./retry.js";
import { Sessions } from "./sessions.js";

const CLOSE_TIMEOUT = 10_000;

export interface ClientOptions {
  /** The bearer token for gateways that require one. It is a secret. */
  token?: string;
  /** Sends the requests, such as one with certificates of its own. By default the global `fetch`. */
  fetch?: typeof fetch;
}

/** A client of one or several gateways over HTTP. */
export class Client implements AsyncDisposable {
  readonly #gateways: Gateways;
  readonly #sessions: Sessions;
  readonly #lines = new Lines();

  /** @param urls of gateways, such as `http://127.0.0.1:8080`, as a list or separated by commas. They are tried in turn. */
  constructor(urls: string | readonly string[], { token, fetch = globalThis.fetch }: ClientOptions = {}) {
    this.#gateways = new Gateways([urls].flat().flatMap((url) => url.split(",")), token, fetch);
    this.#sessions = new Sessions(this.#gateways);
  }

  /** The pool with this UUID, which is a secret. Nothing is sent. */
  pool(id: string): Pool {
    return new Pool(id, this.#gateways, this.#lines);
  }

  /** The lock with this name. Nothing is sent. */
  lock(name: string): Lock {
    return new Lock(name, undefined, this.#gateways, this.#sessions, this.#lines);
  }

  /** The semaphore with this name, which `limit` holders share. All of them must give the same limit. Nothing is sent. */
  semaphore(name: string, limit: number): Lock {
    return new Lock(name, limit, this.#gateways, this.#sessions, this.#lines);
  }

  /**
   * What happens, as it happens. While no gateway answers, it tries again. It begins with `starts_over`, unless it begins
   * after an event that the gateway remembers, and has `starts_over` whenever events may be missing.
   */
  events(options: EventOptions = {}): AsyncGenerator<SlotEvent, void, undefined> {
    return follow(this.#gateways, "/v1/events", options);
  }

  /** Ends the client's sessions, and so releases its locks and semaphores. Slots of pools stay held. It never rejects. */
  async close(): Promise<void> {
    await this.#sessions.close(CLOSE_TIMEOUT);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}
