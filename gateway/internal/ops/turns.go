package ops

import (
	"context"
	"slices"
	"sync"

	"github.com/kvslots/kvslots/kvslots"
)

// Turns serves the requests of each session one after the other, in the order
// in which they came, whichever door they came through. The sessions that have
// no request under way take no memory.
type Turns struct {
	mu    sync.Mutex
	lines map[string]*turnLine // of the sessions that have a request under way
}

// turnLine are the requests behind the one that is being served; each is told
// once, by nil that it is its turn.
type turnLine struct{ waiting []chan error }

// NewTurns returns turns in which no request waits.
func NewTurns() *Turns { return &Turns{lines: map[string]*turnLine{}} }

// Take waits for the turn of a session's request; done, called once, ends it.
// It returns kvslots.ErrSessionGone when the session was ended here meanwhile,
// and the cause of ctx when that ends first. A turn that is free is taken
// whatever has become of ctx.
func (t *Turns) Take(ctx context.Context, session string) (done func(), err error) {
	mine := t.enter(session)
	if mine == nil {
		return func() { t.pass(session) }, nil
	}
	select {
	case err = <-mine:
	case <-ctx.Done():
		err = context.Cause(ctx)
		if !t.leave(session, mine) && <-mine == nil { // it was told in the same instant
			t.pass(session)
		}
	}
	if err != nil {
		return nil, err
	}
	return func() { t.pass(session) }, nil
}

// enter is nil when it is the caller's turn at once.
func (t *Turns) enter(session string) (mine chan error) {
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

// leave returns false for who was told already.
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

// pass gives the turn to the next.
func (t *Turns) pass(session string) {
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

// End refuses the requests that wait: their session has ended. The request that is
// being served finds out by itself.
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
