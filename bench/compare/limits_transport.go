package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/bench"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// Bodies of requests and answers of the limits, as long as those of kvslots.
const (
	borrowBody   = `{"id":"9f1c2e7a-5b3d-4c8e-a1f0-6d2b9c4e7a01","ttl":600,"wait":60}`
	returnBody   = `{"id":"9f1c2e7a-5b3d-4c8e-a1f0-6d2b9c4e7a01","lease":"` + answeredLease + `"}`
	leaseAnswer  = `{"lease":"` + answeredLease + `","position":0,"expires_at_unix":1795218908,"expires_in":600,"fence":1795218878144510}`
	returnAnswer = `{"returned":true}`
	poolAnswer   = `{"count":1,"available":1,"deleted":true}` // to a registration, and to a deletion

	answeredLease = "82b230f8-9734-4503-a28b-c72da7736e82"
)

func requestPairs(nc *nats.Conn, first, second string) bench.Pairer {
	return func(context.Context, int) (bench.Action, bench.Cleanup, error) {
		return func(ctx context.Context, _ int) error {
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			if _, err := nc.RequestWithContext(ctx, first, []byte(borrowBody)); err != nil {
				return err
			}
			_, err := nc.RequestWithContext(ctx, second, []byte(returnBody))
			return err
		}, nil, nil
	}
}

// inTurn does a pair of first and then one of second, which is the sum of their costs.
func inTurn(first, second bench.Pairer) bench.Pairer {
	return func(ctx context.Context, clients int) (bench.Action, bench.Cleanup, error) {
		one, closeFirst, err := first(ctx, clients)
		if err != nil {
			return nil, closeFirst, err
		}
		other, closeSecond, err := second(ctx, clients)
		both := func(ctx context.Context) error {
			var errs error
			for _, c := range []bench.Cleanup{closeSecond, closeFirst} {
				if c != nil {
					errs = errors.Join(errs, c(ctx))
				}
			}
			return errs
		}
		return func(ctx context.Context, client int) error {
			if err := one(ctx, client); err != nil {
				return err
			}
			return other(ctx, client)
		}, both, err
	}
}

// echoPairs measures a NATS service in this process that answers at once, and a client
// over TCP.
func echoPairs(server *plainServer) (bench.Pairer, error) {
	for subject, answer := range map[string]string{"bench.borrow": leaseAnswer, "bench.return": returnAnswer} {
		_, err := server.inner.Subscribe(subject, func(m *nats.Msg) { _ = m.Respond([]byte(answer)) })
		if err != nil {
			return nil, err
		}
	}
	client, err := nats.Connect(server.url())
	if err != nil {
		return nil, err
	}
	server.add(func() error { client.Close(); return nil })
	return requestPairs(client, "bench.borrow", "bench.return"), server.inner.Flush()
}

// handlerPairs measures an HTTP handler with the client of the transport http.
func (l *lab) handlerPairs(handler http.HandlerFunc) (bench.Pairer, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	l.add(func() error {
		err := server.Close()
		if stopped := <-served; !errors.Is(stopped, http.ErrServerClosed) {
			err = errors.Join(err, fmt.Errorf("the HTTP handler of a limit: %w", stopped))
		}
		return err
	})
	to, err := bench.ParseEndpoint("http://"+ln.Addr().String(), "", nil)
	return bench.PairsOver(bench.HTTP(to, bench.Hold)), err
}

// answerFrom returns a handler of requests of the transport http that calls the library, and
// does nothing else that a gateway does.
func answerFrom(store *kvslots.Store) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var request struct{ Lease uuid.UUID }
		id, operation, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/l/"), "/")
		if id == "self" { // as the client of the gateways sends it
			id = r.Header.Get(wire.PoolHeader)
		}
		pool, err := uuid.Parse(id)
		body, unread := io.ReadAll(r.Body)
		if err = errors.Join(err, unread); err == nil && len(body) > 0 {
			err = json.Unmarshal(body, &request)
		}
		answer := poolAnswer
		switch {
		case err != nil:
		case operation == "borrow":
			var lease *kvslots.Lease
			if lease, err = store.Borrow(r.Context(), pool, kvslots.WithFixedTTL(leaseTTL), kvslots.WithWait(time.Minute)); err == nil {
				answer = strings.Replace(leaseAnswer, answeredLease, lease.ID().String(), 1)
			}
		case operation == "return":
			answer = returnAnswer
			_, err = store.Return(context.Background(), pool, request.Lease)
		case r.Method == http.MethodDelete:
			err = store.Delete(r.Context(), pool)
		default:
			_, err = store.Register(r.Context(), pool, 1)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, answer)
	}
}

func answerAtOnce(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "application/json")
	answer := poolAnswer
	switch {
	case strings.HasSuffix(r.URL.Path, "/borrow"):
		answer = leaseAnswer
	case strings.HasSuffix(r.URL.Path, "/return"):
		answer = returnAnswer
	}
	_, _ = io.WriteString(w, answer)
}
