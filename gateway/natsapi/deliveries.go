package natsapi

import (
	"crypto/rand"
	"encoding/hex"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// deliveryTimeout bounds the wait for the server's word on an answer, which
// takes a round trip.
const deliveryTimeout = 5 * time.Second

// deathNotice is about what the server needs to find out that a client's socket
// was closed. Measured: a slot that was handed to a waiter within 0.2 ms of the
// waiter's death was lost until its TTL in 58 % of the cases, because the server
// still had the subscription; after 1 ms in none, on a machine that is not
// overloaded.
const deathNotice = 3 * time.Millisecond

// quickGrant is how long a request that did not stand in line may have waited for
// something else, such as another request of its session, before it is treated like
// one that did. It is beyond what a busy machine takes.
const quickGrant = time.Second

// outcome is what became of an answer.
type outcome int

const (
	unknown outcome = iota // the connection broke before the server could tell
	heard                  // a requester was subscribed to the reply subject
	unheard                // no requester was, or nothing was sent
)

// deliveries sends answers and learns whether anybody heard them.
//
// A message with a reply subject of ours, to a subject without a subscription,
// makes the server send us a status 503 there. That is all it ever says, so a
// message of our own, a marker, follows: the server handles both in order, and if
// the marker comes back first there was no 503. Answers that are sent while a
// marker is under way share the next one.
type deliveries struct {
	nc    *nats.Conn
	inbox string // ends in a dot
	sub   *nats.Subscription

	mu     sync.Mutex
	open   map[string]chan outcome   // answers, by the reply subject that they name
	probes map[string]chan *nats.Msg // by subject
	sent   []string                  // the open answers that no marker follows yet
	marker *marker                   // the one that is under way, if any
}

// marker is a message that comes back to us behind the answers that it follows.
type marker struct {
	subject string
	follows []string // answers, by subject
	timeout *time.Timer
}

func newDeliveries(nc *nats.Conn) (d *deliveries, err error) {
	d = &deliveries{nc: nc, inbox: newInbox(nc) + ".", open: map[string]chan outcome{}, probes: map[string]chan *nats.Msg{}}
	d.sub, err = nc.Subscribe(d.inbox+"*", d.hear)
	return d, err
}

// newInbox gives an inbox that says nothing of this process's others. nats.go
// makes the last word of all inboxes from one random prefix and a counter; a
// requester, which sees this one, could guess those where the store takes its
// acknowledgements, and name them as its reply subject.
func newInbox(nc *nats.Conn) string {
	whole := nc.NewInbox()
	return randomBelow(whole[:strings.LastIndexByte(whole, '.')+1])
}

// randomWord is a word of a subject that cannot be guessed.
func randomWord() string { return randomBelow("") }

// randomBelow puts such a word behind a prefix.
func randomBelow(prefix string) string {
	var word [16]byte
	_, _ = rand.Read(word[:]) // it never fails
	return string(hex.AppendEncode(append(make([]byte, 0, len(prefix)+2*len(word)), prefix...), word[:]))
}

// send publishes an answer and returns when it is known what became of it.
func (d *deliveries) send(answer *nats.Msg) outcome {
	// The requester sees this subject; it must not lead to others' answers.
	answer.Reply = randomBelow(d.inbox)
	told := make(chan outcome, 1)
	d.mu.Lock()
	d.open[answer.Reply] = told
	if d.nc.PublishMsg(answer) != nil {
		d.tell(answer.Reply, unheard)
	} else {
		d.sent = append(d.sent, answer.Reply)
		d.mark()
	}
	d.mu.Unlock()
	return <-told
}

// mark sends a marker behind what has been sent, unless one is under way. The caller
// holds the lock, as the one who publishes an answer does: otherwise a marker could
// overtake an answer that it is to follow.
func (d *deliveries) mark() {
	if d.marker != nil || len(d.sent) == 0 {
		return
	}
	m := &marker{subject: randomBelow(d.inbox), follows: d.sent}
	d.sent, d.marker = nil, m
	if d.nc.Publish(m.subject, nil) != nil {
		d.passed(m, unknown)
		return
	}
	m.timeout = time.AfterFunc(deliveryTimeout, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.passed(m, unknown)
	})
}

// passed ends the marker that is under way: what it follows and has not been told
// otherwise has that outcome. The caller holds the lock.
func (d *deliveries) passed(m *marker, what outcome) {
	if d.marker != m {
		return
	}
	if m.timeout != nil {
		m.timeout.Stop()
	}
	for _, answer := range m.follows {
		d.tell(answer, what)
	}
	d.marker = nil
	d.mark()
}

// tell ends the wait for an answer's outcome. The caller holds the lock.
func (d *deliveries) tell(answer string, what outcome) {
	if told := d.open[answer]; told != nil {
		delete(d.open, answer)
		told <- what
	}
}

// isNoResponders reports whether this is the server's word that nothing is subscribed
// to where a message was sent.
func isNoResponders(m *nats.Msg) bool {
	return len(m.Data) == 0 && m.Header.Get("Status") == "503"
}

// settle lets the server find out who is dead. A waiter may have died at any
// time since it asked, so its last moments are worth the while; the round trips
// make it last longer where the server is slow to get round to things.
func (d *deliveries) settle() {
	const rounds = 3
	for range rounds {
		time.Sleep(deathNotice / rounds)
		if d.nc.FlushTimeout(deliveryTimeout) != nil {
			return // send will say what is wrong
		}
	}
}

// hear takes markers, what the server says of answers, and of probes.
func (d *deliveries) hear(m *nats.Msg) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.marker != nil && d.marker.subject == m.Subject {
		d.passed(d.marker, heard)
		return
	}
	if isNoResponders(m) {
		d.tell(m.Subject, unheard)
	}
	if told := d.probes[m.Subject]; told != nil {
		delete(d.probes, m.Subject)
		told <- m
	}
}

func (d *deliveries) close() { _ = d.sub.Unsubscribe() }
