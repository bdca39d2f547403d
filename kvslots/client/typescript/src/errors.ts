/** The base of all errors of this client. */
export class KvslotsError extends Error {
  override name = "KvslotsError";
}

/** No gateway has answered, although one may have received the request. */
export class UnreachableError extends KvslotsError {
  override name = "UnreachableError";
  /** Whether repeating the request will not help: a certificate is refused, or the server is no gateway. */
  readonly permanent: boolean;
  constructor(message: string, permanent = false) {
    super(message);
    this.permanent = permanent;
  }
}

/** Two addresses of the client are of gateways with two stores, whose locks are not the same: its configuration is wrong. What the second one has granted was given back. */
export class TwoStoresError extends KvslotsError {
  override name = "TwoStoresError";
}

/** Why a lease was lost. */
export type LossReason = "gateway_unreachable" | "lease_gone" | "session_gone";

/** The lease ended, or may end within a moment, while it was held. `cause` is the error behind it, if there is one. */
export class LeaseLostError extends KvslotsError {
  override name = "LeaseLostError";
  readonly reason: LossReason;
  constructor(reason: LossReason, message: string, cause?: unknown) {
    super(message, { cause });
    this.reason = reason;
  }
}

/** What a gateway, or a proxy before it, says about a request that it refuses. */
export interface Refusal {
  status: number;
  /** The header Kvslots-Error. For an answer without it, as that of a proxy: unavailable, rate_limited or unexpected. */
  code: string;
  /** Seconds after which to try again. */
  retryAfter?: number | undefined;
  /** The argument that is out of range, and its range in words. */
  field?: string | undefined;
  range?: string | undefined;
  /** The place in line, from 1, that a call had that was granted nothing, or would have got. */
  place?: number | undefined;
  /** Why it was granted nothing, if the gateway knows it. */
  taken?: Taken | undefined;
  /** Of a NotHeldError: "expired" or "evicted", if the gateway knows how the lease has ended. */
  cause?: unknown;
}

/** Of a NoSlotError or a LimitMismatchError: who has what was asked for. */
export interface Taken {
  /** The label of the lease at the lowest position, and for how many seconds it has been held. */
  heldBy?: string;
  heldFor?: number;
  /** Whether an operator has taken it out of service, and why. */
  paused?: boolean;
  pauseReason?: string;
  /** Of a LimitMismatchError: the limit that is in use. Without it a lock is. */
  limit?: number;
}

/** The message of a refusal, with why nothing was granted, if that is known. */
function explained(message: string, { code, place, taken }: Refusal): string {
  if (!taken) return message;
  const { paused, pauseReason, heldBy, heldFor } = taken;
  const pause = pauseReason ? `paused: ${pauseReason}` : "paused";
  const held = heldBy || heldFor !== undefined ? `taken by ${heldBy || "an unnamed holder"}, for ${duration(heldFor ?? 0)}` : "";
  const why = paused ? pause : held;
  if (!why) return message;
  return code === "no_slot" ? why + (place ? `; place ${place}` : "") : `${message}: ${why}`;
}

function duration(seconds: number): string {
  if (seconds >= 3600) return `${Math.floor(seconds / 3600)} h`;
  return seconds >= 60 ? `${Math.floor(seconds / 60)} min` : `${Math.floor(seconds)} s`;
}

/** A gateway has refused the request. Each code of the header Kvslots-Error has a subclass. */
export class RefusedError extends KvslotsError implements Refusal {
  override name = "RefusedError";
  readonly status: number;
  readonly code: string;
  readonly retryAfter?: number | undefined;
  readonly field?: string | undefined;
  readonly range?: string | undefined;
  readonly place?: number | undefined;
  readonly taken?: Taken | undefined;
  constructor(message: string, refusal: Refusal) {
    super(explained(message, refusal), refusal.cause === undefined ? undefined : { cause: refusal.cause });
    ({ status: this.status, code: this.code, retryAfter: this.retryAfter, field: this.field, range: this.range, place: this.place, taken: this.taken } = refusal);
  }
}

export class BadRequestError extends RefusedError { override name = "BadRequestError"; }
export class UnauthorizedError extends RefusedError { override name = "UnauthorizedError"; }
export class ForbiddenError extends RefusedError { override name = "ForbiddenError"; }
export class ReadOnlyError extends RefusedError { override name = "ReadOnlyError"; }
export class NotFoundError extends RefusedError { override name = "NotFoundError"; }
export class MethodNotAllowedError extends RefusedError { override name = "MethodNotAllowedError"; }
export class RateLimitedError extends RefusedError { override name = "RateLimitedError"; }
export class InternalError extends RefusedError { override name = "InternalError"; }
export class UnavailableError extends RefusedError { override name = "UnavailableError"; }
export class DrainingError extends RefusedError { override name = "DrainingError"; }
export class ClientCanceledError extends RefusedError { override name = "ClientCanceledError"; }
export class NoPoolError extends RefusedError { override name = "NoPoolError"; }
/** The lease has ended. Its `cause` is "expired" or "evicted", if the gateway knows it. */
export class NotHeldError extends RefusedError { override name = "NotHeldError"; }
export class NoPositionError extends RefusedError { override name = "NoPositionError"; }
export class OtherHolderError extends RefusedError { override name = "OtherHolderError"; }
export class NotInLineError extends RefusedError { override name = "NotInLineError"; }
/** No slot was granted within the wait. */
export class NoSlotError extends RefusedError { override name = "NoSlotError"; }
export class SessionGoneError extends RefusedError { override name = "SessionGoneError"; }
export class LimitMismatchError extends RefusedError { override name = "LimitMismatchError"; }
export class KeyReusedError extends RefusedError { override name = "KeyReusedError"; }
export class AlreadyEnqueuedError extends RefusedError { override name = "AlreadyEnqueuedError"; }
export class NotEnqueuedError extends RefusedError { override name = "NotEnqueuedError"; }
export class LeaseExpiredError extends RefusedError { override name = "LeaseExpiredError"; }
export class MaxPoolsError extends RefusedError { override name = "MaxPoolsError"; }
export class MaxLocksError extends RefusedError { override name = "MaxLocksError"; }
export class MaxWaitersError extends RefusedError { override name = "MaxWaitersError"; }
export class MaxWaitersTotalError extends RefusedError { override name = "MaxWaitersTotalError"; }
export class MaxWaitersPerIpError extends RefusedError { override name = "MaxWaitersPerIpError"; }
export class MaxSessionsError extends RefusedError { override name = "MaxSessionsError"; }
export class MaxSessionsPerIpError extends RefusedError { override name = "MaxSessionsPerIpError"; }
export class MaxConnectionsError extends RefusedError { override name = "MaxConnectionsError"; }
export class MaxConnectionsPerIpError extends RefusedError { override name = "MaxConnectionsPerIpError"; }
export class MaxLocksPerSessionError extends RefusedError { override name = "MaxLocksPerSessionError"; }
export class MaxLocksPerIpError extends RefusedError { override name = "MaxLocksPerIpError"; }
export class MaxTombstonesError extends RefusedError { override name = "MaxTombstonesError"; }
export class MaxEventStreamsError extends RefusedError { override name = "MaxEventStreamsError"; }
export class MaxEventStreamsPerIpError extends RefusedError { override name = "MaxEventStreamsPerIpError"; }
export class StoreFullError extends RefusedError { override name = "StoreFullError"; }

/** The class for each code of the header Kvslots-Error. */
export const errorClasses: Readonly<Record<string, typeof RefusedError>> = {
  bad_request: BadRequestError,
  unauthorized: UnauthorizedError,
  forbidden: ForbiddenError,
  read_only: ReadOnlyError,
  not_found: NotFoundError,
  method_not_allowed: MethodNotAllowedError,
  rate_limited: RateLimitedError,
  internal_error: InternalError,
  unavailable: UnavailableError,
  draining: DrainingError,
  client_canceled: ClientCanceledError,
  no_pool: NoPoolError,
  not_held: NotHeldError,
  no_position: NoPositionError,
  other_holder: OtherHolderError,
  not_in_line: NotInLineError,
  no_slot: NoSlotError,
  session_gone: SessionGoneError,
  limit_mismatch: LimitMismatchError,
  key_reused: KeyReusedError,
  already_enqueued: AlreadyEnqueuedError,
  not_enqueued: NotEnqueuedError,
  lease_expired: LeaseExpiredError,
  max_pools: MaxPoolsError,
  max_locks: MaxLocksError,
  max_waiters: MaxWaitersError,
  max_waiters_total: MaxWaitersTotalError,
  max_waiters_per_ip: MaxWaitersPerIpError,
  max_sessions: MaxSessionsError,
  max_sessions_per_ip: MaxSessionsPerIpError,
  max_connections: MaxConnectionsError,
  max_connections_per_ip: MaxConnectionsPerIpError,
  max_locks_per_session: MaxLocksPerSessionError,
  max_locks_per_ip: MaxLocksPerIpError,
  max_tombstones: MaxTombstonesError,
  max_event_streams: MaxEventStreamsError,
  max_event_streams_per_ip: MaxEventStreamsPerIpError,
  store_full: StoreFullError,
};

/** Whether the same request may succeed later, although it was refused or not answered. */
export function isTemporary(error: unknown): boolean {
  if (error instanceof UnreachableError) return !error.permanent;
  if (!(error instanceof RefusedError)) return false;
  const may = [408, 429, 499, 502, 503, 504].includes(error.status);
  // The others are limits: whether they may be gone soon, only Retry-After says.
  const failure = ["unavailable", "draining", "rate_limited", "client_canceled"].includes(error.code);
  return may && (failure || error.retryAfter !== undefined);
}
