package wire

// The names of headers that requests and answers may have beside those of HTTP and
// of micro services. Over NATS the headers Authorization and Retry-After mean what
// they mean over HTTP.
const (
	// RequestHeader names a borrow, or what may be granted a lock or a
	// semaphore, so that kvslots.cancel can end it: 1 to 64 characters that
	// nobody else can guess, used once.
	RequestHeader = "Kvslots-Request"

	// ConfirmHeader on a borrow, or on what may be granted a lock or a
	// semaphore, has the value 1: the requester will confirm. On an answer it
	// says that this one has to be confirmed, and within how many milliseconds:
	// by an empty request to the answer's reply subject. The grant is held when
	// that request has been answered without an error.
	ConfirmHeader = "Kvslots-Confirm"

	// WaitedHeader stands on the answer to a borrow and a renewal of a pool: the
	// milliseconds from the request's arrival to the instant that the
	// lease's time is counted from.
	WaitedHeader = "Kvslots-Waited"

	// ErrorHeader stands on every refusal, and has its Status.Name.
	ErrorHeader = "Kvslots-Error"

	// SessionHeader carries the session's id on requests of /v1 for locks and
	// semaphores.
	SessionHeader = "X-Dflockd-Session"

	AuthorizationHeader = "Authorization"
	RetryAfterHeader    = "Retry-After" // seconds
)
