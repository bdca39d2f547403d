package forrst_test

import (
	"context"
	"fmt"
	"log"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/kvslots/kvslots/gateway"
	"github.com/kvslots/kvslots/gateway/forrst"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/natsstore"
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
	store, err := natsstore.Open(ctx, nc, kvslots.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close(ctx)

	forrst.Handle("greetings.hello", func(_ context.Context, call forrst.Call) (any, error) {
		return map[string]string{"held": call.Lock.FullKey}, nil
	})
	lending := gateway.NewLending()
	server := forrst.New(store, forrst.Config{Lending: lending})
	defer server.Close(ctx)

	gw := gateway.New(gateway.Config{Store: store, Lending: lending, Dialects: []gateway.Dialect{server}})
	answer := httptest.NewRecorder()
	gw.Handler().ServeHTTP(answer, httptest.NewRequest("POST", "/rpc", strings.NewReader(`{
		"protocol": {"name": "forrst", "version": "0.1.0"}, "id": "1",
		"call": {"function": "greetings.hello"},
		"extensions": [{"urn": "urn:forrst:ext:atomicLock", "options": {"key": "k", "ttl": {"value": 30, "unit": "second"}}}]
	}`)))
	fmt.Printf("%d %.99s\n", answer.Code, answer.Body)
	// Output: 200 {"protocol":{"name":"forrst","version":"0.1.0"},"id":"1","result":{"held":"lock:greetings.hello:k"}
}
