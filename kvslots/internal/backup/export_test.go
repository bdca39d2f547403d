package backup

import (
	"context"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Interrupted is a Restore that stops after the first writes to the new stream.
func Interrupted(ctx context.Context, nc *nats.Conn, b *Backup, writes int) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	r := newRestore(nc, js, b, Options{Replace: true})
	if err := r.newStream(ctx); err != nil {
		return err
	}
	p := newPlan(b, r.now)
	p.untimed, p.leases = p.untimed[:writes], nil
	return r.write(ctx, p)
}
