package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/gateway"
	"github.com/kvslots/kvslots/gateway/natsapi"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/client"
	"github.com/kvslots/kvslots/kvslots/client/natsclient"
	"github.com/kvslots/kvslots/kvslots/logtest"
	"github.com/kvslots/kvslots/kvslots/natsstore"
	"github.com/kvslots/kvslots/natsembed"
)

// A program sends requests to gateways over NATS, without access to JetStream.
func Example_overNATS() {
	ctx := context.Background()
	at, stop, err := exampleGateway(ctx) // like "kvslots serve --nats-addr"
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()

	c, err := natsclient.Dial(ctx, at.nats, client.Config{}, nats.Name("my service"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	pool := uuid.New() // a secret
	if _, err := c.Register(ctx, pool, 4); err != nil {
		fmt.Println(err)
		return
	}
	lease, err := c.Borrow(ctx, pool, kvslots.WithWait(10*time.Second)) // renewed until it is returned
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("slot", lease.Position())
	fmt.Println(lease.Return(ctx))
	// Output:
	// slot 0
	// true <nil>
}

// The same over HTTP. A refusal is an error of package kvslots over either transport.
func ExampleDial() {
	ctx := context.Background()
	at, stop, err := exampleGateway(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()

	c, err := client.Dial(ctx, at.http, client.Config{Token: "what --auth-token-file holds"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	_, err = c.Borrow(ctx, uuid.New(), kvslots.WithWait(0))
	fmt.Println(errors.Is(err, kvslots.ErrNoPool), err)
	// Output:
	// true no such pool
}

// Work under a lock by name. Its context ends before the lock is lost.
func ExampleClient() {
	ctx := context.Background()
	at, stop, err := exampleGateway(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()

	c, err := client.Dial(ctx, at.http, client.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	session, err := kvslots.NewSession(ctx, c)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer session.Close(ctx)
	err = session.With(ctx, "deploy", func(ctx context.Context, fence uint64) error {
		fmt.Println("deployed with a fence:", fence > 0)
		return ctx.Err()
	})
	fmt.Println(err)
	// Output:
	// deployed with a fence: true
	// <nil>
}

// urls are the URLs of a gateway.
type urls struct{ nats, http string }

// exampleGateway runs an embedded server with a listener, and a gateway.
func exampleGateway(ctx context.Context) (at urls, stop func(), err error) {
	var undo []func()
	stop = func() {
		for i := len(undo) - 1; i >= 0; i-- {
			undo[i]()
		}
	}
	defer func() {
		if err != nil {
			stop()
		}
	}()
	dir, err := os.MkdirTemp("", "kvslots-")
	if err != nil {
		return at, nil, err
	}
	undo = append(undo, func() { os.RemoveAll(dir) })
	srv, err := natsembed.Start(ctx, natsembed.Config{DataDir: dir, Addr: "127.0.0.1:0"})
	if err != nil {
		return at, nil, err
	}
	undo = append(undo, func() { srv.Close() })
	bucket, err := srv.Connect()
	if err != nil {
		return at, nil, err
	}
	undo = append(undo, bucket.Close)
	clients, err := srv.ConnectService(nats.ReconnectBufSize(-1))
	if err != nil {
		return at, nil, err
	}
	undo = append(undo, clients.Close)
	store, err := natsstore.Open(ctx, bucket, kvslots.Config{})
	if err != nil {
		return at, nil, err
	}
	undo = append(undo, func() { store.Close(ctx) })
	lending, turns := gateway.NewLending(), gateway.NewTurns()
	service, err := natsapi.Start(clients, natsapi.Config{Pools: store, Sessions: store, Turns: turns, Lending: lending})
	if err != nil {
		return at, nil, err
	}
	undo = append(undo, func() { service.Close(ctx) })
	web := httptest.NewServer(gateway.New(gateway.Config{
		Store: store, Lending: lending,
		Dialects: []gateway.Dialect{
			gateway.NewLibrary(store, lending, logtest.Logger()),
			gateway.NewDflockd(store, gateway.DflockdConfig{Lending: lending, Turns: turns}),
		},
	}).Handler())
	undo = append(undo, web.Close)
	return urls{srv.ClientURL(), web.URL}, stop, nil
}
