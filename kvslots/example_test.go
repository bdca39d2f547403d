package kvslots_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/natsembed"
)

// A pool of one slot is a lock with a lease and a fencing token.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "kvslots")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	srv, err := natsembed.Start(ctx, natsembed.Config{DataDir: dir}) // or any NATS with JetStream
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = srv.Close() }()
	nc, err := srv.Connect()
	if err != nil {
		log.Fatal(err)
	}
	defer nc.Close()

	store, err := kvslots.Open(ctx, nc, kvslots.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = store.Close(ctx) }()

	pool := uuid.New() // a secret: every program that knows it may borrow
	if _, err := store.Register(ctx, pool, 1); err != nil {
		log.Fatal(err)
	}
	lease, err := store.Borrow(ctx, pool, 30*time.Second, 5*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	defer lease.KeepAlive(ctx)()

	_, err = store.Borrow(ctx, pool, 30*time.Second, 0)
	fmt.Println("position", lease.Position(), "and then:", err)
	fmt.Println("no slot:", errors.Is(err, kvslots.ErrNoSlot))

	returned, err := lease.Return(ctx)
	fmt.Println("returned:", returned, err)
	<-lease.Done()
	// Output:
	// position 0 and then: no resource available
	// no slot: true
	// returned: true <nil>
}
