package client_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/gateway"
	"github.com/kvslots/kvslots/gateway/natsapi"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/client"
	"github.com/kvslots/kvslots/natsembed"
)

// A service asks a gateway over NATS; it sees nothing of JetStream.
func ExampleDial() {
	ctx := context.Background()
	url, stop, err := exampleGateway(ctx) // what "kvslots serve --nats-addr" runs
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()

	nc, err := nats.Connect(url)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer nc.Close()
	c := client.Dial(nc)

	pool := uuid.New() // keep it as you would a password
	if _, err := c.Register(ctx, pool, 4); err != nil {
		fmt.Println(err)
		return
	}
	lease, err := c.Borrow(ctx, pool, 30*time.Second, 10*time.Second)
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

// exampleGateway runs an embedded server with a listener, and the service on it.
func exampleGateway(ctx context.Context) (url string, stop func(), err error) {
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
		return "", nil, err
	}
	undo = append(undo, func() { os.RemoveAll(dir) })
	srv, err := natsembed.Start(ctx, natsembed.Config{DataDir: dir, Addr: "127.0.0.1:0"})
	if err != nil {
		return "", nil, err
	}
	undo = append(undo, func() { srv.Close() })
	bucket, err := srv.Connect()
	if err != nil {
		return "", nil, err
	}
	undo = append(undo, bucket.Close)
	clients, err := srv.ConnectService(nats.ReconnectBufSize(-1))
	if err != nil {
		return "", nil, err
	}
	undo = append(undo, clients.Close)
	store, err := kvslots.Open(ctx, bucket, kvslots.Config{})
	if err != nil {
		return "", nil, err
	}
	undo = append(undo, func() { store.Close(ctx) })
	service, err := natsapi.Start(clients, natsapi.Config{Pools: store, Lending: gateway.NewLending()})
	if err != nil {
		return "", nil, err
	}
	undo = append(undo, func() { service.Close(ctx) })
	return srv.ClientURL(), stop, nil
}
