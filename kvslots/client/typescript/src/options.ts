/** Options of the calls that take a slot or a lock. */
export interface TakeOptions {
  /** Seconds until the lease ends if it is not renewed, such as when the process has died: at most a day. By default 60. */
  ttl?: number | undefined;
  /** Seconds to wait for a turn; 0 means not at all. By default, or with null, the call waits until `signal` aborts. */
  wait?: number | null | undefined;
  /** Says who asks, such as `ci@build7:1234 make`, to those who look at holders() and line(): up to 64 printable characters. By default that of the client. */
  label?: string | undefined;
  /** Ends the wait. With `using`, the signal of the body aborts with it, too. */
  signal?: AbortSignal | undefined;
}

/** Of a lease, in seconds; it survives a restart of its gateway. */
const DEFAULT_TTL = 60;

/** In seconds. A longer ttl is one in milliseconds. */
const LONGEST_TTL = 86_400;

/** The ttl of TakeOptions as the gateways take it. */
export function wholeSeconds(ttl = DEFAULT_TTL): number {
  if (!(ttl > 0 && ttl <= LONGEST_TTL)) throw new RangeError(`ttl must be a number of seconds above 0, and at most ${LONGEST_TTL}, which is a day`);
  return Math.ceil(ttl);
}

/** T, of which no option is null. */
type Given<T> = { [name in keyof T]: Exclude<T[name], null> };

/** Returns the options that are given, which null is not, and throws if one is not known, which is mistyped. */
export function known<T extends object>(options: T, ...names: (keyof T & string)[]): Given<T> {
  const unknown = Object.keys(options).find((name) => !(names as string[]).includes(name));
  if (unknown !== undefined) throw new TypeError(`there is no option ${unknown}, but ${names.join(", ")}`);
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== null)) as Given<T>;
}

export const takeOptions = (options: TakeOptions): Given<TakeOptions> => known(options, "ttl", "wait", "label", "signal");
