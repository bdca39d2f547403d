import { isTemporary, RefusedError, UnreachableError } from "./errors.js";
import type { Gateways } from "./gateways.js";
import { known } from "./options.js";
import { onAbort, sleep, unrefTimeout } from "./time.js";

// In milliseconds.
/** How long a stream may be silent: gateways send a comment every 15 s. */
const SILENCE = 45_000;
/** The pause before a stream is opened again if the gateway has not named one, and the longest one after repeated failures. */
const FIRST_PAUSE = 1_000;
const LONGEST_PAUSE = 15_000;
/** The most characters of a line. */
const LONGEST_LINE = 1 << 16;

export type EventType =
  | "starts_over" // events may be missing: what was read before is out of date
  | "granted" | "returned" | "expired" | "evicted" | "withdrawn"
  | "joined" | "left"
  | "registered" | "changed" | "deleted"
  | "session_ended"
  | "peer_joined" | "peer_left";

/** What has happened. Gateways that are newer than this client may have further types. */
export interface SlotEvent {
  /** The same at every gateway, and growing. What happened at once has the same. */
  id: number;
  type: EventType;
  at: Date;
  /** Of the pool's UUID, or of the name. It is not secret. */
  hash?: string;
  kind?: "pool" | "lock" | "semaphore";
  /** The public name of a pool. */
  name?: string;
  /** The name of a lock or a semaphore. */
  key?: string;
  position?: number;
  fence?: number;
  /** What the holder, or the waiting client, says about itself: data of another program. */
  label?: string;
  /** Seconds in line of the client that was granted a slot, or has left. */
  waited?: number;
  /** Seconds for which the lease was held that has ended. */
  held?: number;
  /** The name of the token of the operator who did it. */
  by?: string;
}

export interface PoolEventOptions {
  /** Only these types, and `starts_over`. */
  types?: readonly EventType[] | undefined;
  /** The id of an event: the stream begins with what came after it. By default with what happens from now on. */
  after?: number | undefined;
  /** Ends the stream, which rejects with its reason. */
  signal?: AbortSignal | undefined;
}

export interface EventOptions extends PoolEventOptions {
  /** Only the pools with these hashes, and the locks and semaphores with the names `keys`, 100 in all. By default everything. */
  pools?: readonly string[] | undefined;
  keys?: readonly string[] | undefined;
}

/** Reads events, and opens the stream again when it is lost, until a request is refused for good. */
export async function* follow(gateways: Gateways, path: string, options: EventOptions, headers?: Record<string, string>): AsyncGenerator<SlotEvent, void, undefined> {
  const { types, pools = [], keys = [], after, signal } = known(options, "types", "after", "signal", "pools", "keys");
  const query = new URLSearchParams([...pools.map((hash) => ["pool", hash]), ...keys.map((key) => ["key", key]), ...(types ? [["type", types.join()]] : [])]).toString();
  const position = { last: after?.toString(), retry: FIRST_PAUSE };
  for (let failed = 0; ; failed++) {
    signal?.throwIfAborted();
    let asked = 0;
    try {
      const resume = position.last !== undefined && { "Last-Event-Id": position.last };
      const body = await gateways.open({ method: "GET", path: query ? `${path}?${query}` : path, headers: { ...headers, ...resume } }, signal);
      for await (const events of batches(lines(body, signal), position)) {
        failed = 0;
        yield* events;
      }
    } catch (error) {
      if (!isTemporary(error)) throw error;
      if (error instanceof RefusedError) asked = (error.retryAfter ?? 0) * 1000;
    }
    signal?.throwIfAborted();
    const pause = Math.min(position.retry * 2 ** failed, Math.max(LONGEST_PAUSE, position.retry));
    await sleep(Math.max(asked, (pause * (1 + Math.random())) / 2), signal);
  }
}

/**
 * The events up to each id, which may be none. What was read without an id is not returned: after a loss of the stream
 * it is sent again.
 */
async function* batches(lines: AsyncIterable<string>, position: { last: string | undefined; retry: number }): AsyncGenerator<SlotEvent[], void, undefined> {
  let events: SlotEvent[] = [];
  let id: string | undefined;
  for await (const line of lines) {
    const [, field, value] = /^([^:]*):? ?(.*)$/.exec(line)!;
    if (line === "" && (id !== undefined || events[0]?.type === "starts_over")) {
      yield events; // starts_over of a gateway that has seen no event has no id
      position.last = id ?? position.last;
      [events, id] = [[], undefined];
    } else if (field === "id") id = value;
    else if (field === "data") events.push(event(value!));
    else if (field === "retry" && /^\d{1,6}$/.test(value!)) position.retry = Math.max(Number(value), 1);
  }
}

/** The lines of a stream, until it ends, is lost, or `signal` aborts. */
async function* lines(body: ReadableStream<Uint8Array>, signal?: AbortSignal): AsyncGenerator<string, void, undefined> {
  const reader = body.getReader();
  const cancel = (): void => void reader.cancel().catch(() => undefined);
  const unlink = onAbort(signal, cancel);
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for (;;) {
      const heard = unrefTimeout(cancel, SILENCE);
      const chunk = await reader.read().catch(() => undefined).finally(heard);
      if (!chunk?.value) return;
      const parts = (rest + decoder.decode(chunk.value, { stream: true })).split("\n");
      rest = parts.pop()!;
      if (rest.length > LONGEST_LINE) throw notUnderstood();
      for (const line of parts) yield line.replace(/\r$/, "");
    }
  } finally {
    unlink();
    cancel();
  }
}

function event(text: string): SlotEvent {
  try {
    const { at, waited_s, held_s, ...same } = JSON.parse(text);
    if (typeof same.type !== "string" || !Number.isSafeInteger(same.id)) throw notUnderstood();
    return { ...same, at: new Date(at), ...(waited_s !== undefined && { waited: waited_s }), ...(held_s !== undefined && { held: held_s }) };
  } catch {
    throw notUnderstood();
  }
}

const notUnderstood = (): UnreachableError => new UnreachableError("the stream of events is not a gateway's", true);
