package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots"
)

// Raw is the ceiling: the two writes of a cycle, a claim and its purge, on a
// key of the client's own, and nothing else.
type Raw struct {
	JS     jetstream.JetStream
	Prefix string // of the subjects
}

// Name is "raw".
func (Raw) Name() string { return "raw" }

// Cycle writes a value and a marker over it.
func (r Raw) Cycle(ctx context.Context, client int) error {
	subject := fmt.Sprintf("%s%d", r.Prefix, client)
	claim := nats.NewMsg(subject)
	claim.Header.Set("Nats-TTL", "630s")
	claim.Data = make([]byte, 200) // about what a slot's value takes
	ack, err := r.JS.PublishMsg(ctx, claim)
	if err != nil {
		return err
	}
	purge := nats.NewMsg(subject)
	purge.Header.Set("KV-Operation", "PURGE")
	purge.Header.Set("Nats-TTL", "120s")
	_, err = r.JS.PublishMsg(ctx, purge, jetstream.WithExpectLastSequencePerSubject(ack.Sequence))
	return err
}

// Library borrows and returns through a Store.
type Library struct {
	Store *kvslots.Store
	Pool  uuid.UUID
}

// Name is "library".
func (Library) Name() string { return "library" }

// Cycle borrows a slot and returns it.
func (l Library) Cycle(ctx context.Context, _ int) error {
	lease, err := l.Store.Borrow(ctx, l.Pool, 30*time.Second, 10*time.Second)
	if err != nil {
		return err
	}
	_, err = l.Store.Return(ctx, l.Pool, lease.ID())
	return err
}

// HTTP borrows and returns over REST.
type HTTP struct {
	Client *http.Client
	URL    string // of the pool: http://host:port/l/<id>
}

// Name is "http".
func (HTTP) Name() string { return "http" }

// Cycle borrows a slot and returns it.
func (h HTTP) Cycle(ctx context.Context, _ int) error {
	var lease struct {
		Lease string `json:"lease"`
	}
	if err := h.post(ctx, "/borrow", map[string]any{"ttl": 30, "wait": 10}, &lease); err != nil {
		return err
	}
	return h.post(ctx, "/return", lease, nil)
}

func (h HTTP) post(ctx context.Context, path string, body, answer any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.URL+path, bytes.NewReader(data))
	if err != nil {
		return err
	}
	resp, err := h.Client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	data, err = io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("bench: status %d", resp.StatusCode)
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(data, answer)
}
