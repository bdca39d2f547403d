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
	"github.com/kvslots/kvslots/kvslots/natsstore"
	"github.com/kvslots/kvslots/natsembed"
)

// A pool of one slot is a lock with a lease and a fencing token. The server is embedded.
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

	store, err := natsstore.Open(ctx, nc, kvslots.Config{Embedded: srv})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = store.Close(ctx) }()

	pool := uuid.New() // a secret: every program that knows it may borrow
	if _, err := store.Register(ctx, pool, 1); err != nil {
		log.Fatal(err)
	}
	lease, err := store.Borrow(ctx, pool, kvslots.WithTTL(30*time.Second), kvslots.WithWait(5*time.Second))
	if err != nil {
		log.Fatal(err)
	}

	_, err = store.Borrow(ctx, pool, kvslots.WithWait(0))
	fmt.Println("position", lease.Position(), "and then:", errors.Unwrap(err)) // err says by whom it is taken
	fmt.Println("no slot:", errors.Is(err, kvslots.ErrNoSlot))

	returned, err := lease.Return(ctx)
	fmt.Println("returned:", returned, err)
	<-lease.Done()
	// Output:
	// position 0 and then: no resource available
	// no slot: true
	// returned: true <nil>
}

// A lock by name: the session and the lease are kept alive until the program ends.
func ExampleSession_Mutex() {
	ctx := context.Background()
	store, stop := exampleStore(ctx) // or a client.Client: see client.Dial
	defer stop()

	session, err := kvslots.NewSession(ctx, store)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = session.Close(ctx) }()
	deploy := session.Mutex("deploy")
	if err := deploy.Lock(ctx); err != nil {
		log.Fatal(err)
	}
	work, cancel := deploy.Context(ctx) // ends if the lock is lost
	defer cancel()
	fmt.Println("deploying:", work.Err() == nil, deploy.Fence() > 0)
	fmt.Println(deploy.Unlock(ctx))
	// Output:
	// deploying: true true
	// <nil>
}

// Candidates for one lock: the first one leads, and the next one when it resigns or is gone.
func ExampleElection() {
	ctx := context.Background()
	store, stop := exampleStore(ctx) // or a client.Client: see client.Dial
	defer stop()

	session, err := kvslots.NewSession(ctx, store)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = session.Close(ctx) }()
	election := kvslots.NewElection(session, store, "scheduler")
	if err := election.Campaign(ctx, "host7"); err != nil { // blocks until it is elected
		log.Fatal(err)
	}
	for leader, err := range election.Observe(ctx) { // any program may
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(leader.Label, "leads:", leader.Fence == election.Fence())
		break
	}
	work, cancel := election.Context(ctx) // ends if the leadership is lost
	defer cancel()
	fmt.Println("scheduling:", work.Err() == nil)
	fmt.Println(election.Resign(ctx))
	// Output:
	// host7 leads: true
	// scheduling: true
	// <nil>
}

func ExampleWith() {
	ctx := context.Background()
	store, stop := exampleStore(ctx)
	defer stop()

	accounts := uuid.New() // a pool of five test accounts
	if _, err := store.Register(ctx, accounts, 5); err != nil {
		log.Fatal(err)
	}
	err := kvslots.With(ctx, store, accounts, func(ctx context.Context, l *kvslots.Lease) error {
		fmt.Println("account", l.Position())
		return ctx.Err()
	})
	fmt.Println(err)
	// Output:
	// account 0
	// <nil>
}

func exampleStore(ctx context.Context) (*kvslots.Store, func()) {
	dir, err := os.MkdirTemp("", "kvslots")
	if err != nil {
		log.Fatal(err)
	}
	srv, err := natsembed.Start(ctx, natsembed.Config{DataDir: dir})
	if err != nil {
		log.Fatal(err)
	}
	nc, err := srv.Connect()
	if err != nil {
		log.Fatal(err)
	}
	store, err := natsstore.Open(ctx, nc, kvslots.Config{Embedded: srv})
	if err != nil {
		log.Fatal(err)
	}
	return store, func() {
		_ = store.Close(ctx)
		nc.Close()
		_ = srv.Close()
		_ = os.RemoveAll(dir)
	}
}
