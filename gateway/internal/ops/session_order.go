package ops

import (
	"context"
	"sync"

	"github.com/kvslots/kvslots/kvslots"
)

// Turns serializes the requests of each session over all transports, in the order of
// their arrival. A session without open requests uses no memory.
type Turns struct {
	mu    sync.Mutex
	lines map[string]*turnLine // by session with an open request
}

// turnLine is the line of a session's open requests. The request that has received from
// free is being served, and the others block in receiving, in their order.
type turnLine struct {
	free     chan struct{} // has an element while no request is being served
	requests int
	ended    bool // the session has ended, and free is closed
}

func NewTurns() *Turns { return &Turns{lines: map[string]*turnLine{}} }

// Take waits for the turn of a session's request. The caller must call done once. Take
// returns kvslots.ErrSessionGone if the session ends meanwhile, and the cause of ctx if
// that ends first. It takes a free turn even if ctx has ended.
func (t *Turns) Take(ctx context.Context, session string) (done func(), err error) {
	line, taken := t.join(session), false
	select {
	case _, taken = <-line.free:
	default:
		select {
		case _, taken = <-line.free:
		case <-ctx.Done():
			t.leave(session, line, false)
			return nil, context.Cause(ctx)
		}
	}
	if !taken {
		t.leave(session, line, false)
		return nil, kvslots.ErrSessionGone
	}
	return func() { t.leave(session, line, true) }, nil
}

// join adds a request to the session's line.
func (t *Turns) join(session string) *turnLine {
	t.mu.Lock()
	defer t.mu.Unlock()
	line := t.lines[session]
	if line == nil {
		line = &turnLine{free: make(chan struct{}, 1)}
		line.free <- struct{}{}
		t.lines[session] = line
	}
	line.requests++
	return line
}

// leave takes a request out of its line. If the request was served, the next one has its
// turn.
func (t *Turns) leave(session string, line *turnLine, served bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if line.requests--; line.requests == 0 {
		delete(t.lines, session)
	} else if served && !line.ended {
		line.free <- struct{}{}
	}
}

// End refuses the waiting requests of a session that has ended. The store refuses the
// request whose turn it is.
func (t *Turns) End(session string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if line := t.lines[session]; line != nil && !line.ended {
		line.ended = true
		close(line.free)
	}
}
