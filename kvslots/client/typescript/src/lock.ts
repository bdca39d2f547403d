import { NoSlotError, NotHeldError, SessionGoneError } from "./errors.js";
import type { Answer, Gateways, Request } from "./gateways.js";
import { Lease, under, type Term } from "./lease.js";
import { Resource } from "./resource.js";
import { requestKey, type Lines } from "./retry.js";
import type { Session, Sessions } from "./sessions.js";
import { wholeSeconds, type TakeOptions } from "./pool.js";

/** A lock, or a semaphore, by its name. It needs no registration. */
export class Lock extends Resource {
  readonly #path: string;
  readonly #limit: number | undefined; // of a semaphore
  readonly #gateways: Gateways;
  readonly #sessions: Sessions;
  readonly #lines: Lines;

  /** @internal */
  constructor(name: string, limit: number | undefined, gateways: Gateways, sessions: Sessions, lines: Lines) {
    // In a URL's path these mean the directory, and the one above it, even if they are encoded.
    if (name === "" || name === "." || name === "..") throw new RangeError("name must not be empty, . or ..");
    const path = `/v1/${limit === undefined ? "locks" : "semaphores"}/${encodeURIComponent(name)}`;
    super(gateways, path);
    this.#path = path;
    this.#limit = limit;
    this.#gateways = gateways;
    this.#sessions = sessions;
    this.#lines = lines;
  }

  /** Takes the lock, or one slot of the semaphore. Release the lease, or declare it with `await using`. */
  async acquire({ ttl, wait, label, signal }: TakeOptions = {}): Promise<Lease> {
    const seconds = wholeSeconds(ttl);
    const key = requestKey();
    let session: Session | undefined;
    const ask = async (wait: number, signal?: AbortSignal): Promise<Answer> => {
      session ??= await this.#sessions.open(signal);
      const body = { acquire_timeout_s: wait, lease_ttl_s: seconds, limit: this.#limit, label };
      const answer = await this.#send(session, "", { body, wait }, signal, undefined, key).catch((error) => {
        if (error instanceof SessionGoneError) session = undefined; // the next request begins another one
        throw error;
      });
      if (answer.body.status === "timeout") throw new NoSlotError("no resource available", { status: 200, code: "no_slot" });
      return answer;
    };
    const leave = async (until: number): Promise<void> => {
      if (session) await this.#sessions.end(session, until); // which releases what it may hold
    };
    const granted = await this.#lines.take(this.#path, { wait, signal, ask, leave }).catch((error) => {
      if (session) this.#sessions.keep(session);
      throw error;
    });
    return this.#lease(granted, session!, seconds);
  }

  /** Takes the lock, calls `body`, and releases the lock. If it was lost meanwhile, it rejects with a LeaseLostError, unless the body has failed. */
  async using<T>(options: TakeOptions, body: (lease: Lease, signal: AbortSignal) => Promise<T> | T): Promise<T> {
    return under(await this.acquire(options), options.signal, body);
  }

  #lease(granted: Answer, session: Session, seconds: number): Lease {
    const { token, lease_ttl_s } = granted.body;
    // Without requests the session ends, and the lease with it. A renewal keeps both.
    const term = (answer: Answer, ttl: number): Term => ({ since: answer.since, ttl: Math.min(ttl, session.idle) * 1000 });
    return new Lease(parseInt(token.slice(0, token.length / 2), 16), term(granted, lease_ttl_s), {
      renew: async (signal, until) => {
        const answer = await this.#send(session, "/renew", { body: { token, lease_ttl_s: seconds } }, signal, until);
        return term(answer, answer.body.remaining_s);
      },
      release: async (until) => {
        const held = await this.#send(session, "/release", { body: { token } }, undefined, until).then(
          () => true,
          (error) => {
            if (error instanceof NotHeldError || error instanceof SessionGoneError) return false;
            throw error;
          },
        );
        this.#sessions.keep(session);
        return held;
      },
    });
  }

  async #send(session: Session, path: string, request: Partial<Request>, signal?: AbortSignal, until?: number, key?: string): Promise<Answer> {
    const headers = { "X-Dflockd-Session": session.id, ...(key && { "Idempotency-Key": key }) };
    try {
      return await this.#gateways.send({ method: "POST", path: this.#path + path, headers, ...request }, signal, until);
    } catch (error) {
      if (error instanceof SessionGoneError) this.#sessions.forget(session);
      throw error;
    }
  }
}
