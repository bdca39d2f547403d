package backup

import (
	"context"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Interrupted does what Restore does until it has written the first writes of the new
// stream.
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
	p.steady, p.leases = p.steady[:writes], nil
	return r.write(ctx, p)
}
