// @ts-check
// The gateway's stream of events. It is read with fetch, since an EventSource cannot send a token.

import { Refusal, send } from './api.js';

/**
 * An event. Those that the page counts have more fields: see gateway/openapi.json.
 * @typedef {{id: number, type: string, hash?: string, waited_s?: number, held_s?: number}} Event
 */

/** How the page learns of changes: by events, by asking again and again, or not now. */
/** @typedef {'live' | 'polling' | 'gone'} Mode */

const firstRetry = 500; // milliseconds
const retryAtMost = 5_000;
const silence = 40_000; // a gateway sends a comment every 15 s, so the connection is dead after this
const refusedFor = 15_000; // until the page asks for a stream again that was refused, or was too much

/**
 * Follows events until signal ends. Of more than most events a second it ends the stream for a
 * while: the page reads the state only once a second anyway.
 * @param {object} options
 * @param {string} options.path
 * @param {number} options.most
 * @param {(event: Event) => void} options.onEvent
 * @param {(mode: Mode) => void} options.onMode
 * @param {AbortSignal} options.signal
 */
export async function follow({ path, most, onEvent, onMode, signal }) {
  let last = '';
  let delay = firstRetry;
  while (!signal.aborted) {
    const abort = new AbortController();
    const stop = () => abort.abort();
    signal.addEventListener('abort', stop);
    let watchdog = setTimeout(stop, silence);
    try {
      /** @type {Record<string, string>} */
      const headers = last ? { 'Last-Event-ID': last } : {};
      const response = await send('GET', path, { headers: { Accept: 'text/event-stream', ...headers }, signal: abort.signal });
      if (!response.body || !response.headers.get('Content-Type')?.startsWith('text/event-stream')) {
        throw new Refusal(response.status, '', 'no stream of events');
      }
      onMode('live');
      delay = firstRetry;
      let second = performance.now();
      let count = 0;
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for await (const [id, data] of messages(reader, () => {
        clearTimeout(watchdog);
        watchdog = setTimeout(stop, silence);
      })) {
        last = id || last;
        if (!data) {
          continue;
        }
        onEvent(JSON.parse(data));
        if (performance.now() - second > 1000) {
          second = performance.now();
          count = 0;
        }
        if (++count > most) {
          last = '';
          throw new Refusal(429, 'too_many_events', 'more events than the page can show');
        }
      }
      onMode('gone');
    } catch (error) {
      abort.abort();
      if (signal.aborted) {
        return;
      }
      const refused = error instanceof Refusal && error.status !== 502 && error.code !== 'draining';
      onMode(refused ? 'polling' : 'gone');
      delay = refused ? refusedFor : Math.min(delay * 1.5, retryAtMost);
    } finally {
      clearTimeout(watchdog);
      signal.removeEventListener('abort', stop);
    }
    await pause(delay * (0.75 + Math.random() / 2), signal);
  }
}

/**
 * Reads server-sent events: their id, and their data.
 * @param {ReadableStreamDefaultReader<string>} reader
 * @param {() => void} onBytes
 * @returns {AsyncGenerator<[string, string]>}
 */
async function* messages(reader, onBytes) {
  let rest = '';
  let id = '';
  let data = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) {
      return;
    }
    onBytes();
    const lines = (rest + value).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) {
      if (line === '') {
        yield [id, data];
        id = data = '';
      } else if (line.startsWith('data: ')) {
        data += line.slice(6);
      } else if (line.startsWith('id: ')) {
        id = line.slice(4);
      }
    }
  }
}

/**
 * Waits, or until signal ends.
 * @param {number} milliseconds
 * @param {AbortSignal} signal
 * @returns {Promise<void>}
 */
function pause(milliseconds, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener('abort', () => (clearTimeout(timer), resolve()), { once: true });
  });
}
