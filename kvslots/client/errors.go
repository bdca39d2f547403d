package client

import (
	"errors"
	"fmt"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/client/internal/transport"
)

// ErrNotUnderstood is returned when an answer is not that of a gateway.
var ErrNotUnderstood = transport.ErrNotUnderstood

// ErrTLS is returned when a URL has the scheme http and the server expects TLS, ErrNoTLS when it has
// the scheme https and the server does not speak TLS.
var (
	ErrTLS   = errors.New("the server expects TLS, so its URL begins with https://")
	ErrNoTLS = errors.New("the server does not speak TLS, so its URL begins with http://")
)

// ErrTwoStores is returned when two addresses of the client have answered with two stores, by the header Kvslots-Store.
// What the second one has granted was given back. The error's text names both addresses.
var ErrTwoStores = transport.ErrTwoStores

// Unanswered is the error of a request that no gateway has answered, although one may
// have received it. A repeated request may be answered. It wraps
// kvslots.ErrUnavailable.
type Unanswered struct{ Err error }

func (e *Unanswered) Error() string { return e.Err.Error() }

func (e *Unanswered) Unwrap() []error { return []error{kvslots.ErrUnavailable, e.Err} }

// ErrAnswerTimeout is returned when no gateway has answered in time.
var ErrAnswerTimeout = &Unanswered{errors.New("no gateway answered in time")}

// ErrUnconfirmed is returned when a grant could not be confirmed over NATS, and the client has given it
// up. Another request for it must have another request key. It wraps kvslots.ErrUnavailable.
var ErrUnconfirmed = fmt.Errorf("%w: the grant could not be confirmed", kvslots.ErrUnavailable)
