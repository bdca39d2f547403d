package stream_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/natstest"
	"github.com/kvslots/kvslots/kvslots/internal/sim/stream"
)

// answerTimeout is the timeout for a server on a busy machine. It only ends a test that fails.
const answerTimeout = 5 * time.Minute

// realStream is a stream of a real server, configured like a kvslots bucket.
type realStream struct {
	t      testing.TB
	nc     *nats.Conn
	stream jetstream.Stream
	name   string
}

func realConfig(name string, replicas int, first uint64, markerTTL time.Duration) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:                   name,
		Subjects:               []string{prefixOf(name) + ">"},
		Storage:                jetstream.FileStorage,
		Replicas:               replicas,
		MaxMsgsPerSubject:      1,
		Discard:                jetstream.DiscardNew,
		DenyDelete:             true,
		AllowRollup:            true,
		AllowDirect:            true,
		AllowMsgTTL:            true,
		SubjectDeleteMarkerTTL: markerTTL,
		FirstSeq:               first,
	}
}

func prefixOf(name string) string { return "$KV." + strings.TrimPrefix(name, "KV_") + "." }

func createReal(t testing.TB, nc *nats.Conn, cfg jetstream.StreamConfig) *realStream {
	t.Helper()
	js := natstest.JetStream(t, nc, jetstream.WithDefaultTimeout(answerTimeout))
	s, err := js.CreateStream(t.Context(), cfg)
	natstest.Must(t, err)
	return &realStream{t: t, nc: nc, stream: s, name: cfg.Name}
}

// openReal opens an existing stream.
func openReal(t testing.TB, nc *nats.Conn, name string) *realStream {
	t.Helper()
	js := natstest.JetStream(t, nc, jetstream.WithDefaultTimeout(answerTimeout))
	s, err := js.Stream(t.Context(), name)
	natstest.Must(t, err)
	return &realStream{t: t, nc: nc, stream: s, name: name}
}

// message returns a write as a NATS message.
func (r *realStream) message(m stream.Message) *nats.Msg {
	msg := nats.NewMsg(prefixOf(r.name) + m.Key)
	msg.Data = m.Data
	for name, value := range headersOf(m.Header) {
		msg.Header.Set(name, value)
	}
	return msg
}

func (r *realStream) publish(m stream.Message) stream.Ack {
	r.t.Helper()
	answer, err := r.nc.RequestMsg(r.message(m), answerTimeout)
	for deadline := time.Now().Add(answerTimeout); errors.Is(err, nats.ErrNoResponders) && time.Now().Before(deadline); {
		answer, err = r.nc.RequestMsg(r.message(m), answerTimeout) // nothing was written: the leader is new
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return parseAck(r.t, answer)
}

func parseAck(t testing.TB, m *nats.Msg) stream.Ack {
	t.Helper()
	var answer struct {
		Seq   uint64 `json:"seq"`
		Error *struct {
			Code        int    `json:"err_code"`
			Description string `json:"description"`
		} `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil {
		t.Fatalf("%q: %v", m.Data, err)
	}
	if answer.Error == nil {
		return stream.Ack{Sequence: answer.Seq}
	}
	a := stream.Ack{Code: answer.Error.Code, Description: answer.Error.Description}
	if _, text, ok := strings.Cut(a.Description, ": "); ok {
		a.Revision, _ = strconv.ParseUint(text, 10, 64)
	}
	return a
}

// directGet is one batched direct get.
func (r *realStream) directGet(from uint64, limit int) (found []stream.Stored) {
	r.t.Helper()
	inbox := r.nc.NewInbox()
	sub, err := r.nc.SubscribeSync(inbox)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	request := fmt.Sprintf(`{"seq":%d,"batch":%d,"next_by_subj":"%s>"}`, from, limit, prefixOf(r.name))
	if err := r.nc.PublishRequest("$JS.API.DIRECT.GET."+r.name, inbox, []byte(request)); err != nil {
		r.t.Fatal(err)
	}
	for {
		m, err := sub.NextMsg(answerTimeout)
		if err != nil {
			r.t.Fatal(err)
		}
		switch m.Header.Get("Status") {
		case "":
			found = append(found, r.gotten(m))
		case "204", "404":
			return found
		default:
			r.t.Fatalf("direct get: %v", m.Header)
		}
	}
}

func (r *realStream) gotten(m *nats.Msg) stream.Stored {
	sequence, err := strconv.ParseUint(m.Header.Get("Nats-Sequence"), 10, 64)
	if err != nil {
		r.t.Fatal(err)
	}
	return r.stored(m.Header.Get("Nats-Subject"), sequence, m)
}

func (r *realStream) stored(subject string, sequence uint64, m *nats.Msg) stream.Stored {
	return stream.Stored{
		Sequence: sequence, Key: strings.TrimPrefix(subject, prefixOf(r.name)), Header: parseHeader(m.Header), Data: m.Data,
	}
}

func (r *realStream) all() []stream.Stored { return r.directGet(1, 1_000_000) }

func (r *realStream) info() stream.Info {
	r.t.Helper()
	i, err := r.stream.Info(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return stream.Info{Exists: true, Created: i.Created, First: i.State.FirstSeq, Last: i.State.LastSeq}
}

// config returns the stream's configuration.
func (r *realStream) config() jetstream.StreamConfig {
	r.t.Helper()
	i, err := r.stream.Info(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return i.Config
}

// consumerOf returns the name of the consumer that delivers to an inbox.
func consumerOf(inbox string) string { return strings.ReplaceAll(inbox, ".", "_") }

// consumer creates a push consumer like a peer's watch. pending is the number of
// messages that it delivers at once.
func (r *realStream) consumer(from uint64, deliver string) (pending uint64) {
	r.t.Helper()
	c, err := r.stream.CreatePushConsumer(r.t.Context(), jetstream.ConsumerConfig{
		Name:              consumerOf(deliver),
		DeliverSubject:    deliver,
		DeliverPolicy:     jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:       from,
		AckPolicy:         jetstream.AckNonePolicy,
		MaxDeliver:        1,
		InactiveThreshold: answerTimeout,
		MemoryStorage:     true,
		Replicas:          1,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	i := c.CachedInfo()
	return i.NumPending + i.Delivered.Consumer
}

// delivery parses a message of a consumer, and returns its consumer sequence.
func (r *realStream) delivery(m *nats.Msg) (stream.Stored, uint64) {
	meta, err := m.Metadata()
	if err != nil {
		r.t.Error(err)
		return stream.Stored{}, 0
	}
	return r.stored(m.Subject, meta.Sequence.Stream, m), meta.Sequence.Consumer
}

// consume returns what a new consumer delivers.
func (r *realStream) consume(from uint64) (found []stream.Stored) {
	r.t.Helper()
	inbox := r.nc.NewInbox()
	sub, err := r.nc.SubscribeSync(inbox)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	for pending := r.consumer(from, inbox); pending > 0; pending-- {
		m, err := sub.NextMsg(answerTimeout)
		if err != nil {
			r.t.Fatal(err)
		}
		stored, n := r.delivery(m)
		if found = append(found, stored); int(n) != len(found) {
			r.t.Fatalf("consumer sequence %d came as number %d", n, len(found))
		}
	}
	return found
}

// headersOf returns the header fields of a message.
func headersOf(h stream.Header) map[string]string {
	all := map[string]string{}
	for _, name := range []string{
		entry.HeaderExpected, "Nats-Expected-Last-Sequence", entry.HeaderTTL, entry.HeaderOperation, entry.HeaderReason, "Nats-Rollup",
	} {
		if value := h.Get(name); value != "" {
			all[name] = value
		}
	}
	maps.Copy(all, h.Other)
	return all
}

// parseHeader returns the header of a real server's message, without what a direct get
// adds.
func parseHeader(from nats.Header) stream.Header {
	var h stream.Header
	for name := range from {
		value := from.Get(name)
		switch name {
		case "Nats-Stream", "Nats-Subject", "Nats-Sequence", "Nats-Time-Stamp", "Nats-Num-Pending", "Nats-Last-Sequence":
		case entry.HeaderExpected:
			h.Expected = parseNumber(value)
		case "Nats-Expected-Last-Sequence":
			h.ExpectedLast = parseNumber(value)
		case entry.HeaderTTL:
			h.TTL = value
		case entry.HeaderOperation:
			h.Operation = value
		case entry.HeaderReason:
			h.Reason = value
		case "Nats-Rollup":
			h.Rollup = value
		default:
			if h.Other == nil {
				h.Other = map[string]string{}
			}
			h.Other[name] = value
		}
	}
	return h
}

func parseNumber(text string) *uint64 {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return nil
	}
	return &n
}

// describe describes everything in which the model and a server must agree.
func describe(m stream.Stored) string {
	headers := headersOf(m.Header)
	text := fmt.Sprintf("%d %s %q", m.Sequence, m.Key, m.Data)
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		text += fmt.Sprintf(" %s=%s", name, headers[name])
	}
	return text
}

func describeAll(all []stream.Stored) string {
	var lines []string
	for _, m := range all {
		lines = append(lines, describe(m))
	}
	return strings.Join(lines, "\n")
}

// eventually is natstest.Eventually. state describes the state if the condition never
// holds.
func eventually(t testing.TB, what string, is func() bool, state func() string) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Log(state())
		}
	}()
	natstest.Eventually(t, what, is)
}
