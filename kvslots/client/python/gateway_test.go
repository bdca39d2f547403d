package python_test

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/gateway"
	"github.com/kvslots/kvslots/gateway/events"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/logtest"
	"github.com/kvslots/kvslots/kvslots/natsstore"
)

// asGateway makes the test program serve as a gateway, with the flags of serve.
const asGateway = "KVSLOTS_TEST_AS_GATEWAY"

// kept is how long a gateway keeps the place of a client that has gone: longer than any test, so that
// a place that is free was given up.
const kept = 10 * time.Minute

// serve is a gateway in a process that tests in Python kill and stop. It prints the address of its
// listener, and ends with its standard input, which is when the test has ended.
func serve() error {
	addr := flag.String("http-addr", "127.0.0.1:0", "")
	natsURL := flag.String("nats-url", "", "")
	maxWait := flag.Duration("max-wait", 0, "")
	idle := flag.Duration("http-session-idle-timeout", 0, "")
	maxIdle := flag.Duration("max-session-idle", 0, "")
	cert, key := flag.String("tls-cert", "", ""), flag.String("tls-key", "", "")
	token := flag.String("auth-token", "", "")
	flag.Parse()

	nc, err := nats.Connect(*natsURL)
	if err != nil {
		return err
	}
	store, err := natsstore.Open(context.Background(), nc, kvslots.Config{
		ResumeGrace: kept, Logger: logtest.Logger(),
	})
	if err != nil {
		return err
	}
	lending := gateway.NewLending()
	lending.MaxWait = *maxWait
	streams := events.New(store, events.Config{Lending: lending, Logger: logtest.Logger()})
	cfg := gateway.Config{
		Store: store, Lending: lending, Logger: logtest.Logger(),
		Dialects: []gateway.Dialect{
			gateway.NewLibrary(store, lending, logtest.Logger()), streams,
			gateway.NewDflockd(store, gateway.DflockdConfig{
				Lending: lending, Turns: gateway.NewTurns(), SessionTimes: gateway.SessionTimes{IdleTimeout: *idle, MaxIdleTimeout: *maxIdle},
			}),
		},
	}
	if *token != "" {
		cfg.Tokens = gateway.NewTokens(*token)
	}
	if *cert != "" {
		pair, err := tls.LoadX509KeyPair(*cert, *key)
		if err != nil {
			return err
		}
		cfg.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	}
	ln, err := net.Listen("tcp", *addr)
	if err != nil {
		return err
	}
	failed := make(chan error, 2)
	go func() { failed <- gateway.New(cfg).Serve(ln) }()
	go func() {
		_, err := io.Copy(io.Discard, os.Stdin)
		failed <- errors.Join(err, io.EOF)
	}()
	fmt.Println(ln.Addr())
	return <-failed
}
