package natsembed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"github.com/nats-io/nats.go/jetstream"
)

// victimDir is the environment variable that makes this test binary a server to be killed.
// Its value is the data directory.
const victimDir = "NATSEMBED_VICTIM"

// victimTask is an environment variable with the name of a task that runTask does instead.
const victimTask = "NATSEMBED_TASK"

// runTask runs a task of a traced process, where processes are traced.
var runTask func(dir, task string)

const (
	startingLine = "starting"
	readyLine    = "ready"
	victimKeys   = 450 // with records of maxRecord bytes: several blocks
)

// runVictim starts a server that ends when it is killed. In an empty directory, it writes
// records, flushes them, and writes them once more without a flush.
func runVictim(dir string) {
	fmt.Println(startingLine)
	var hang atomic.Bool
	srv, err := start(context.Background(), Config{DataDir: dir, Sync: SyncGroup}, func(f *os.File) error {
		if hang.Load() {
			select {}
		}
		return f.Sync()
	})
	if err == nil {
		err = fillVictim(srv, &hang)
	}
	fmt.Println(readyLine, err)
	select {}
}

func fillVictim(srv *Server, hang *atomic.Bool) error {
	js, err := srv.jetStream()
	if err != nil {
		return err
	}
	_, err = js.CreateStream(context.Background(), bucketLike)
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return nil
	}
	for err == nil {
		for i := range victimKeys {
			if _, err := js.Publish(context.Background(), fmt.Sprintf("s.%d", i), make([]byte, maxRecord)); err != nil {
				return err
			}
		}
		if hang.Load() {
			return nil
		}
		done := make(chan error, 1)
		srv.Flusher().Durable(func(err error) { done <- err })
		err = <-done
		hang.Store(true)
	}
	return err
}
