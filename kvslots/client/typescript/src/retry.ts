import { isTemporary, NoSlotError, RefusedError, SessionGoneError, UnreachableError } from "./errors.js";
import { now, settled, sleep } from "./time.js";

// All in milliseconds, except LONGEST_ASK.
const FIRST_PAUSE = 50;
const LONGEST_PAUSE = 2_000;
/** How long a call is repeated after the first request without an answer, if its wait is shorter. */
const RETRY_FOR = 3_000;
/** How much longer than its wait a call takes at most, without what is given up in the end. */
const GRACE = 2_500;
/** A call with a longer wait gives up when no gateway has answered for so long. */
const SILENCE = 60_000;
/** How long giving up the place in line is tried, and how long the caller of the cancelled call waits for it. */
const LEAVE = 10_000;
const LEAVE_NOTICED = 1_000;
const LEAVE_NOTICED_SILENT = 300; // if no gateway has answered
/** Seconds for which one request asks the gateway to wait. Many proxies end a request after 60 s. */
const LONGEST_ASK = 30;

/** Pauses between attempts. They are random, so that many clients do not come back at the same time. */
class Pauses {
  #last = 0;

  reset(): void {
    this.#last = 0;
  }

  /** The pause after an error: what the gateway asks for, or up to twice the last one. */
  after(error: unknown): number {
    this.#last = Math.min(Math.max(2 * this.#last, FIRST_PAUSE), LONGEST_PAUSE);
    const asked = error instanceof RefusedError ? error.retryAfter : undefined;
    return asked === undefined ? (this.#last * (1 + Math.random())) / 2 : asked * 1000;
  }
}

/** Repeats an idempotent request after failures that may be gone soon, for `ms` at most. */
export async function repeat<T>(ms: number, attempt: (until: number) => Promise<T>): Promise<T> {
  const until = now() + ms;
  return retry(() => attempt(until), until);
}

/** Repeats an idempotent request after failures that may be gone soon, until `until`. By default that is RETRY_FOR after the first one, and no later than `end`. */
export async function retry<T>(attempt: () => Promise<T>, until?: number, end = Infinity): Promise<T> {
  for (const pauses = new Pauses(); ; ) {
    try {
      return await attempt();
    } catch (error) {
      until ??= Math.min(now() + RETRY_FOR, end);
      const pause = pauses.after(error);
      if (!isTemporary(error) || now() + pause >= until) throw error;
      await sleep(pause);
    }
  }
}

/** A request key: the requests that have it in common get one lease. */
export const requestKey = (): string => crypto.getRandomValues(new Uint32Array(4)).join("-");

export interface Take<T> {
  /** Seconds. */
  wait?: number | undefined;
  signal?: AbortSignal | undefined;
  /** The number of gateways. */
  gateways: number;
  /**
   * Sends one request that waits for so many seconds. All requests have the same request key. Metrics count the last one of a
   * wait alone, and not the one after it, which leaves the line: those are `uncounted`.
   */
  ask(wait: number, uncounted: boolean, signal?: AbortSignal, until?: number): Promise<T>;
  /** Gives up what a request may have been granted, and its place in line. */
  leave(until: number): Promise<unknown>;
}

/** Sends requests until one is granted, the wait is over, or one fails for good. Then nothing is left behind. */
async function attempts<T>({ wait = Infinity, signal, gateways, ask, leave }: Take<T>, start: number): Promise<T> {
  const until = start + wait * 1000;
  const end = until + GRACE;
  const pauses = new Pauses();
  let answered = start;
  let unserved: number | undefined; // since when no gateway answers, or knows the session
  let left = true; // whether the gateways keep neither a place in line nor a grant
  try {
    for (;;) {
      const sent = now();
      // The wait is divided among the gateways: each is asked in time, although one before it is silent.
      const seconds = Math.max(until - sent, 0) / 1000;
      const asked = Math.ceil(Math.min(seconds / gateways, LONGEST_ASK));
      const uncounted = seconds > asked || (seconds === 0 && wait > 0);
      let failure: unknown;
      try {
        return await ask(asked, uncounted, signal, Math.min(end, answered + SILENCE));
      } catch (error) {
        failure = error;
      }
      const at = now();
      const lost = failure instanceof UnreachableError;
      if (!lost) answered = at;
      unserved = lost || failure instanceof SessionGoneError ? (unserved ?? at) : undefined;
      const full = failure instanceof NoSlotError;
      const again = full || failure instanceof SessionGoneError || isTemporary(failure);
      if (full && asked === 0) left = true;
      else if (!(failure instanceof RefusedError) || (again && asked > 0)) left = false;
      if (!again || (full && left)) throw failure;
      if (full && at >= until) continue; // the place in line is kept; a request without a wait leaves the line
      if (full && at - sent >= 1000) {
        pauses.reset(); // the gateway has waited for as long as it may
        continue;
      }
      const last = unserved === undefined ? until : Math.min(Math.max(until, Math.min(unserved + RETRY_FOR, end)), answered + SILENCE);
      const pause = pauses.after(failure);
      if (at + pause > last) throw failure;
      await sleep(pause, signal);
    }
  } catch (error) {
    // If no gateway answers, they keep the place for --resume-grace.
    const noticed = error instanceof UnreachableError ? LEAVE_NOTICED_SILENT : LEAVE_NOTICED;
    if (!left) await settled(repeat(LEAVE, leave).catch(() => undefined), noticed);
    throw error;
  }
}

/** Takes what a call asks for: at once, or, if there are `lines`, after the calls before it that wait for the same. */
export async function take<T>(lines: Lines | undefined, line: string, t: Take<T>): Promise<T> {
  if (!((t.wait ?? 0) >= 0)) throw new RangeError("wait must be 0 seconds or more");
  t.signal?.throwIfAborted();
  const start = now();
  return lines && t.wait !== 0 ? lines.follow(line, t, start) : attempts(t, start);
}

/**
 * Calls of one web page that wait for the same pool or name. One at a time is in line at the gateways, since a browser
 * opens 6 connections to a host, and renewals need one.
 */
export class Lines {
  readonly #tails = new Map<string, Promise<void>>();

  /** Grants in the order of the calls. Only calls that do not wait overtake. */
  async follow<T>(line: string, t: Take<T>, start: number): Promise<T> {
    const before = this.#tails.get(line) ?? Promise.resolve();
    let done!: () => void;
    const mine = new Promise<void>((resolve) => (done = resolve));
    const tail = before.then(() => mine);
    this.#tails.set(line, tail);
    void tail.then(() => this.#tails.get(line) === tail && this.#tails.delete(line));
    try {
      // If the wait ends first, one request without a wait has the last word.
      await settled(before, (t.wait ?? Infinity) * 1000, t.signal);
      return await attempts(t, start);
    } finally {
      done();
    }
  }
}
