package bucket

import (
	"strconv"
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
	wake   chan struct{}

	// publish reuses these for each write, since PublishMsg copies them.
	subjects []byte              // of the message and of its answer: one string for both
	values   map[string][]string // of the header fields
	value    []byte
	msg      nats.Msg

	mu    sync.Mutex
	queue []peer.Write
}

func newSender(nc *nats.Conn) *sender {
	return &sender{
		nc: nc, prefix: newInbox(nc) + ".",
		wake:   make(chan struct{}, 1),
		values: map[string][]string{},
		msg:    nats.Msg{Header: nats.Header{}},
	}
}

// put queues writes, as far as there is room. The peer sends an unanswered write again.
func (s *sender) put(writes []peer.Write) {
	s.mu.Lock()
	s.queue = append(s.queue, writes[:min(len(writes), maxQueued-len(s.queue))]...)
	s.mu.Unlock()
	wake(s.wake)
}

// run publishes until stop is closed.
func (s *sender) run(stop <-chan struct{}) {
	var writes []peer.Write
	for {
		select {
		case <-stop:
			return
		case <-s.wake:
		}
		writes = s.take(writes[:0])
		// The client would buffer a write while the connection is lost, and send
		// it long after the peer has given the write up.
		if s.nc.IsConnected() {
			for i := range writes {
				_ = s.publish(&writes[i])
			}
		}
		clear(writes)
	}
}

// take returns everything that is queued. The given slice becomes the new queue.
func (s *sender) take(writes []peer.Write) []peer.Write {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue, writes = writes, s.queue
	return writes
}

func (s *sender) publish(w *peer.Write) error {
	clear(s.msg.Header)
	w.Headers(s.setHeader)
	s.subjects = w.Key.Append(append(s.subjects[:0], SubjectPrefix...))
	end := len(s.subjects)
	s.subjects = strconv.AppendUint(append(s.subjects, s.prefix...), w.ID, 10)
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
