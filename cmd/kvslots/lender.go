package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/client"
	"github.com/kvslots/kvslots/kvslots/client/natsclient"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// lender sends requests to gateways. The errors of its own methods, and those that explain returns, are fit
// to be printed.
type lender struct {
	*client.Client
	at     *settings.Gateway
	stderr io.Writer

	hint    string // printed after the error of a request that is repeated: what the command does next
	printed string // the last error
}

// dial returns a lender, which the caller must close. It sends nothing.
func dial(at *settings.Gateway, stderr io.Writer) (l *lender, err error) {
	l = &lender{at: at, stderr: stderr, hint: "trying again"}
	config := client.Config{Token: at.Token.Value, Retrying: func(err error) { l.print(l.explain(err)) }}
	if at.NATS.URL != "" {
		l.Client = natsclient.Connecting(func() (*nats.Conn, error) { return dialNATS(&at.NATS) }, config)
		return l, nil
	}
	if config.TLS, err = at.TLS.Config(); err != nil {
		return nil, err
	}
	l.Client, err = client.Dial(context.Background(), strings.Join(at.Servers(), ","), config)
	return l, err
}

// print prints an error, unless it is the last one again.
func (l *lender) print(err error) {
	text, hint := err.Error(), l.hint
	if taken, ok := errors.AsType[*kvslots.TakenError](err); ok { // it is told while the call waits
		text, hint = taken.Why(), "waiting"
	}
	if text != l.printed {
		l.printed = text
		fmt.Fprintf(l.stderr, "kvslots: %s; %s\n", text, hint)
	}
}

// inspect returns the answer to an inspection, with the pool's title and what is out of service.
func (l *lender) inspect(ctx context.Context, pool uuid.UUID) (inspection, error) {
	detail, err := l.read(ctx, kvslots.ByID(pool), kvslots.DetailPage{MaxHolders: -1})
	return inspection(wire.NewInspection(pool, &detail)), err
}

func (l *lender) read(ctx context.Context, pool kvslots.PoolRef, page kvslots.DetailPage) (kvslots.PoolDetail, error) {
	detail, err := l.ReadPool(ctx, pool, page)
	return detail, l.explain(err)
}
