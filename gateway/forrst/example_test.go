package forrst_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/kvslots/kvslots/gateway"
	"github.com/kvslots/kvslots/gateway/forrst"
	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/natsembed"
)

func Example() {
	dir, err := os.MkdirTemp("", "kvslots")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	nats, err := natsembed.Start(ctx, natsembed.Config{DataDir: dir})
	if err != nil {
		log.Fatal(err)
	}
	defer nats.Close()
	nc, err := nats.Connect()
	if err != nil {
		log.Fatal(err)
	}
	defer nc.Close()
	store, err := kvslots.Open(ctx, nc, kvslots.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close(ctx)

	forrst.Handle("greetings.hello", func(_ context.Context, call forrst.Call) (any, error) {
		return map[string]string{"held": call.Lock.FullKey}, nil
	})
	server := forrst.New(store, forrst.Config{Lending: gateway.NewLending()}) // pass it to gateway.Config.Dialects
	defer server.Close(ctx)

	status, _, answer := server.Call(ctx, ctx, []byte(`{
		"protocol": {"name": "forrst", "version": "0.1.0"}, "id": "1",
		"call": {"function": "greetings.hello"},
		"extensions": [{"urn": "urn:forrst:ext:atomicLock", "options": {"key": "k", "ttl": {"value": 30, "unit": "second"}}}]
	}`), "", ops.Trace{}, nil, nil)
	fmt.Printf("%d %.99s\n", status, answer)
	// Output: 200 {"protocol":{"name":"forrst","version":"0.1.0"},"id":"1","result":{"held":"lock:greetings.hello:k"}
}
