package cosmo_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/cosmo"
	"github.com/kvslots/kvslots/natsembed"
)

// sendMail is a job of which two may run at once, counting those of Ruby workers.
func sendMail(ctx context.Context, nc *nats.Conn, jid string) error {
	limiter, err := cosmo.New(ctx, nc, cosmo.Config{})
	if err != nil {
		return err
	}
	slot, err := limiter.Acquire(ctx, "send_mail_job", jid, 2, 30*time.Second)
	if errors.Is(err, kvslots.ErrNoSlot) {
		return fmt.Errorf("put the job back: %w", err)
	}
	if err != nil {
		return err
	}
	defer limiter.Release(ctx, slot) // an error may be ignored: the duration frees the slot, too
	// … at most 30 seconds of work …
	fmt.Println(jid, "runs in", slot.Key)
	return nil
}

func ExampleLimiter() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	server, err := natsembed.Start(context.Background(), natsembed.Config{DataDir: dir})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	nc, err := server.Connect() // or nats.Connect, to the NATS that Cosmo uses
	if err != nil {
		log.Fatal(err)
	}
	defer nc.Close()

	if err := sendMail(context.Background(), nc, "job-1"); err != nil {
		log.Print(err)
	}
	// Output: job-1 runs in send_mail_job/0
}
