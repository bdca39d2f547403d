import type { Shared } from "./client.js";
import { NoSlotError, NotHeldError, SessionGoneError } from "./errors.js";
import { integer, matching, type Answer, type Request } from "./gateways.js";
import { Lease, promised, under, type How, type Term } from "./lease.js";
import { takeOptions, wholeSeconds, type TakeOptions } from "./options.js";
import { Resource } from "./resource.js";
import { requestKey, take } from "./retry.js";
import type { Session } from "./sessions.js";

/** A lock, or a semaphore, by its name. It needs no registration. */
export class Lock extends Resource {
  readonly #path: string;
  readonly #held: string;
  readonly #limit: number | undefined; // of a semaphore
  readonly #shared: Shared;

  /** @internal */
  constructor(name: string, limit: number | undefined, shared: Shared) {
    // In a URL's path these mean the directory, and the one above it, even if they are encoded.
    if (typeof name !== "string" || name === "" || name === "." || name === "..") throw new RangeError("name must be a string, and not empty, . or ..");
    const encoded = encodeURIComponent(name);
    super(shared.gateways, hashOf(name).catch(() => encoded));
    this.#path = `/v1/${limit === undefined ? "locks" : "semaphores"}/${encoded}`;
    this.#held = `/v1/pools/${encoded}/leases/self`;
    this.#limit = limit;
    this.#shared = shared;
  }

  /** Takes the lock, or one slot of the semaphore. Release the lease, or declare it with `await using`. */
  async acquire(options: TakeOptions = {}): Promise<Lease> {
    const { ttl, wait, label = this.#shared.label, signal } = takeOptions(options);
    const { gateways, sessions, lines } = this.#shared;
    const seconds = wholeSeconds(ttl);
    const key = requestKey();
    let session: Session | undefined;
    const ask = async (wait: number, uncounted: boolean, signal?: AbortSignal, until?: number): Promise<Granted> => {
      session ??= await sessions.open(seconds, signal, until);
      const body = { acquire_timeout_s: wait, lease_ttl_s: seconds, limit: this.#limit, label, uncounted };
      const answer = await this.#send(session, "", { body, wait }, signal, until, key).catch((error) => {
        if (error instanceof SessionGoneError) session = undefined; // the next request begins another one
        throw error;
      });
      const { status } = answer.body;
      if (status === "timeout") throw new NoSlotError("no resource available", { status: 200, code: "no_slot", ...answer.explanation });
      const token = matching(answer.body, "token", /^[0-9a-f]{32}$/);
      return { token, fence: parseInt(token.slice(0, 16), 16), term: term(answer, "lease_ttl_s", session) };
    };
    const leave = async (until: number): Promise<void> => {
      if (session) await sessions.end(session, until); // which releases what it may hold
    };
    const granted = await take(lines, this.#path, { wait, signal, gateways: gateways.count, ask, leave }).catch((error) => {
      if (session) sessions.keep(session);
      throw error;
    });
    return this.#lease(granted, session!, seconds);
  }

  /** Takes the lock, calls `body`, and releases the lock. If it was lost meanwhile, it rejects with a LeaseLostError, unless the body has failed. */
  async using<T>(...how: How<Lease, T>): Promise<T> {
    return under((options) => this.acquire(options), how);
  }

  #lease({ token, fence, term: first }: Granted, session: Session, seconds: number): Lease {
    const { sessions, holds } = this.#shared;
    const renew = async (signal: AbortSignal, until: number): Promise<Term> =>
      term(await this.#send(session, "/renew", { body: { token, lease_ttl_s: seconds } }, signal, until), "remaining_s", session);
    const held = (signal: AbortSignal, until: number): Promise<Answer> =>
      this.#send(session, "", { method: "GET", path: this.#held, headers: { "Kvslots-Lease": token } }, signal, until);
    const release = async (until: number): Promise<boolean> => {
      const held = await this.#send(session, "/release", { body: { token } }, undefined, until).then(
        () => true,
        (error) => {
          if (error instanceof NotHeldError || error instanceof SessionGoneError) return false;
          throw error;
        },
      );
      sessions.keep(session);
      return held;
    };
    return new Lease(fence, promised(first, seconds), { renew, held, release }, holds);
  }

  async #send(session: Session, path: string, { headers, ...request }: Partial<Request>, signal?: AbortSignal, until?: number, key?: string): Promise<Answer> {
    const all = { "X-Dflockd-Session": session.id, ...(key && { "Idempotency-Key": key }), ...headers };
    try {
      return await this.#shared.gateways.send({ method: "POST", path: this.#path + path, headers: all, ...request }, signal, until);
    } catch (error) {
      if (error instanceof SessionGoneError) this.#shared.sessions.forget(session);
      throw error;
    }
  }
}

interface Granted {
  token: string;
  fence: number;
  term: Term;
}

/** The hash of a lock or a semaphore: a pool may have its name in public. Browsers have no digests on pages without TLS. */
async function hashOf(name: string): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(`dflockd/${name}`));
  return Array.from(new Uint8Array(digest, 0, 16), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Without requests the session ends, and the lease with it. A renewal keeps both. */
const term = ({ body, since }: Answer, field: string, session: Session): Term => ({ since, ttl: Math.min(integer(body, field), session.idle) * 1000 });
