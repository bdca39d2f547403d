package kvslots

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// ackTimeout is how long a write may go unanswered before nobody knows what
// became of it.
const ackTimeout = 5 * time.Second

// What can become of a write that was not acknowledged.
var (
	errConflict = errors.New("another revision is there")    // certainly not written
	errInFlight = errors.New("another write is in flight")   // certainly not written
	errNotSent  = errors.New("nobody took the write")        // certainly not written
	errRefused  = errors.New("the stream refused")           // certainly not written
	errUnknown  = errors.New("no answer")                    // written, not written, or still to be written
	errGone     = errors.New("the connection was shut down") // as errUnknown, and nothing more will come
)

// Error codes of JetStream (ADR-7). On a replicated stream codeInFlight says
// that *some* write to the key is in flight, not that the key is taken.
const (
	codeConflict = 10071
	codeInFlight = 10164
)

// ack is the answer to a write.
type ack struct {
	revision uint64 // of the write; with errConflict, the revision that is there
	err      error
}

// publisher sends writes and hands out their answers. Several can be under way
// at once; they reach the stream in the order in which they were sent.
type publisher struct {
	nc     *nats.Conn
	prefix string // of the reply subjects
	sub    *nats.Subscription

	mu      sync.Mutex
	next    uint64
	pending map[uint64]pending
	closed  bool
}

type pending struct {
	sent time.Time
	done func(ack)
}

func newPublisher(nc *nats.Conn) (*publisher, error) {
	p := &publisher{nc: nc, prefix: nc.NewInbox() + ".", pending: map[uint64]pending{}}
	sub, err := nc.Subscribe(p.prefix+"*", p.answered)
	if err != nil {
		return nil, err
	}
	p.sub = sub
	return p, sub.SetPendingLimits(-1, -1)
}

// send publishes one message. done is called once, from another goroutine.
func (p *publisher) send(m *nats.Msg, done func(ack)) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		go done(ack{err: errNotSent})
		return
	}
	p.next++
	id := p.next
	p.pending[id] = pending{time.Now(), done}
	m.Reply = p.prefix + strconv.FormatUint(id, 36)
	err := p.nc.PublishMsg(m)
	if err != nil {
		delete(p.pending, id)
	}
	p.mu.Unlock()
	if err != nil {
		go done(ack{err: fmt.Errorf("%w: %w", errNotSent, err)})
	}
}

func (p *publisher) answered(m *nats.Msg) {
	id, err := strconv.ParseUint(strings.TrimPrefix(m.Subject, p.prefix), 36, 64)
	if err != nil {
		return
	}
	p.mu.Lock()
	w, ok := p.pending[id]
	delete(p.pending, id)
	p.mu.Unlock()
	if ok {
		w.done(parseAck(m))
	}
}

func parseAck(m *nats.Msg) ack {
	if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
		return ack{err: errNotSent} // no stream leader
	}
	var answer struct {
		Seq   uint64 `json:"seq"`
		Error *struct {
			Code        int    `json:"err_code"`
			Description string `json:"description"`
		} `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil {
		return ack{err: fmt.Errorf("%w: %w", errUnknown, err)}
	}
	switch e := answer.Error; {
	case e == nil && answer.Seq == 0:
		return ack{err: errUnknown}
	case e == nil:
		return ack{revision: answer.Seq}
	case e.Code == codeConflict:
		_, text, _ := strings.Cut(e.Description, ": ")
		actual, _ := strconv.ParseUint(text, 10, 64)
		return ack{revision: actual, err: errConflict}
	case e.Code == codeInFlight:
		return ack{err: errInFlight}
	default:
		return ack{err: fmt.Errorf("%w: %s", errRefused, e.Description)}
	}
}

// expire gives up on the writes that have waited for too long.
func (p *publisher) expire(now time.Time) {
	p.mu.Lock()
	var late []pending
	for id, w := range p.pending {
		if now.Sub(w.sent) > ackTimeout {
			late = append(late, w)
			delete(p.pending, id)
		}
	}
	p.mu.Unlock()
	for _, w := range late {
		w.done(ack{err: errUnknown})
	}
}

// close gives up on all writes and takes no more.
func (p *publisher) close() {
	p.mu.Lock()
	p.closed = true
	left := p.pending
	p.pending = map[uint64]pending{}
	p.mu.Unlock()
	for _, w := range left {
		w.done(ack{err: errGone})
	}
	_ = p.sub.Unsubscribe()
}
