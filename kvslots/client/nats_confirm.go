package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire"
	"github.com/kvslots/kvslots/kvslots/wire/subjects"
)

// confirmTimeout bounds the wait for the answer to a confirmation, which a
// gateway gives at once. Without one the grant is given up.
const confirmTimeout = 5 * time.Second

// nameGrant gives a request the name by which it can be cancelled, and says in it that
// its grant will be confirmed, so that the gateway hands the slot over without waiting
// to see whether this client has died. Until the confirmation is answered, the client
// has to stay subscribed to its inbox; a connection with nats.UseOldRequestStyle does
// not.
func (n *overNATS) nameGrant(m *nats.Msg) (name string) {
	name = uuid.NewString()
	m.Header = nats.Header{wire.RequestHeader: {name}}
	if !n.nc.Opts.UseOldRequestStyle {
		m.Header.Set(wire.ConfirmHeader, "1")
	}
	return name
}

// confirm confirms a grant, if the gateway asks for it. Only after it has returned nil
// does this client hold what was granted: the gateway takes back a grant that was not
// confirmed in time, and then refuses the confirmation. The errors are ErrUnavailable,
// ErrNotUnderstood and what ctx ends with; after each the caller has to give up the
// grant.
func (n *overNATS) confirm(ctx context.Context, grant *nats.Msg) error {
	if grant.Header.Get(wire.ConfirmHeader) == "" {
		return nil
	}
	if !strings.HasPrefix(grant.Reply, subjects.Confirm) && !strings.HasPrefix(grant.Reply, subjects.Import+".") {
		return ErrNotUnderstood
	}
	ctx, cancel := context.WithTimeoutCause(ctx, confirmTimeout,
		fmt.Errorf("%w: the grant could not be confirmed", kvslots.ErrUnavailable))
	defer cancel()
	_, err := n.send(ctx, &nats.Msg{Subject: grant.Reply}, request{})
	if _, refused := errors.AsType[*wire.Refusal](err); refused {
		return fmt.Errorf("%w: the grant was not confirmed in time", kvslots.ErrUnavailable)
	}
	return err
}
