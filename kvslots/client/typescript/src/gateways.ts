import { errorClasses, isTemporary, RefusedError, UnreachableError } from "./errors.js";
import { linked, now } from "./time.js";

/** How long a gateway may take to answer, in addition to the wait of the request, in milliseconds. */
const ANSWER_TIMEOUT = 10_000;

export interface Request {
  method: "GET" | "PUT" | "POST" | "DELETE";
  path: string;
  headers?: Record<string, string>;
  body?: Record<string, unknown>;
  /** Seconds for which the gateway may wait. */
  wait?: number;
}

export interface Answer {
  // biome-ignore lint: the shape is that of openapi.json
  body: any;
  /** When the lease's time began, or earlier: when the request was sent, plus the header Kvslots-Waited. */
  since: number;
}

/** Sends requests to several gateways in turn, until one answers. It begins with the one that has answered last. */
export class Gateways {
  readonly #urls: string[];
  readonly #token: string | undefined;
  readonly #fetch: typeof fetch;
  #first = 0;

  constructor(urls: string[], token: string | undefined, fetcher: typeof fetch) {
    if (token !== undefined && !/^[\x21-\x7e]+$/.test(token)) throw new RangeError("token must be printable ASCII");
    if (urls.length === 0) throw new RangeError("urls must have one at least");
    this.#urls = urls.map(checked);
    this.#token = token;
    this.#fetch = fetcher;
  }

  /**
   * Sends a request, which ends with `signal`, and at `until` at the latest, in milliseconds of now(). It rejects with
   * a RefusedError, an UnreachableError, or the reason of `signal`.
   */
  async send(request: Request, signal?: AbortSignal, until = Infinity): Promise<Answer> {
    return this.#inTurn(request, signal, until, async (url, response, sent) => {
      const answer = parsed(await response.text());
      if (!response.ok) throw refused(response, answer);
      if (!answer) throw foreign(url);
      const waited = Number(response.headers.get("Kvslots-Waited")) || 0;
      return { body: answer, since: Math.min(sent + waited, now()) };
    });
  }

  /** Opens a stream of server-sent events, which is to be cancelled. It rejects as send does. */
  async open(request: Request, signal?: AbortSignal): Promise<ReadableStream<Uint8Array>> {
    return this.#inTurn(request, signal, Infinity, async (url, response) => {
      if (!response.ok) throw refused(response, parsed(await response.text()));
      if (!response.body || !response.headers.get("Content-Type")?.startsWith("text/event-stream")) throw foreign(url);
      return response.body;
    });
  }

  async #inTurn<T>(request: Request, signal: AbortSignal | undefined, until: number, read: Reader<T>): Promise<T> {
    const failures: (RefusedError | UnreachableError)[] = [];
    const count = this.#urls.length;
    const first = this.#first;
    for (let i = 0; i < count; i++) {
      const at = (first + i) % count;
      // Each gateway gets its share of the time, so that one that is silent leaves some to the others.
      const ms = Math.min((request.wait ?? 0) * 1000 + ANSWER_TIMEOUT, (until - now()) / (count - i));
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
    const body = request.body && JSON.stringify(request.body);
    const { signal: over, unlink } = linked(ms, signal);
    const sent = now();
    try {
      const send = this.#fetch; // browsers refuse to call it as a method
      return await read(url, await send(url + request.path, { method: request.method, headers, body, redirect: "error", signal: over }), sent);
    } catch (error) {
      if (error instanceof RefusedError || error instanceof UnreachableError) throw error;
      throw unanswered(url, request, over.aborted ? undefined : error);
    } finally {
      unlink();
    }
  }
}

/** Reads the answer to a request that was sent to a gateway's URL at a time of now(). */
type Reader<T> = (url: string, response: Response, sent: number) => Promise<T>;

const foreign = (url: string): UnreachableError => new UnreachableError(`${new URL(url).origin}: the answer is not a gateway's`, true);

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
  const why = String(cause?.code ?? code ?? cause?.message ?? message).split(url + path).join(url);
  const permanent = /CERT|SIGNATURE|ISSUER|WRONG_VERSION/i.test(why);
  return new UnreachableError(`${new URL(url).origin}: ${why}`, permanent);
}

function refused(response: Response, body: Record<string, unknown> = {}): RefusedError {
  const header = (name: string): string | undefined => response.headers.get(name) ?? undefined;
  // A proxy's answer has no code.
  const code = header("Kvslots-Error") ?? (response.status >= 500 ? "unavailable" : response.status === 429 ? "rate_limited" : "unexpected");
  const text = body["detail"] ?? body["error"];
  return new (errorClasses[code] ?? RefusedError)(typeof text === "string" ? text : `HTTP status ${response.status}`, {
    status: response.status,
    code,
    retryAfter: seconds(header("Retry-After")),
    field: header("Kvslots-Field"),
    range: header("Kvslots-Range"),
  });
}

/** A number of seconds, or a date. */
function seconds(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const value = /^\d+$/.test(text) ? Number(text) : (Date.parse(text) - Date.now()) / 1000;
  return Number.isNaN(value) ? undefined : Math.max(value, 0);
}
