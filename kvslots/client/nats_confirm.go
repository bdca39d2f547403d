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

// confirmTimeout bounds the wait for the answer to a confirmation, which a gateway
// sends at once. Without an answer the client gives up the grant.
const confirmTimeout = 5 * time.Second

// nameGrant gives a request an id by which it can be canceled. It also promises that
// the client will confirm the grant, so that the gateway grants the slot without first
// checking that the client is alive. For that the client has to stay subscribed to its
// inbox until the confirmation is answered, which a connection with
// nats.UseOldRequestStyle does not.
func (n *natsTransport) nameGrant(m *nats.Msg) (name string) {
	name = uuid.NewString()
	m.Header = nats.Header{wire.RequestHeader: {name}}
	if !n.nc.Opts.UseOldRequestStyle {
		m.Header.Set(wire.ConfirmHeader, "1")
	}
	return name
}

// confirm confirms a grant, if the gateway asks for it. The client holds the grant only
// after confirm has returned nil: the gateway takes back a grant that was not confirmed
// in time, and then refuses the confirmation. The errors are ErrUnavailable,
// ErrNotUnderstood and the cause of ctx. After each of them the caller must give up the
// grant.
func (n *natsTransport) confirm(ctx context.Context, grant *nats.Msg) error {
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
