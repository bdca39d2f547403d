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

// DumpAcross is a Dump that does something else before it reads the stream. It reads at
// least so many entries after the barrier.
func DumpAcross(ctx context.Context, nc *nats.Conn, more uint64, do func()) error {
	d, err := beginDump(ctx, nc)
	if err != nil {
		return err
	}
	do()
	d.barrier += more
	_, err = d.finish(ctx)
	return err
}

// AddSeeds and Fuzzed are those of FuzzPlan.
var (
	AddSeeds = addSeeds
	Fuzzed   = fuzzed
)
