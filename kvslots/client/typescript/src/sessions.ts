import { integer, matching, type Gateways, type Request } from "./gateways.js";
import { repeat } from "./retry.js";
import { now } from "./time.js";

export interface Session {
  readonly id: string;
  /** Seconds without a request after which it may end, and what it holds with it. */
  readonly idle: number;
  /** Those that it was to have. */
  readonly asked: number;
}

const end = (id: string): Request => ({ method: "DELETE", path: `/v1/sessions/${id}` });

/** In seconds, so that a session is used again for another lock. */
const SHORTEST_IDLE = 60;

/** The sessions of a client: one for each lock that is held or waited for, and unused ones. */
export class Sessions {
  readonly #gateways: Gateways;
  readonly #open = new Set<Session>();
  #unused: { session: Session; since: number }[] = [];

  constructor(gateways: Gateways) {
    this.#gateways = gateways;
  }

  /** Takes an unused session, or creates one, whose idle time covers the ttl of a lock, which ends with it. */
  async open(ttl: number, signal?: AbortSignal, until?: number): Promise<Session> {
    this.#unused = this.#unused.filter(({ session, since }) => now() < since + session.idle * 1000 || this.forget(session)); // it may have ended
    const fits = this.#unused.findIndex(({ session }) => session.asked >= ttl);
    if (fits >= 0) return this.#unused.splice(fits, 1)[0]!.session;
    const asked = Math.max(ttl, SHORTEST_IDLE);
    const undo = ({ session_id }: any): Request => end(session_id);
    const { body } = await this.#gateways.send({ method: "POST", path: "/v1/sessions", body: { idle_timeout_s: asked }, undo }, signal, until);
    const session = { id: matching(body, "session_id", /^[0-9A-Za-z]+$/), idle: integer(body, "idle_timeout_s"), asked };
    this.#open.add(session);
    return session;
  }

  /** Keeps a session that holds nothing for the next lock. It is not kept alive. */
  keep(session: Session): void {
    if (this.#open.has(session)) this.#unused.push({ session, since: now() });
  }

  /** Forgets a session that has ended. */
  forget(session: Session): false {
    this.#open.delete(session);
    return false;
  }

  /** Ends a session, and so releases what it holds. */
  async end(session: Session, until?: number): Promise<void> {
    this.forget(session);
    await this.#gateways.send(end(session.id), undefined, until);
  }

  /** Ends all sessions, within `ms`. It never rejects: they end without requests, too. */
  async close(ms: number): Promise<void> {
    this.#unused = [];
    await Promise.allSettled([...this.#open].map((session) => repeat(ms, (until) => this.end(session, until))));
  }
}
