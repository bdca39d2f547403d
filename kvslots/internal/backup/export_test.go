package backup

import (
	"context"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Steps are the names of a restore's steps.
var Steps = []string{"check", "delete", "create", "write", "complete"}

// Begun is a Restore that has done its first steps, and goes on with the others after between, unless it fails.
func Begun(ctx context.Context, nc *nats.Conn, b *Backup, steps int, between func() error) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	all := newRestore(nc, js, b, Options{Replace: true}).steps()
	for i, step := range all {
		if i == steps {
			if err := between(); err != nil {
				return err
			}
		}
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
