package wire

// Names of headers. Over NATS, Authorization and Retry-After have the same meaning as
// over HTTP.
const (
	// RequestHeader on a borrow, or on a request for a lock or a semaphore, is an
	// id with which a message to subjects.Cancel can end the request: 1 to 64
	// characters that other clients cannot guess. A client uses each id once.
	RequestHeader = "Kvslots-Request"

	// ConfirmHeader on a borrow, or on a request for a lock or a semaphore, has the
	// value 1: the client will confirm the grant. On an answer it is the number of
	// milliseconds within which the client must confirm the grant, by an empty
	// request to the answer's reply subject. The client holds the grant once that
	// request is answered without an error.
	ConfirmHeader = "Kvslots-Confirm"

	// WaitedHeader on the answer to a borrow or a renewal is the time from the
	// arrival of the request to the beginning of the lease's time, in
	// milliseconds.
	WaitedHeader = "Kvslots-Waited"

	// ErrorHeader on a refusal is its Status.Name. The Forrst server's own refusals
	// have a code in the body instead.
	ErrorHeader = "Kvslots-Error"

	// FieldHeader and RangeHeader on a refusal of an argument are the Field and the
	// Range of its kvslots.RangeError.
	FieldHeader = "Kvslots-Field"
	RangeHeader = "Kvslots-Range"

	// CauseHeader on a refusal with the name not_held is why the lease has ended, if that is known: "expired" or
	// "evicted".
	CauseHeader = "Kvslots-Cause"

	// SessionHeader is the session's id on requests of /v1 for locks and semaphores.
	SessionHeader = "X-Dflockd-Session"

	// PoolHeader is the pool's id on requests whose path has PoolInHeader in its place.
	PoolHeader = "Kvslots-Pool"

	// WaitHeader is, on the answer to a request that may wait, the longest time in whole
	// seconds that the gateway grants of the wait that the client asked for.
	WaitHeader = "Kvslots-Wait"

	// LeaseHeader is the lease's id, or the token of a lock or a semaphore, on the request of its holder whether it still has it.
	LeaseHeader = "Kvslots-Lease"

	// PlaceHeader on the answer to a request that was granted nothing is the place in line,
	// from 1, that it had when its wait was over, or would have got without a wait.
	PlaceHeader = "Kvslots-Place"

	// TakenHeader on such an answer is a Taken.
	TakenHeader = "Kvslots-Taken"

	// RequestKeyHeader is the request key of a request that may be repeated: see
	// kvslots.WithRequestKey. Over NATS it is a header, too.
	RequestKeyHeader = "Idempotency-Key"

	// AuthorizationHeader is "Bearer " and the token of a gateway that requires one.
	AuthorizationHeader = "Authorization"

	// RequestIDHeader is the id of a request in logs: 1 to 64 letters, digits, and
	// characters of "-_.". The answer has it, too.
	RequestIDHeader = "X-Request-Id"

	// TraceHeader is the header traceparent of W3C Trace Context, as net/http spells it.
	// TraceHeaderNATS is its spelling over NATS, where case matters.
	TraceHeader     = "Traceparent"
	TraceHeaderNATS = "traceparent"

	// RetryAfterHeader on a refusal is the number of seconds after which to try again.
	RetryAfterHeader = "Retry-After"

	// StoreHeader on every answer is the id of the gateway's store: gateways with two ids are two stores, whose
	// locks are not the same.
	StoreHeader = "Kvslots-Store"

	// FenceHeader on a request to a function that runs under a lock of Forrst is the
	// lock's fencing token, and LockEndsInHeader the remaining time of the lock in
	// milliseconds when the request was sent.
	FenceHeader      = "Kvslots-Fence"
	LockEndsInHeader = "Kvslots-Lock-Ends-In"
)
