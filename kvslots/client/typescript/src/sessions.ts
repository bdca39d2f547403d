import type { Gateways } from "./gateways.js";
import { repeat } from "./retry.js";
import { now } from "./time.js";

export interface Session {
  readonly id: string;
  /** Seconds without a request after which it may end, and what it holds with it. */
  readonly idle: number;
}

/** The sessions of a client: one for each lock that is held or waited for, and unused ones. */
export class Sessions {
  readonly #gateways: Gateways;
  readonly #open = new Set<Session>();
  readonly #unused: { session: Session; since: number }[] = [];

  constructor(gateways: Gateways) {
    this.#gateways = gateways;
  }

  /** Takes an unused session, or creates one. */
  async open(signal?: AbortSignal): Promise<Session> {
    for (let kept = this.#unused.pop(); kept; kept = this.#unused.pop()) {
      if (now() < kept.since + kept.session.idle * 1000) return kept.session;
      this.forget(kept.session); // it may have ended
    }
    const { body } = await this.#gateways.send({ method: "POST", path: "/v1/sessions" }, signal);
    const session = { id: body.session_id, idle: body.idle_timeout_s };
    this.#open.add(session);
    return session;
  }

  /** Keeps a session that holds nothing for the next lock. It is not kept alive. */
  keep(session: Session): void {
    if (this.#open.has(session)) this.#unused.push({ session, since: now() });
  }

  /** Forgets a session that has ended. */
  forget(session: Session): void {
    this.#open.delete(session);
  }

  /** Ends a session, and so releases what it holds. */
  async end(session: Session, until?: number): Promise<void> {
    this.forget(session);
    await this.#gateways.send({ method: "DELETE", path: `/v1/sessions/${session.id}` }, undefined, until);
  }

  /** Ends all sessions, within `ms`. It never rejects: they end without requests, too. */
  async close(ms: number): Promise<void> {
    this.#unused.length = 0;
    await Promise.allSettled([...this.#open].map((session) => repeat(ms, (until) => this.end(session, until))));
  }
}
