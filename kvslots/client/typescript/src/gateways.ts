import { errorClasses, isTemporary, KvslotsError, RefusedError, TwoStoresError, UnreachableError, type Refusal } from "./errors.js";
import { linked, now, raced } from "./time.js";

/** Milliseconds for which giving back what the gateway of a second store has granted is tried. */
const UNDO = 1_000;
/** The bytes of the longest answer. */
const LONGEST_ANSWER = 16 << 20;

export interface Request {
  method: "GET" | "PUT" | "POST" | "DELETE";
  path: string;
  headers?: Record<string, string>;
  body?: Record<string, unknown>;
  /** Seconds for which the gateway may wait. */
  wait?: number;
  /** The request that gives back what an answer has granted. */
  undo?: (body: any) => Request;
}

export interface Answer {
  // biome-ignore lint: the shape is that of openapi.json
  body: any;
  /** When the lease's time began, or earlier: when the request was sent, plus the header Kvslots-Waited. */
  since: number;
  /** The header Kvslots-Place. */
  explanation: Explanation;
}

/** Sends requests to several gateways in turn, until one answers. It begins with the one that has answered last. */
export class Gateways {
  readonly #urls: string[];
  readonly #token: string | undefined;
  readonly #fetch: typeof fetch;
  /** How long a gateway may take to answer, in addition to the wait of the request, in milliseconds. */
  readonly timeout: number;
  closed = false;
  #first = 0;
  #store: { id: string; url: string } | undefined; // as an answer has named it

  constructor(urls: string[], token: string | undefined, fetcher: typeof fetch, timeout: number) {
    if (token !== undefined && !/^[\x21-\x7e]+$/.test(token)) throw new RangeError("token must be printable ASCII");
    if (urls.length === 0) throw new RangeError("urls must have one at least, such as http://127.0.0.1:8080");
    this.#urls = urls.map(checked);
    this.#token = token;
    this.#fetch = fetcher;
    if (!(timeout > 0 && timeout < Infinity)) throw new RangeError("timeout must be a number of seconds above 0");
    this.timeout = timeout * 1000;
  }

  get count(): number {
    return this.#urls.length;
  }

  /**
   * Sends a request, which ends with `signal`, and at `until` at the latest, in milliseconds of now(). It rejects with
   * a RefusedError, an UnreachableError, or the reason of `signal`.
   */
  async send(request: Request, signal?: AbortSignal, until = Infinity): Promise<Answer> {
    return this.#inTurn(request, signal, until, async (url, response, over, sent) => {
      const answer = parsed(await text(url, response, over));
      const { undo } = request;
      await this.#see(url, response, answer && undo && ((): Request => undo(answer)));
      if (!response.ok) throw refused(response, answer);
      if (!answer) throw foreign(url);
      const waited = number(response, "Kvslots-Waited");
      return { body: answer, since: Math.min(sent + waited, now()), explanation: explanation(response) };
    });
  }

  /** Opens a stream of server-sent events, which is to be cancelled. It rejects as send does. */
  async open(request: Request, signal?: AbortSignal): Promise<ReadableStream<Uint8Array>> {
    return this.#inTurn(request, signal, Infinity, async (url, response, over) => {
      await this.#see(url, response);
      if (!response.ok) throw refused(response, parsed(await text(url, response, over)));
      if (!response.body || !response.headers.get("Content-Type")?.startsWith("text/event-stream")) throw foreign(url);
      return response.body;
    });
  }

  /** Notes the store that an answer names. At one address it may be another one than before: that is a new bucket. */
  async #see(url: string, { ok, headers }: Response, undo?: () => Request): Promise<void> {
    const id = headers.get("Kvslots-Store");
    if (!id || id === this.#store?.id) return;
    if (!this.#store || this.#store.url === url) return void (this.#store = { id, url });
    if (ok && undo) await this.#ask(url, undo(), UNDO, undefined, async (_, { body }) => body?.cancel()).catch(() => undefined);
    const [one, other] = [this.#store.url, url].map((at) => new URL(at).origin);
    throw new TwoStoresError(`${one}, ${other}: the addresses are of two stores, and a lock of one is none of the other: name the gateways of one store`);
  }

  async #inTurn<T>(request: Request, signal: AbortSignal | undefined, until: number, read: Reader<T>): Promise<T> {
    if (this.closed) throw new KvslotsError("the client is closed");
    const failures: (RefusedError | UnreachableError)[] = [];
    const count = this.#urls.length;
    const first = this.#first;
    for (let i = 0; i < count; i++) {
      const at = (first + i) % count;
      // Each gateway gets its share of the time, so that one that is silent leaves some to the others.
      const ms = Math.min((request.wait ?? 0) * 1000 + this.timeout, (until - now()) / (count - i));
      try {
        const answer = await this.#ask(this.#urls[at]!, request, ms, signal, read);
        this.#first = at;
        return answer;
      } catch (error) {
        signal?.throwIfAborted();
        const elsewhere = error instanceof UnreachableError || (error instanceof RefusedError && error.status >= 500 && isTemporary(error));
        if (!elsewhere) throw error;
        failures.push(error);
      }
    }
    const refused = failures.find((failure) => failure instanceof RefusedError);
    const messages = new Set(failures.map((failure) => failure.message));
    throw refused ?? new UnreachableError([...messages].join("; "), !failures.some(isTemporary));
  }

  async #ask<T>(url: string, request: Request, ms: number, signal: AbortSignal | undefined, read: Reader<T>): Promise<T> {
    const headers: Record<string, string> = { ...request.headers };
    if (request.body) headers["Content-Type"] = "application/json";
    if (this.#token) headers["Authorization"] = `Bearer ${this.#token}`;
    const body = request.body ? JSON.stringify(request.body) : null;
    const { signal: over, unlink } = linked(ms, signal);
    const sent = now();
    try {
      const fetch = this.#fetch; // browsers refuse to call it as a method
      const answering = fetch(url + request.path, { method: request.method, headers, body, redirect: "error", signal: over });
      const late = (response: Response): unknown => over.aborted && response.body?.cancel();
      answering.then(late).catch(() => undefined);
      return await read(url, await raced(answering, over), over, sent);
    } catch (error) {
      if (error instanceof KvslotsError) throw error;
      throw unanswered(url, request, over.aborted ? undefined : error);
    } finally {
      unlink();
    }
  }
}

/** Reads the answer to a request that was sent to a gateway's URL at a time of now(), until `over` aborts. */
type Reader<T> = (url: string, response: Response, over: AbortSignal, sent: number) => Promise<T>;

const foreign = (url: string): UnreachableError => new UnreachableError(`${new URL(url).origin}: the answer is not a gateway's`, true);

/** A number of an answer, which is checked, since any server may have written it. */
export function integer(body: any, field: string): number {
  const value: unknown = body?.[field];
  if (!Number.isSafeInteger(value) || (value as number) < 0) throw new UnreachableError("the answer is not a gateway's", true);
  return value as number;
}

/** A text of an answer, which is checked. */
export function matching(body: any, field: string, pattern: RegExp): string {
  const value: unknown = body?.[field];
  if (typeof value !== "string" || !pattern.test(value)) throw new UnreachableError("the answer is not a gateway's", true);
  return value;
}

/** The text of an answer, of a length that a gateway's may have. */
async function text(url: string, { body }: Response, over: AbortSignal): Promise<string> {
  const decoder = new TextDecoder();
  let [all, length] = ["", 0];
  if (!body) return all;
  const reader = body.getReader();
  try {
    for (;;) {
      const { done, value } = await raced(reader.read(), over);
      if (done) return all + decoder.decode();
      length += value.length;
      if (length > LONGEST_ANSWER) throw foreign(url);
      all += decoder.decode(value, { stream: true });
    }
  } catch (error) {
    void reader.cancel().catch(() => undefined);
    throw error;
  }
}

const number = ({ headers }: Response, name: string): number => Number(headers.get(name)) || 0;

function checked(text: string): string {
  let url: URL | undefined;
  try {
    url = new URL(text.trim());
  } catch {} // its error has the URL, which may be a secret
  if (!url || !/^https?:$/.test(url.protocol) || url.username || url.password || url.search || url.hash) {
    throw new RangeError("url must be such as http://127.0.0.1:8080");
  }
  return url.href.replace(/\/+$/, "");
}

function parsed(text: string): Record<string, unknown> | undefined {
  if (text === "") return {};
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

/** The error of a request without an answer. It has no path, and no error of fetch, which may have it. */
function unanswered(url: string, { path }: Request, error: unknown): UnreachableError {
  const { code, message, cause } = (error ?? { message: "no answer in time" }) as Error & { code?: string; cause?: Error & { code?: string } };
  const named = cause?.code ?? code;
  const why = String(named ?? cause?.message ?? message).split(url + path).join(url);
  const { origin } = new URL(url);
  return new UnreachableError(`${origin}: ${why}${hint(origin, error)}`, typeof named === "string" && untrusted.test(named));
}

/** The codes of errors of TLS that a repetition does not mend. */
const untrusted = /^(ERR_TLS_|ERR_SSL_|CERT_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_|HOSTNAME_MISMATCH$|INVALID_CA$|PATH_LENGTH_EXCEEDED$|INVALID_PURPOSE$)/;

/** Browsers do not say why they refuse an answer to a page. */
function hint(origin: string, error: unknown): string {
  const { location } = globalThis as { location?: { origin: string } };
  if (!location || location.origin === origin || !(error instanceof TypeError)) return "";
  return `; perhaps it does not answer to web pages of ${location.origin}: see --http-cors-allowed-origins`;
}

function refused(response: Response, body: Record<string, unknown> = {}): RefusedError {
  const header = (name: string): string | undefined => response.headers.get(name) ?? undefined;
  // A proxy's answer has no code.
  const code = header("Kvslots-Error") ?? (response.status >= 500 ? "unavailable" : response.status === 429 ? "rate_limited" : "unexpected");
  const text = body["detail"] ?? body["error"];
  const named = Object.hasOwn(errorClasses, code) ? errorClasses[code]! : RefusedError; // any server may have written the code
  return new named(typeof text === "string" ? text : `HTTP status ${response.status}`, {
    status: response.status,
    code,
    retryAfter: seconds(header("Retry-After")),
    field: header("Kvslots-Field"),
    range: header("Kvslots-Range"),
    ...explanation(response),
    cause: header("Kvslots-Cause"),
  });
}

/** Why an answer grants nothing, if it says so. */
type Explanation = Pick<Refusal, "place" | "taken">;

function explanation(response: Response): Explanation {
  const place = number(response, "Kvslots-Place") || undefined;
  const header = response.headers.get("Kvslots-Taken");
  if (header === null) return { place };
  const { held_by, held_s, paused, pause_reason, limit } = (parsed(header) ?? {}) as Record<string, any>;
  return { place, taken: { heldBy: held_by, heldFor: held_s, paused, pauseReason: pause_reason, limit } };
}

/** A number of seconds, or a date. */
function seconds(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const value = /^\d+$/.test(text) ? Number(text) : (Date.parse(text) - Date.now()) / 1000;
  return Number.isNaN(value) ? undefined : Math.max(value, 0);
}
