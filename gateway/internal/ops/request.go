package ops

import (
	"errors"
	"iter"

	"github.com/kvslots/kvslots/kvslots/wire"
)

// Request is what a transport knows of a request, beside its parameters.
type Request interface {
	// Remote returns the address and port of the client, for Lending.Waits; "" if they are unknown.
	Remote() string

	// Origins iterates over the origins of which the client has one, for the caps on its
	// pools, sessions and locks; see Origin. The call is refused as busy if there is none. A
	// step may take some milliseconds.
	Origins() iter.Seq[string]

	Trace() Trace

	// HungUp reports whether the client has certainly gone. The call may take some milliseconds.
	HungUp() bool
}

// fromOrigin calls do with an origin of the client. If that origin has reached its cap, so
// that do returns the error full, fromOrigin tries the next one.
func (c *Call) fromOrigin(full error, do func(origin string) error) error {
	err := wire.ErrBusy
	for origin := range c.Origins() {
		if err = do(origin); !errors.Is(err, full) {
			break
		}
	}
	return err
}
