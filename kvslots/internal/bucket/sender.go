package bucket

import (
	"runtime"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// maxQueued is how many writes may wait to be published. The peer has far fewer
// unanswered, unless the connection hangs.
const maxQueued = 1 << 15

// sender publishes writes in the order of the calls of put. One goroutine publishes,
// so that two writes of one key cannot change places. It holds no lock meanwhile,
// since publishing may block.
type sender struct {
	nc     *nats.Conn
	prefix string // of the reply subjects
	tokens ackTokens
	refuse func(write uint64, a peer.Ack) // reports a write that was not sent
	wake   chan struct{}

	// publish reuses these for each write, since PublishMsg copies them.
	subjects []byte              // of the message and of its answer: one string for both
	values   map[string][]string // of the header fields
	value    []byte
	msg      nats.Msg

	mu      sync.Mutex
	queue   []peer.Write
	refused []uint64 // the IDs of writes that found the queue full
}

func newSender(nc *nats.Conn, refuse func(uint64, peer.Ack)) *sender {
	return &sender{
		nc: nc, prefix: newInbox(nc) + ".", tokens: newAckTokens(), refuse: refuse,
		wake:   make(chan struct{}, 1),
		values: map[string][]string{},
		msg:    nats.Msg{Header: nats.Header{}},
	}
}

// put queues writes. If the queue is full, run refuses them later, since the caller of put
// holds the lock that refuse takes.
func (s *sender) put(writes []peer.Write) {
	s.mu.Lock()
	for _, w := range writes {
		if len(s.queue) < maxQueued {
			s.queue = append(s.queue, w)
		} else {
			s.refused = append(s.refused, w.ID)
		}
	}
	s.mu.Unlock()
	wake(s.wake)
}

// run publishes until stop is closed.
func (s *sender) run(stop <-chan struct{}) {
	var writes []peer.Write
	var refused []uint64
	for {
		select {
		case <-stop:
			return
		case <-s.wake:
		}
		runtime.Gosched() // requests that arrive now are sent with the same wake-up, and answered together
		writes, refused = s.take(writes[:0], refused[:0])
		connected := s.nc.IsConnected()
		for i := range writes {
			// The client would buffer a write while the connection is lost, and send
			// it long after the peer has given the write up.
			if !connected || s.publish(&writes[i]) != nil {
				s.refuse(writes[i].ID, peer.Ack{Outcome: peer.NotNow, Reason: errDisconnected.Error()})
			}
		}
		for _, id := range refused {
			s.refuse(id, peer.Ack{Outcome: peer.NotNow, Reason: "too many writes wait to be sent"})
		}
		clear(writes)
	}
}

// take returns everything that is queued. The given slices become the new queues.
func (s *sender) take(writes []peer.Write, refused []uint64) ([]peer.Write, []uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue, writes = writes, s.queue
	s.refused, refused = refused, s.refused
	return writes, refused
}

func (s *sender) publish(w *peer.Write) error {
	clear(s.msg.Header)
	w.Headers(s.setHeader)
	s.subjects = w.Key.Append(append(s.subjects[:0], SubjectPrefix...))
	end := len(s.subjects)
	s.subjects = s.tokens.append(append(s.subjects, s.prefix...), w.ID)
	both := string(s.subjects)
	s.msg.Subject, s.msg.Reply = both[:end], both[end:]
	s.value = w.Value(s.value[:0])
	s.msg.Data = s.value
	return s.nc.PublishMsg(&s.msg)
}

func (s *sender) setHeader(name, value string) {
	values := s.values[name]
	if values == nil {
		values = make([]string, 1)
		s.values[name] = values
	}
	values[0] = value
	s.msg.Header[name] = values
}
