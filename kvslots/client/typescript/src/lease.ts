import { LeaseLostError, NoPoolError, NotHeldError, RefusedError, SessionGoneError, UnreachableError, type LossReason } from "./errors.js";
import type { TakeOptions } from "./options.js";
import { repeat } from "./retry.js";
import { linked, now, onAbort, unrefTimeout } from "./time.js";

// All in milliseconds.
/** The holder is told a tenth of the ttl before the end, but not earlier than this. */
const LONGEST_NOTICE = 1_000;
const SHORTEST_RENEWAL = 1_000;
const LONGEST_PAUSE = 1_000;
/** How often a holder asks whether it still has what it has not renewed meanwhile, and how long that may take: it learns of the end within 5 s. */
const ASK_EVERY = 4_000;
const ASK_TIMEOUT = 2_500;
const RELEASE_TIMEOUT = 10_000;

/** For how long a lease is granted, in milliseconds, and since when, at the latest. */
export interface Term {
  since: number;
  ttl: number;
}

/** A term that was granted, of which a shorter one than asked for is told. */
export function promised(term: Term, seconds: number): Term {
  const late = now() - term.since; // by which the answer may be shorter
  if (term.ttl + late + 1_000 < seconds * 1000) console.warn(`kvslots: a lease was granted for ${term.ttl / 1000} seconds instead of ${seconds}`);
  return term;
}

/** The requests of a lease. They end at `until`. */
export interface Holding {
  renew(signal: AbortSignal, until: number): Promise<Term>;
  /** Rejects with what says that the lease has ended. It changes nothing. */
  held(signal: AbortSignal, until: number): Promise<unknown>;
  /** Resolves to whether it has ended the lease. */
  release(until: number): Promise<boolean>;
}

/** A slot or a lock that is held, and is renewed until it is released or lost. */
export class Lease implements AsyncDisposable {
  /** Grows from each lease of a slot or a lock to the next. A resource that refuses lower fences is safe from holders of the past. */
  readonly fence: number;

  readonly #holding: Holding;
  readonly #lost = new AbortController();
  readonly #over = new AbortController(); // released or lost
  #term!: Term;
  #trouble: unknown; // of the last renewal, or of the one under way
  #cancelNotice = (): void => {};
  #cancelRenewal = (): void => {};
  #cancelAsk = (): void => {};
  #released: Promise<boolean> | undefined;

  /** @internal Holds are the leases of the client, which are released with it. */
  constructor(fence: number, term: Term, holding: Holding, holds: Set<Lease>) {
    this.fence = fence;
    this.#holding = holding;
    holds.add(this);
    onAbort(this.#over.signal, () => holds.delete(this));
    this.#extend(term);
  }

  /**
   * When the lease ends unless it is renewed, in milliseconds of `performance.now()`. It is counted from the sending of
   * the request, and so never later than at the gateways.
   */
  get deadline(): number {
    return this.#term.since + this.#term.ttl;
  }

  /**
   * Aborts before the lease ends without having been released: a tenth of the ttl, at most a second. The reason is a
   * LeaseLostError. Reading this property compares the clock, so it is right even if the event loop was blocked.
   */
  get lost(): AbortSignal {
    this.#check();
    return this.#lost.signal;
  }

  /**
   * Ends the lease. It never rejects, so that it hides no error of the work before. It resolves to false if the lease
   * had ended, or if no gateway has answered for 10 s; then the lease ends at its deadline.
   */
  release(): Promise<boolean> {
    this.#released ??= this.#release();
    return this.#released;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }

  get #noticeAt(): number {
    return this.deadline - Math.min(this.#term.ttl / 10, LONGEST_NOTICE);
  }

  #extend(term: Term): void {
    this.#term = term;
    this.#trouble = undefined;
    this.#watch();
    this.#renewAfter((this.deadline - now()) / 3);
    this.#askAfter(ASK_EVERY);
  }

  #watch(): void {
    this.#cancelNotice();
    this.#cancelNotice = unrefTimeout(() => {
      this.#check();
      if (!this.#over.signal.aborted) this.#watch(); // timers may be early
    }, this.#noticeAt - now());
  }

  #check(): void {
    if (this.#over.signal.aborted || now() < this.#noticeAt) return;
    if (this.#trouble) this.#lose("gateway_unreachable", "no renewal has succeeded in time", this.#trouble);
    else this.#lose("lease_gone", "its time is over");
  }

  #renewAfter(ms: number): void {
    this.#cancelRenewal();
    this.#cancelRenewal = unrefTimeout(() => void this.#renew(), ms);
  }

  async #renew(): Promise<void> {
    this.#check(); // the timer may be late
    if (this.#over.signal.aborted) return;
    const { ttl } = this.#term;
    const until = Math.min(now() + Math.max(ttl / 4, SHORTEST_RENEWAL), this.#noticeAt);
    this.#trouble ??= new UnreachableError("the renewal was not answered in time");
    try {
      const term = await this.#holding.renew(this.#over.signal, until);
      if (!this.#over.signal.aborted) this.#extend(term);
    } catch (error) {
      if (this.#over.signal.aborted) return;
      if (this.#ended(error)) return;
      this.#trouble = error;
      const asked = error instanceof RefusedError ? error.retryAfter : undefined;
      const pause = asked === undefined ? Math.min(ttl / 10, LONGEST_PAUSE) : asked * 1000;
      this.#renewAfter(Math.max(Math.min(pause, (this.#noticeAt - now()) / 2), 50));
    }
  }

  #askAfter(ms: number): void {
    this.#cancelAsk();
    this.#cancelAsk = unrefTimeout(() => void this.#ask(), ms);
  }

  /** Asks whether the lease is still held, long before a renewal would say so. */
  async #ask(): Promise<void> {
    this.#check(); // the timer may be late
    if (this.#over.signal.aborted) return;
    let pause = ASK_EVERY;
    try {
      await this.#holding.held(this.#over.signal, now() + ASK_TIMEOUT);
    } catch (error) {
      if (this.#over.signal.aborted || this.#ended(error)) return;
      if (error instanceof UnreachableError) pause = LONGEST_PAUSE;
    }
    if (!this.#over.signal.aborted) this.#askAfter(pause);
  }

  /** Loses the lease if an error says that it has ended. */
  #ended(error: unknown): boolean {
    if (error instanceof SessionGoneError) this.#lose("session_gone", "its session has ended", error);
    else if (error instanceof NotHeldError || error instanceof NoPoolError) {
      this.#lose("lease_gone", error.cause === "evicted" ? "an operator has ended it" : error.message, error);
    }
    return this.#over.signal.aborted;
  }

  #lose(reason: LossReason, why: string, cause?: unknown): void {
    this.#stop();
    this.#lost.abort(new LeaseLostError(reason, `the lease is lost: ${why}`, cause));
  }

  #stop(): void {
    this.#cancelNotice();
    this.#cancelRenewal();
    this.#cancelAsk();
    this.#over.abort();
  }

  async #release(): Promise<boolean> {
    this.#check();
    this.#stop();
    const gone = this.#lost.signal.reason?.reason;
    if (gone === "session_gone") return false;
    const bound = Math.min(Math.max(this.deadline - now(), 1_000), RELEASE_TIMEOUT);
    let lost = false; // an answer, so that it is this call that has ended a lease which is held no more
    try {
      return await repeat(bound, async (until) => {
        try {
          return (await this.#holding.release(until)) || lost;
        } catch (error) {
          lost ||= error instanceof UnreachableError;
          throw error;
        }
      });
    } catch {
      return false;
    }
  }
}

/** What is done under a lease. The signal aborts when the lease is lost, or that of the options aborts. */
export type Body<L, T> = (lease: L, signal: AbortSignal) => Promise<T> | T;

/** The options may be left out. */
export type How<L, T> = [body: Body<L, T>] | [options: TakeOptions, body: Body<L, T>];

/** Takes a lease, calls a body under it, and releases it. */
export async function under<L extends Lease, T>(take: (options: TakeOptions) => Promise<L>, how: How<L, T>): Promise<T> {
  const [options, body] = how.length === 1 ? [{}, how[0]] : how;
  if (typeof body !== "function") throw new TypeError("using needs a function");
  const lease = await take(options);
  const either = linked(Infinity, lease.lost, options.signal);
  try {
    const result = await body(lease, either.signal);
    lease.lost.throwIfAborted();
    return result;
  } finally {
    either.unlink();
    await lease.release();
  }
}
