package delivery

import (
	"crypto/rand"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// deliveryTimeout bounds the wait for the outcome of an answer, which takes one round
// trip to the server.
const deliveryTimeout = 5 * time.Second

// deliveries sends answers and learns whether a client was subscribed to their subjects.
//
// When a message with a reply subject goes to a subject without a subscription, the server
// sends a status 503 to the reply subject; otherwise it sends nothing. So deliveries sends
// another message behind the answer, a marker, to this connection's own inbox. The server
// handles both in order: if the marker arrives and no 503 has, a client was subscribed.
// Answers that are sent while a marker is pending share the next marker.
//
// With Config.Listened another client may receive the answer, too, and could send such a
// status to its reply subject. The answer then has no reply subject: it is sent only if a
// client is subscribed to its own subject just before.
type deliveries struct {
	nc       *nats.Conn
	inbox    string // ends in a dot
	sub      *nats.Subscription
	listened func(subject string) bool // Config.Listened

	mu     sync.Mutex
	open   map[string]chan Outcome   // by the name of the answer: its reply subject, if it has one
	probes map[string]chan *nats.Msg // by subject
	sent   []string                  // the open answers that no marker follows yet
	marker *marker                   // the pending one, or nil
}

// marker is a message to this connection's own inbox that follows answers.
type marker struct {
	subject string
	follows []string // the names of the answers
	timeout *time.Timer
}

func newDeliveries(nc *nats.Conn, listened func(subject string) bool) (d *deliveries, err error) {
	d = &deliveries{
		nc: nc, listened: listened, inbox: randomBelow(inboxPrefix(nc)+".") + ".",
		open: map[string]chan Outcome{}, probes: map[string]chan *nats.Msg{},
	}
	d.sub, err = nc.Subscribe(d.inbox+"*", d.receive)
	return d, err
}

// inboxPrefix returns the prefix of a connection's inboxes. nats.go appends to it a
// random text and a counter, which are the same for all connections of a process. The
// service never shows them to clients, which could guess the store's inboxes from them.
func inboxPrefix(nc *nats.Conn) string {
	inbox := nc.NewInbox()
	return inbox[:strings.LastIndexByte(inbox, '.')]
}

// randomBelow returns prefix followed by a random token of a subject.
func randomBelow(prefix string) string { return prefix + rand.Text() }

// send publishes an answer and returns its outcome when that is known.
func (d *deliveries) send(answer *nats.Msg) Outcome {
	name := randomBelow(d.inbox) // random, since the client sees it, and must not guess those of other answers
	switch {
	case d.listened == nil:
		answer.Reply = name
	case !d.listened(answer.Subject):
		return Unheard
	}
	result := make(chan Outcome, 1)
	d.mu.Lock()
	d.open[name] = result
	if d.nc.PublishMsg(answer) != nil {
		d.end(name, Unheard)
	} else {
		d.sent = append(d.sent, name)
		d.mark()
	}
	d.mu.Unlock()
	return <-result
}

// mark sends a marker behind the answers in d.sent, unless a marker is pending. The caller
// holds the lock, as send does while it publishes, so that a marker cannot overtake an
// answer that it must follow.
func (d *deliveries) mark() {
	if d.marker != nil || len(d.sent) == 0 {
		return
	}
	m := &marker{subject: randomBelow(d.inbox), follows: d.sent}
	d.sent, d.marker = nil, m
	if d.nc.Publish(m.subject, nil) != nil {
		d.passed(m, Unknown)
		return
	}
	m.timeout = time.AfterFunc(deliveryTimeout, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.passed(m, Unknown)
	})
}

// passed ends the pending marker. The open answers before it have the given outcome. The
// caller holds the lock.
func (d *deliveries) passed(m *marker, what Outcome) {
	if d.marker != m {
		return
	}
	if m.timeout != nil {
		m.timeout.Stop()
	}
	for _, answer := range m.follows {
		d.end(answer, what)
	}
	d.marker = nil
	d.mark()
}

// end ends the wait for an answer's outcome. The caller holds the lock.
func (d *deliveries) end(answer string, what Outcome) {
	if result := d.open[answer]; result != nil {
		delete(d.open, answer)
		result <- what
	}
}

// isNoResponders reports whether m is the server's status that nothing is subscribed to
// the subject of an earlier message.
func isNoResponders(m *nats.Msg) bool {
	return len(m.Data) == 0 && m.Header.Get("Status") == "503"
}

// receive handles markers, and the server's reports about answers and probes.
func (d *deliveries) receive(m *nats.Msg) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.marker != nil && d.marker.subject == m.Subject {
		d.passed(d.marker, Heard)
		return
	}
	if isNoResponders(m) {
		d.end(m.Subject, Unheard)
	}
	if result := d.probes[m.Subject]; result != nil {
		delete(d.probes, m.Subject)
		result <- m
	}
}

func (d *deliveries) close() { _ = d.sub.Unsubscribe() }
