package natsapi

import (
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
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
	heard                  // somebody was subscribed to the reply subject
	unheard                // nobody was, or nothing was sent
)

// deliveries sends answers and learns whether anybody heard them.
//
// A message with a reply subject of ours, to a subject that nobody listens to,
// makes the server send us a status 503 there. That is all it ever says, so a
// message of our own follows to the same subject: the server handles both in
// order, and if ours comes back first there was no 503.
type deliveries struct {
	nc    *nats.Conn
	inbox string
	sub   *nats.Subscription

	mu   sync.Mutex
	open map[string]chan *nats.Msg // by subject
}

func newDeliveries(nc *nats.Conn) (d *deliveries, err error) {
	d = &deliveries{nc: nc, inbox: newInbox(nc), open: map[string]chan *nats.Msg{}}
	d.sub, err = nc.Subscribe(d.inbox+".*", d.hear)
	return d, err
}

// newInbox gives an inbox that says nothing of this process's others. nats.go
// makes the last word of all inboxes from one random prefix and a counter; a
// requester, which sees this one, could guess those where the store takes its
// acknowledgements, and name them as its reply subject.
func newInbox(nc *nats.Conn) string {
	whole := nc.NewInbox()
	return whole[:strings.LastIndexByte(whole, '.')+1] + randomWord()
}

// randomWord is a word of a subject that cannot be guessed.
func randomWord() string { return strings.ReplaceAll(uuid.NewString(), "-", "") }

// expect makes a subject of ours, and the channel to which the first message there
// goes. done forgets it.
func (d *deliveries) expect() (subject string, told chan *nats.Msg, done func()) {
	subject, told = d.inbox+"."+randomWord(), make(chan *nats.Msg, 1)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open[subject] = told
	return subject, told, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.open, subject)
	}
}

// send publishes an answer and returns when it is known what became of it.
func (d *deliveries) send(answer *nats.Msg) outcome {
	// The requester sees this subject; it must not lead to others' answers.
	subject, told, done := d.expect()
	defer done()
	answer.Reply = subject
	if d.nc.PublishMsg(answer) != nil {
		return unheard
	}
	if d.nc.Publish(answer.Reply, nil) != nil {
		return unknown
	}
	timer := time.NewTimer(deliveryTimeout)
	defer timer.Stop()
	select {
	case m := <-told:
		if isNoResponders(m) {
			return unheard
		}
		return heard
	case <-timer.C:
		return unknown
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

// hear takes the first message for each subject; the others are about answers
// whose fate is known.
func (d *deliveries) hear(m *nats.Msg) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if told := d.open[m.Subject]; told != nil {
		delete(d.open, m.Subject)
		told <- m
	}
}

func (d *deliveries) close() { _ = d.sub.Unsubscribe() }
