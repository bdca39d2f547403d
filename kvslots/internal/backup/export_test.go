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
	r := &restore{nc: nc, js: js, backup: b, options: Options{Replace: true}, fence: b.Revision}
	if err := r.newStream(ctx); err != nil {
		return err
	}
	p := newPlan(b, r.now)
	p.steady, p.leases = p.steady[:writes], nil
	return r.write(ctx, p)
}
