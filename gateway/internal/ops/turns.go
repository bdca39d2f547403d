package ops

import (
	"context"
	"slices"
	"sync"

	"github.com/kvslots/kvslots/kvslots"
)

// Turns serializes the requests of each session over all transports, in the order of
// their arrival. A session without open requests uses no memory.
type Turns struct {
	mu    sync.Mutex
	lines map[string]*turnLine // by session with an open request
}

// turnLine contains the requests that wait for their turn. Each receives one value: nil
// when it is its turn, or an error.
type turnLine struct{ waiting []chan error }

// NewTurns returns an empty Turns.
func NewTurns() *Turns { return &Turns{lines: map[string]*turnLine{}} }

// Take waits for the turn of a session's request. The caller must call done once. Take
// returns kvslots.ErrSessionGone if the session ends meanwhile, and the cause of ctx if
// that ends first. It takes a free turn even if ctx has ended.
func (t *Turns) Take(ctx context.Context, session string) (done func(), err error) {
	mine := t.join(session)
	if mine == nil {
		return func() { t.next(session) }, nil
	}
	select {
	case err = <-mine:
	case <-ctx.Done():
		err = context.Cause(ctx)
		if !t.leave(session, mine) && <-mine == nil { // its turn came at the same time
			t.next(session)
		}
	}
	if err != nil {
		return nil, err
	}
	return func() { t.next(session) }, nil
}

// join appends a request to the session's line. It returns nil if it is the request's
// turn at once.
func (t *Turns) join(session string) (mine chan error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	line := t.lines[session]
	if line == nil {
		t.lines[session] = &turnLine{}
		return nil
	}
	mine = make(chan error, 1)
	line.waiting = append(line.waiting, mine)
	return mine
}

// leave removes a request from the line. It returns false if the request has received
// its value already.
func (t *Turns) leave(session string, mine chan error) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	line := t.lines[session]
	if line == nil {
		return false
	}
	i := slices.Index(line.waiting, mine)
	if i < 0 {
		return false
	}
	line.waiting = slices.Delete(line.waiting, i, i+1)
	return true
}

// next gives the turn to the session's next request.
func (t *Turns) next(session string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	line := t.lines[session]
	if len(line.waiting) == 0 {
		delete(t.lines, session)
		return
	}
	line.waiting[0] <- nil
	line.waiting = slices.Delete(line.waiting, 0, 1)
}

// End refuses the waiting requests of a session that has ended. The store refuses the
// request whose turn it is.
func (t *Turns) End(session string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	line := t.lines[session]
	if line == nil {
		return
	}
	for _, waiting := range line.waiting {
		waiting <- kvslots.ErrSessionGone
	}
	line.waiting = nil
}
