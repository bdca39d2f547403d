/** Milliseconds of a clock that does not jump. */
export const now = (): number => performance.now();

/** A time that setTimeout accepts: it would end longer ones at once. */
const within = (ms: number): number => Math.min(Math.max(ms, 0), 2 ** 31 - 1);

/** Calls `run` after `ms`. The timer does not keep the process alive. The result cancels it. */
export function unrefTimeout(run: () => void, ms: number): () => void {
  const timer: unknown = setTimeout(run, within(ms));
  const { Deno } = globalThis as { Deno?: { unrefTimer(id: number): void } };
  if (typeof timer === "object") (timer as { unref?(): void }).unref?.();
  else Deno?.unrefTimer(timer as number);
  return () => clearTimeout(timer as number);
}

const listening = new WeakMap<AbortSignal, Set<() => void>>();

/** Calls `run` when `signal` aborts. All calls have one listener of it, since Node.js warns of many. The result cancels it. */
export function onAbort(signal: AbortSignal | undefined, run: () => void): () => void {
  if (!signal) return () => {};
  const mine = (): void => run();
  let all = listening.get(signal);
  if (!all) {
    const callbacks = (all = new Set());
    listening.set(signal, all);
    signal.addEventListener("abort", () => callbacks.forEach((callback) => callback()), { once: true });
  }
  if (signal.aborted) mine();
  else all.add(mine);
  return () => all.delete(mine);
}

/** A signal that aborts with any of `signals`, or after `ms`. `unlink` must be called. */
export function linked(ms: number, ...signals: (AbortSignal | undefined)[]): { signal: AbortSignal; unlink: () => void } {
  const controller = new AbortController();
  const abort = (): void => controller.abort(signals.find((s) => s?.aborted)?.reason);
  const timer = ms === Infinity ? undefined : setTimeout(abort, within(ms));
  const cancels = signals.map((signal) => onAbort(signal, abort));
  const unlink = (): void => {
    clearTimeout(timer);
    for (const cancel of cancels) cancel();
  };
  return { signal: controller.signal, unlink };
}

/**
 * Settles as `promise` does, or rejects when `signal` aborts. Node's fetch holds its signal by weak references, which a
 * collection of garbage clears while an answer arrives.
 */
export async function raced<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  let unlink = (): void => {};
  const aborted = new Promise<never>((_, reject) => (unlink = onAbort(signal, () => reject(signal.reason))));
  return Promise.race([promise, aborted]).finally(() => unlink());
}

/** Resolves with `promise`, or after `ms`. It rejects with the reason of `signal` if that aborts first. */
export async function settled(promise: Promise<unknown>, ms: number, signal?: AbortSignal): Promise<void> {
  const { signal: over, unlink } = linked(ms, signal);
  const end = new Promise<void>((resolve) => onAbort(over, resolve));
  await Promise.race([promise, end]).finally(unlink);
  signal?.throwIfAborted();
}

/** Resolves after `ms`, and rejects with the reason of `signal` if that aborts first. */
export const sleep = (ms: number, signal?: AbortSignal): Promise<void> => settled(new Promise(() => {}), ms, signal);
