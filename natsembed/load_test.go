package natsembed

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// load is clients that write to subjects of their own, one write after the other,
// and remember what they were told.
type load struct {
	told func(srv *Server, then func(error)) // tells a write that was acknowledged

	mu     sync.Mutex
	facts  facts
	writes int
	more   chan struct{} // gets a value after each write that was told
}

// facts are what the clients know.
type facts struct {
	sent, told [clients]uint64 // each client's writes are numbered from 1
	highest    uint64          // sequence that was told
}

// Of the clients, each writes twice as often as the next one but eight: there are
// subjects that are written rarely, and whose blocks are compacted around them.
const clients = 48

// maxData makes writes so large that a block is full after a few hundred. (A limit of
// the stream's size would make the blocks smaller, but let the server remove live
// records when superseded ones come back.)
const maxData = 40 << 10

func newLoad(told func(*Server, func(error))) *load {
	return &load{told: told, more: make(chan struct{}, 1)}
}

func throughGate(srv *Server, then func(error)) { srv.Flusher().Durable(then) }
func withoutGate(_ *Server, then func(error))   { then(nil) }

// run writes until ctx ends, or a write fails. It returns when all clients
// have ended.
func (l *load) run(ctx context.Context, t *testing.T, srv *Server) {
	js := connect(t, srv)
	rare := make(chan struct{}, 1)
	var running sync.WaitGroup
	for c := range clients {
		running.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-ctx.Done():
					return
				default:
				}
				if c < 8 { // these write once for many writes of the others
					select {
					case <-ctx.Done():
						return
					case <-rare:
					}
				} else if i%20 == 0 {
					select {
					case rare <- struct{}{}:
					default:
					}
				}
				if l.write(ctx, srv, js, c) != nil {
					return
				}
			}
		})
	}
	running.Wait()
}

func (l *load) write(ctx context.Context, srv *Server, js jetstream.JetStream, client int) error {
	l.mu.Lock()
	l.facts.sent[client]++
	number := l.facts.sent[client]
	l.mu.Unlock()
	m := nats.NewMsg(fmt.Sprintf("s.%d", client))
	m.Data = make([]byte, 8+number*7919%maxData)
	binary.BigEndian.PutUint64(m.Data, number)
	if number%2 == 0 { // a purge over a claim
		m.Header.Set("KV-Operation", "PURGE")
	}
	ack, err := js.PublishMsg(ctx, m)
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	l.told(srv, func(err error) {
		if err == nil {
			l.note(client, number, ack.Sequence)
		}
		done <- err
	})
	return <-done
}

func (l *load) note(client int, number, sequence uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.facts.told[client] = number
	l.facts.highest = max(l.facts.highest, sequence)
	l.writes++
	select {
	case l.more <- struct{}{}:
	default:
	}
}

// await waits until n more writes were told.
func (l *load) await(n int) {
	l.mu.Lock()
	until := l.writes + n
	l.mu.Unlock()
	for {
		<-l.more
		l.mu.Lock()
		enough := l.writes >= until
		l.mu.Unlock()
		if enough {
			return
		}
	}
}

func (l *load) known() facts {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.facts
}

// check returns what a recovered server has lost of what was told, or has too much.
// It brings the facts to what is there.
func (f *facts) check(t *testing.T, srv *Server) error {
	t.Helper()
	stream, err := connect(t, srv).Stream(t.Context(), "S")
	if err != nil {
		return err
	}
	var wrong []error
	for c := range clients {
		var number uint64
		m, err := stream.GetLastMsgForSubject(t.Context(), fmt.Sprintf("s.%d", c))
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound):
		case err != nil:
			return err
		default:
			number = binary.BigEndian.Uint64(m.Data)
		}
		if number < f.told[c] || number > f.sent[c] {
			wrong = append(wrong, fmt.Errorf("client %d: %d is there, %d was told, %d sent", c, number, f.told[c], f.sent[c]))
		}
		f.told[c], f.sent[c] = number, number
	}
	if last := stream.CachedInfo().State.LastSeq; last < f.highest {
		wrong = append(wrong, fmt.Errorf("the last sequence is %d, %d was told", last, f.highest))
	}
	return errors.Join(wrong...)
}
