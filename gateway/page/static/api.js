// @ts-check
// Requests to the gateway that the page came from, and what they answer (gateway/openapi.json).

/**
 * A pool, lock or semaphore.
 * @typedef {object} Pool
 * @property {string} hash
 * @property {'pool' | 'lock' | 'semaphore'} type
 * @property {string} [name]
 * @property {string} [key]
 * @property {number} count
 * @property {number} in_use
 * @property {number} available
 * @property {number} waiting
 * @property {number} oldest_wait_s
 * @property {number} expired
 * @property {number} out
 * @property {boolean} paused
 * @property {string} [pause_reason]
 */

/** @typedef {{pools: Pool[], next?: string}} PoolList */
/** @typedef {{position: number, label: string, fence: number, age_s: number, expires_in_s: number}} Lease */
/** @typedef {{place: number, label: string, waited_s: number}} Place */
/** @typedef {{position: number, reason: string}} Out */

/**
 * A pool with its leases and its line. The numbers next_… begin the next pages.
 * @typedef {Pool & {out_of_service: Out[], leases: Lease[], line: Place[], next_from?: number, next_after?: number}} Detail
 */

/**
 * The state of the gateway: see package page.
 * @typedef {object} State
 * @property {string} version
 * @property {'read' | 'admin'} ui
 * @property {string} sync
 * @property {boolean} ready
 * @property {string} [reason]
 * @property {number} peers
 * @property {number} lag_revisions
 * @property {number} lag_s
 * @property {number} pools
 * @property {number} named
 * @property {number} waiting
 * @property {number} sessions
 */

/** A refusal by the gateway. Its message is the gateway's text. */
export class Refusal extends Error {
  /**
   * @param {number} status of HTTP
   * @param {string} code the name of the error
   * @param {string} text
   */
  constructor(status, code, text) {
    super(text);
    this.status = status;
    this.code = code;
  }
}

const timeout = 10_000; // milliseconds

// The token is kept for this tab, until the browser closes it: in no cookie and no URL.
const tokenKey = 'kvslots-token';
let token = sessionStorage.getItem(tokenKey) ?? '';
/** @type {Promise<void> | undefined} one question for all requests that need the token */
let asking;
/** @type {(wrong: boolean) => Promise<string>} */
let askForToken = async () => '';

/**
 * Sets how the page asks its user for the token. wrong: the last one was not accepted.
 * @param {(wrong: boolean) => Promise<string>} ask
 */
export function onTokenNeeded(ask) {
  askForToken = ask;
}

/**
 * Sends a request, again with a token if the gateway requires one, and returns the response. It
 * throws a Refusal if the status is not 2xx, and what fetch throws if there is no answer.
 * @param {string} method
 * @param {string} path relative to the page, so that a proxy may serve both below a prefix
 * @param {{body?: unknown, headers?: Record<string, string>, signal?: AbortSignal}} [options]
 * @returns {Promise<Response>}
 */
export async function send(method, path, { body, headers = {}, signal } = {}) {
  for (;;) {
    const sent = token;
    const response = await fetch(path, {
      method,
      headers: { Accept: 'application/json', ...(body ? { 'Content-Type': 'application/json' } : {}), ...(sent ? { Authorization: `Bearer ${sent}` } : {}), ...headers },
      body: body ? JSON.stringify(body) : undefined,
      signal,
      credentials: 'omit',
      cache: 'no-store',
      redirect: 'error',
      referrerPolicy: 'no-referrer',
    });
    if (response.status === 401) {
      await newToken(sent);
      signal?.throwIfAborted();
      continue;
    }
    if (!response.ok) {
      throw await refusal(response);
    }
    return response;
  }
}

/**
 * @param {string} refused the token that was not accepted, or ''
 */
async function newToken(refused) {
  if (refused !== token) {
    return; // there is another one by now
  }
  asking ??= askForToken(refused !== '').then((text) => {
    token = text;
    sessionStorage.setItem(tokenKey, text);
    asking = undefined;
  });
  await asking;
}

/** @param {Response} response */
async function refusal(response) {
  const code = response.headers.get('Kvslots-Error') ?? '';
  let text = '';
  try {
    const body = await response.json();
    text = String(body.detail ?? body.error ?? '');
  } catch {
    // Something between the page and the gateway has answered, and not in JSON.
  }
  return new Refusal(response.status, code, text || `status ${response.status}`);
}

/**
 * Sends a request and returns the JSON of its answer, within 10 seconds.
 * @template T
 * @param {string} method
 * @param {string} path
 * @param {{body?: unknown, headers?: Record<string, string>, signal?: AbortSignal}} [options]
 * @returns {Promise<T>}
 */
export async function ask(method, path, options = {}) {
  const abort = new AbortController();
  const stop = () => abort.abort(options.signal?.reason);
  options.signal?.addEventListener('abort', stop);
  // The time does not run while the user types the token.
  const timer = setInterval(() => asking ?? abort.abort(new DOMException('no answer', 'TimeoutError')), timeout);
  try {
    const response = await send(method, path, { ...options, signal: abort.signal });
    return await response.json();
  } finally {
    clearInterval(timer);
    options.signal?.removeEventListener('abort', stop);
  }
}
