package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// Bodies of requests and answers of the limits, as long as those of kvslots.
const (
	borrowBody   = `{"id":"9f1c2e7a-5b3d-4c8e-a1f0-6d2b9c4e7a01","ttl":600,"wait":60}`
	returnBody   = `{"id":"9f1c2e7a-5b3d-4c8e-a1f0-6d2b9c4e7a01","lease":"82b230f8-9734-4503-a28b-c72da7736e82"}`
	leaseAnswer  = `{"lease":"82b230f8-9734-4503-a28b-c72da7736e82","position":0,"expires_at_unix":1795218908,"expires_in":600,"fence":1795218878144510}`
	returnAnswer = `{"returned":true}`
)

// requestPairs sends two NATS requests, one after the other.
func requestPairs(nc *nats.Conn, first, second string) pairer {
	return func(context.Context, int) (func(ctx context.Context, client int) error, func(ctx context.Context) error, error) {
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

// echoPairs measures a NATS service in this process that answers at once, and a client
// over TCP.
func echoPairs(server *plainServer) (pairer, error) {
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
	server.stack.add(func() error { client.Close(); return nil })
	return requestPairs(client, "bench.borrow", "bench.return"), server.inner.Flush()
}

// handlerPairs measures an empty HTTP handler with the client of the transport http.
func (e *Environment) handlerPairs() (pairer, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: http.HandlerFunc(answerAtOnce), ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	e.stack.add(func() error {
		err := server.Close()
		if stopped := <-served; !errors.Is(stopped, http.ErrServerClosed) {
			err = errors.Join(err, fmt.Errorf("bench: the empty handler: %w", stopped))
		}
		return err
	})
	to := endpoint{addr: ln.Addr().String(), host: ln.Addr().String()}
	return transportPairs(httpTransport{to: to, hold: holdInProcess}), nil
}

func answerAtOnce(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "application/json")
	answer := returnAnswer
	if strings.HasSuffix(r.URL.Path, "/borrow") {
		answer = leaseAnswer
	}
	_, _ = io.WriteString(w, answer)
}
