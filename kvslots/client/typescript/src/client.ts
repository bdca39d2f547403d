import { follow, type EventOptions, type SlotEvent } from "./events.js";
import { Gateways } from "./gateways.js";
import { defaultLabel } from "./label.js";
import type { Lease } from "./lease.js";
import { Lock } from "./lock.js";
import { known } from "./options.js";
import { Pool } from "./pool.js";
import { Lines } from "./retry.js";
import { Sessions } from "./sessions.js";

const CLOSE_TIMEOUT = 10_000;
/** In seconds. */
const TIMEOUT = 10;
const LARGEST_LIMIT = 65_535;

export interface ClientOptions {
  /** The bearer token for gateways that require one. It is a secret. */
  token?: string | undefined;
  /** Sends the requests, such as one with certificates of its own. By default the global `fetch`. */
  fetch?: typeof fetch | undefined;
  /** Seconds that a request may take in addition to its wait. By default 10. */
  timeout?: number | undefined;
  /** The label of leases that have none of their own. By default `user@host:pid` and the program's name. */
  label?: string | undefined;
  /**
   * Whether only one at a time of the calls that wait for the same pool or name is in line at the gateways, since a browser
   * opens 6 connections to a host. By default in web pages.
   */
  lineUp?: boolean | undefined;
}

/** What the pools and locks of a client have in common. */
export interface Shared {
  readonly gateways: Gateways;
  readonly sessions: Sessions;
  readonly lines: Lines | undefined;
  readonly label: string;
  /** The leases that are held. */
  readonly holds: Set<Lease>;
}

/** A client of one or several gateways over HTTP. */
export class Client implements AsyncDisposable {
  readonly #shared: Shared;

  /** @param urls of gateways, such as `http://127.0.0.1:8080`, as a list or separated by commas. They are tried in turn. */
  constructor(urls: string | readonly string[], options: ClientOptions = {}) {
    const { token, fetch = globalThis.fetch, timeout = TIMEOUT, label = defaultLabel(), lineUp = "document" in globalThis } =
      known(options, "token", "fetch", "timeout", "label", "lineUp");
    const gateways = new Gateways([urls ?? []].flat().flatMap((url) => String(url).split(",")), token, fetch, timeout);
    this.#shared = { gateways, sessions: new Sessions(gateways), lines: lineUp ? new Lines() : undefined, label, holds: new Set() };
  }

  /** The pool with this UUID, which is a secret. Nothing is sent. */
  pool(id: string): Pool {
    return new Pool(id, this.#shared);
  }

  /** The lock with this name. Nothing is sent. */
  lock(name: string): Lock {
    return new Lock(name, undefined, this.#shared);
  }

  /** The semaphore with this name, which `limit` holders share. Nothing is sent. */
  semaphore(name: string, limit: number): Lock {
    if (!(Number.isInteger(limit) && limit >= 1 && limit <= LARGEST_LIMIT)) throw new RangeError(`limit must be an integer between 1 and ${LARGEST_LIMIT}`);
    return new Lock(name, limit, this.#shared);
  }

  /**
   * What happens, as it happens. While no gateway answers, it tries again. It begins with `starts_over`, unless it begins
   * after an event that the gateway remembers, and has `starts_over` whenever events may be missing.
   */
  events(options: EventOptions = {}): AsyncGenerator<SlotEvent, void, undefined> {
    return follow(this.#shared.gateways, "/v1/events", options);
  }

  /** Releases what is held, and ends the client's sessions. It never rejects, and takes 20 s at most. Further calls reject. */
  async close(): Promise<void> {
    const { gateways, sessions, holds } = this.#shared;
    await Promise.all([...holds].map((lease) => lease.release()));
    await sessions.close(CLOSE_TIMEOUT);
    gateways.closed = true;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}
