package natsclient

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/client"
)

// requests are those on a connection that wait for their answers. They end when the connection is lost, which
// those of nats.Conn do not: a gateway that stops together with its NATS server never answers.
type requests struct {
	nc      *nats.Conn
	prefix  string // of the reply subjects
	answers *nats.Subscription
	changes chan nats.Status

	mu   sync.Mutex
	open map[string]waiting // by reply subject
}

// waiting is a request that waits for its answer.
type waiting struct {
	answer     chan *nats.Msg // closed when the connection is lost
	connection uint64         // how often nc had reconnected when the request was sent
}

func newRequests(nc *nats.Conn) (*requests, error) {
	r := &requests{nc: nc, prefix: nc.NewInbox() + ".", open: map[string]waiting{}}
	var err error
	if r.answers, err = nc.Subscribe(r.prefix+"*", r.answered); err != nil {
		return nil, unsent(nc, err)
	}
	r.changes = nc.StatusChanged(nats.RECONNECTING, nats.DISCONNECTED, nats.CLOSED)
	go r.watch()
	return r, nil
}

// close ends the requests, and leaves the connection open.
func (r *requests) close() {
	_ = r.answers.Unsubscribe()
	r.nc.RemoveStatusListener(r.changes)
	r.end(func(waiting) bool { return true })
}

// ask sends a request and returns the answer. The errors are a *client.Unanswered, errConnectionClosed, and
// context.Cause(ctx). Without a connection it sends nothing: nats.Conn would keep the
// request, and send it much later.
func (r *requests) ask(ctx context.Context, m *nats.Msg) (*nats.Msg, error) {
	w := waiting{make(chan *nats.Msg, 1), r.nc.Stats().Reconnects}
	m.Reply = r.prefix + strconv.FormatUint(rand.Uint64(), 36)
	r.mu.Lock()
	r.open[m.Reply] = w
	r.mu.Unlock()
	defer r.take(m.Reply)
	if !r.nc.IsConnected() {
		return nil, whyDisconnected(r.nc)
	}
	if err := r.nc.PublishMsg(m); err != nil {
		return nil, unsent(r.nc, err)
	}
	select {
	case answer, connected := <-w.answer:
		switch {
		case !connected:
			return nil, whyDisconnected(r.nc)
		case len(answer.Data) == 0 && answer.Header.Get("Status") == "503":
			return nil, unanswered(errors.New("no gateway is there"))
		}
		return answer, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// take removes a request from those that are open.
func (r *requests) take(reply string) (w waiting, open bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w, open = r.open[reply]
	delete(r.open, reply)
	return w, open
}

func (r *requests) answered(m *nats.Msg) {
	if w, open := r.take(m.Subject); open {
		w.answer <- m
	}
}

// watch ends the requests whose connection is lost, until the connection or the requests are closed. Those that
// were sent since it was made again have another.
func (r *requests) watch() {
	for range r.changes {
		r.end(func(w waiting) bool { return !r.nc.IsConnected() || r.nc.Stats().Reconnects != w.connection })
		if r.nc.IsClosed() {
			return
		}
	}
}

func (r *requests) end(lost func(waiting) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for reply, w := range r.open {
		if lost(w) {
			delete(r.open, reply)
			close(w.answer)
		}
	}
}

// errDisconnected is the cause when there is no connection, or it is lost: the answer cannot arrive any more.
var errDisconnected = unanswered(errors.New("not connected"))

// errConnectionClosed is the cause when the connection will not come back.
var errConnectionClosed = fmt.Errorf("%w: the connection to NATS", kvslots.ErrClosed)

func whyDisconnected(nc *nats.Conn) error {
	if nc.IsClosed() {
		return errConnectionClosed
	}
	return errDisconnected
}

// unsent returns the error of a request that a connection did not take.
func unsent(nc *nats.Conn, err error) error {
	if !nc.IsConnected() {
		return whyDisconnected(nc)
	}
	return unanswered(err)
}

func unanswered(err error) error { return &client.Unanswered{Err: fmt.Errorf("NATS: %w", err)} }
