package backup

import (
	"context"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Steps are the names of a restore's steps.
var Steps = []string{"begin", "check", "delete", "create", "write", "complete"}

// Begun is a Restore that has done its first steps, and goes on no further. It ends as a
// killed process does, when its connection is closed.
func Begun(ctx context.Context, nc *nats.Conn, b *Backup, steps int) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	for _, step := range newRestore(nc, js, b, Options{Replace: true}).steps()[:steps] {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}
