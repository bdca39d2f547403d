package bucket

import (
	"strconv"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// maxQueued is how many writes may wait to be published. It is far above what
// the peer has in flight unless the connection is stuck.
const maxQueued = 1 << 15

// sender publishes writes in the order in which they were put. One goroutine
// does it, so that two writes of one key cannot change places; it holds no lock
// while it publishes, since that may block.
type sender struct {
	nc     *nats.Conn
	prefix string // of the reply subjects
	refuse func(write uint64, a peer.Ack)
	wake   chan struct{}

	// These are used for each write, since publishing copies them.
	subject []byte
	values  map[string][]string // of the header fields
	msg     nats.Msg

	mu      sync.Mutex
	queue   []peer.Write
	refused []uint64 // writes that found the queue full
}

func newSender(nc *nats.Conn, refuse func(uint64, peer.Ack)) *sender {
	return &sender{
		nc: nc, prefix: nc.NewInbox() + ".", refuse: refuse,
		wake:    make(chan struct{}, 1),
		subject: []byte(SubjectPrefix),
		values:  map[string][]string{},
		msg:     nats.Msg{Header: nats.Header{}},
	}
}

// put queues writes. Those that find the queue full are refused, but not by put:
// its caller holds the lock.
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
		writes, refused = s.take(writes[:0], refused[:0])
		connected := s.nc.IsConnected()
		for i := range writes {
			// What is published while the connection is away would be sent when
			// it is back, at a time when the peer has long decided otherwise.
			if !connected || s.publish(&writes[i]) != nil {
				s.refuse(writes[i].ID, peer.Ack{Outcome: peer.NotNow})
			}
		}
		for _, id := range refused {
			s.refuse(id, peer.Ack{Outcome: peer.NotNow})
		}
		clear(writes)
	}
}

// take takes everything that is queued, and leaves the given slices in its place.
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
	s.subject = w.Key.Append(s.subject[:len(SubjectPrefix)])
	s.msg.Subject = string(s.subject)
	s.msg.Reply = s.prefix + strconv.FormatUint(w.ID, 36)
	s.msg.Data = w.Data
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
