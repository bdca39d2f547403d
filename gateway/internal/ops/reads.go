package ops

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/kvslots/kvslots/kvslots/wire"
)

// Reads serializes the reads of lists and statistics, each of which looks at all pools, the look-ups of pools by a part of
// their hashes or by name, long pages of what a pool holds, and the metrics, over all transports of a gateway. Clients take
// turns: each may have one read queued. Callers that wait for the same read share one. After each read Reads pauses for as
// long as the read took, and for as long as its callers are answered: a read takes as long as many other calls, and the
// store serves none of them for a part of that time. The zero Reads is ready for use.
type Reads struct {
	mu     sync.Mutex
	busy   bool // a read is being performed, or a pause is under way
	queued []*read
}

const (
	// maxCallers is how many callers of one client may share a read, such as pages of one address.
	maxCallers = 16

	// answerTime is about how long an answer takes.
	answerTime = time.Millisecond / 2
)

// read is a read that is queued or being performed. One of its callers performs it for all.
type read struct {
	of      any // what is read
	client  string
	callers map[string]int // that wait, by client
	turn    chan struct{}  // has an element when the read is to be performed
	done    chan struct{}  // closed when answer and err are set
	answer  any
	err     error
}

// errReadFailed is the error of callers that shared a read which has panicked in another caller.
var errReadFailed = errors.New("a shared read has failed")

// Do returns the answer of perform, in the client's turn, or of another caller's perform for the
// same comparable value of, if that begins after Do is called. The errors are those of perform,
// wire.ErrMaxReads if the client has another read or maxCallers calls queued, and the cause of ctx.
func (r *Reads) Do(ctx context.Context, client string, of any, perform func(context.Context) (any, error)) (any, error) {
	mine, err := r.join(client, of)
	if err != nil {
		return nil, err
	}
	select {
	case <-mine.turn:
		r.perform(context.WithoutCancel(ctx), mine, perform)
	case <-mine.done:
	case <-ctx.Done():
		r.leave(mine, client)
		return nil, context.Cause(ctx)
	}
	return mine.answer, mine.err
}

func (r *Reads) join(client string, of any) (*read, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, q := range r.queued {
		switch {
		case q.of == of && q.callers[client] < maxCallers:
			q.callers[client]++
			return q, nil
		case q.of == of, q.client == client:
			return nil, wire.ErrMaxReads
		}
	}
	mine := &read{of: of, client: client, callers: map[string]int{client: 1}, turn: make(chan struct{}, 1), done: make(chan struct{}), err: errReadFailed}
	r.queued = append(r.queued, mine)
	if !r.busy {
		r.begin()
	}
	return mine, nil
}

// begin gives the first read that is queued its turn. It remains queued until one of its callers
// performs it.
func (r *Reads) begin() {
	if r.busy = len(r.queued) > 0; r.busy {
		r.queued[0].turn <- struct{}{}
	}
}

func (r *Reads) perform(ctx context.Context, mine *read, perform func(context.Context) (any, error)) {
	r.mu.Lock()
	r.queued = slices.Delete(r.queued, 0, 1)
	answers := time.Duration(0)
	for _, n := range mine.callers {
		answers += time.Duration(n) * answerTime
	}
	r.mu.Unlock()
	began := time.Now()
	defer func() {
		close(mine.done)
		time.AfterFunc(time.Since(began)+answers, func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.begin()
		})
	}()
	mine.answer, mine.err = perform(ctx)
}

// leave takes a caller out. A read without callers is not performed, and passes its turn on.
func (r *Reads) leave(mine *read, client string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := slices.Index(r.queued, mine)
	if mine.callers[client]--; mine.callers[client] == 0 {
		delete(mine.callers, client)
	}
	if len(mine.callers) > 0 || at < 0 {
		return
	}
	r.queued = slices.Delete(r.queued, at, at+1)
	if len(mine.turn) > 0 {
		r.begin()
	}
}

// Read is Reads.Do, for up to turnTimeout.
func (l *Lending) Read(ctx context.Context, client string, of any, perform func(context.Context) (any, error)) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, turnTimeout)
	defer cancel()
	return l.Reads.Do(ctx, client, of, perform)
}

// read performs a read that takes long: see Reads.
func (s *Service) read(ctx context.Context, call *Call, of any, perform func(context.Context) (any, error)) (err error) {
	client, err := "", wire.ErrBusy
	for client = range call.Origins() {
		err = nil
		break
	}
	if err == nil {
		call.Answer, err = s.Lending.Read(ctx, client, of, perform)
	}
	return err
}
