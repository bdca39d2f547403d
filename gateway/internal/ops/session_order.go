package ops

import (
	"context"
	"sync"

	"github.com/kvslots/kvslots/kvslots"
)

// Turns serializes the requests of each session for each key over all transports, in the order
// of their arrival. A session without open requests uses no memory.
type Turns struct {
	mu       sync.Mutex
	sessions map[string]map[string]*turnLine // by session with an open request, and by key
}

// turnLine is the line of a session's open requests for a key. The request that has received
// from free is being served, and the others block in receiving, in their order.
type turnLine struct {
	free     chan struct{} // has an element while no request is being served
	requests int
	ended    bool // the session has ended, and free is closed
}

func NewTurns() *Turns { return &Turns{sessions: map[string]map[string]*turnLine{}} }

// Take waits for the turn of a session's request for a key. The caller must call done once.
// Take returns kvslots.ErrSessionGone if the session ends meanwhile, and the cause of ctx if
// that ends first. It takes a free turn even if ctx has ended.
func (t *Turns) Take(ctx context.Context, session, key string) (done func(), err error) {
	line, taken := t.join(session, key), false
	leave := func() { t.leave(session, key, line, taken) }
	select {
	case _, taken = <-line.free:
	default:
		select {
		case _, taken = <-line.free:
		case <-ctx.Done():
			leave()
			return nil, context.Cause(ctx)
		}
	}
	if !taken {
		leave()
		return nil, kvslots.ErrSessionGone
	}
	return leave, nil
}

func (t *Turns) join(session, key string) *turnLine {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := t.sessions[session]
	if lines == nil {
		lines = map[string]*turnLine{}
		t.sessions[session] = lines
	}
	line := lines[key]
	if line == nil {
		line = &turnLine{free: make(chan struct{}, 1)}
		line.free <- struct{}{}
		lines[key] = line
	}
	line.requests++
	return line
}

// leave takes a request out of its line. If the request was served, the next one has its
// turn.
func (t *Turns) leave(session, key string, line *turnLine, served bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if line.requests--; line.requests > 0 {
		if served && !line.ended {
			line.free <- struct{}{}
		}
		return
	}
	lines := t.sessions[session]
	if delete(lines, key); len(lines) == 0 {
		delete(t.sessions, session)
	}
}

// End refuses the waiting requests of a session that has ended. The store refuses the
// requests whose turn it is.
func (t *Turns) End(session string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, line := range t.sessions[session] {
		if !line.ended {
			line.ended = true
			close(line.free)
		}
	}
}
