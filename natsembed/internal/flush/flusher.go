package flush

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"sync"
	"time"
)

// idlePass is how often the blocks are flushed when no caller waits.
const idlePass = time.Second

// ErrNotDurable is returned when a write may not survive a power cut: the flush
// failed, or the server is stopping.
var ErrNotDurable = errors.New("the write was not flushed to disk")

var errStopped = errors.New("the server is stopping")

// Flusher flushes acknowledged writes in groups: one flush covers every write before
// it, of any number of callers.
//
// With a Flusher, nats-server itself does not flush each write. A caller must not
// rely on an acknowledged write, nor answer a client on the strength of it, before
// Durable has called back. The same holds for entries that a caller has read: an entry
// can be read before it is flushed.
//
// One goroutine makes passes over the block files of the streams, one pass after the other. A
// pass serves the callers that came before it began; the next pass serves later ones. A pass
// yields the processor once, to callers that can run, if the pass before served several; it
// does not wait for them. A pass fails as long as nats-server reports a write error.
type Flusher struct {
	streams  string // the directory of the streams
	writeErr func() error
	failed   func(error)
	flushed  func(took time.Duration, callers int)
	sync     Syncer

	mu      sync.Mutex
	batch   []func(error) // callers of the next pass
	serving []func(error) // callers of the pass under way
	err     error         // set once; nothing is flushed afterwards

	passing sync.Mutex // held during a pass and its callbacks

	wake chan struct{}
	stop chan struct{}
	done chan struct{}

	// Only the holder of passing uses these.
	blocks map[string]*blocks // by stream
	watch  *watch             // of the directories that a pass lists
	listed bool               // whether the last listing is up to date unless watch reports a change
}

// Start makes a first pass and starts a Flusher. writeErr returns the write error that
// nats-server has reported, or nil. The Flusher calls failed once if a flush fails or writeErr
// returns an error that does not pass, and flushed, if it is not nil, after each flush for which
// callers waited.
func (d *Dir) Start(writeErr func() error, failed func(error), flushed func(took time.Duration, callers int)) (*Flusher, error) {
	f := &Flusher{
		streams: d.streams, writeErr: writeErr, failed: failed, flushed: flushed, sync: d.sync,
		wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
		blocks: map[string]*blocks{}, watch: newWatch(d.path),
	}
	if err := f.pass(); err != nil {
		f.end(err)
		return nil, err
	}
	go f.run()
	return f, nil
}

// Durable calls then(nil) once everything that the server acknowledged before the
// call survives a power cut, or then with an error that wraps ErrNotDurable if that
// will never be known. Durable does not block. It calls then exactly once, possibly
// before it returns; then must not block. Durable is safe for concurrent use.
func (f *Flusher) Durable(then func(error)) {
	f.mu.Lock()
	if err := f.err; err != nil {
		f.mu.Unlock()
		then(err)
		return
	}
	f.batch = append(f.batch, then)
	first := len(f.batch) == 1
	f.mu.Unlock()
	if first {
		select {
		case f.wake <- struct{}{}:
		default:
		}
	}
}

func (f *Flusher) run() {
	defer close(f.done)
	idle := time.NewTicker(idlePass)
	defer idle.Stop()
	served := 0 // by the last pass
	for {
		select {
		case <-f.stop:
			f.end(errStopped)
			return
		case <-f.wake:
		case <-idle.C:
		}
		if served > 1 { // they may be about to write again: let them run, so that this pass covers it
			runtime.Gosched()
		}
		served = f.serve()
		if f.hasFailed() {
			f.end(nil)
			return
		}
	}
}

// serve makes a pass, and returns the number of its callers.
func (f *Flusher) serve() int {
	f.passing.Lock()
	defer f.passing.Unlock()
	served := f.closeBatch()
	began := time.Now()
	err := f.noteError(cmp.Or(f.pass(), f.writeErr()))
	if f.flushed != nil && served > 0 {
		f.flushed(time.Since(began), served)
	}
	for _, then := range f.takeServing() {
		then(err)
	}
	if err == nil {
		_ = f.noteError(f.drop(reportTime)) // no caller waits for it
	}
	return served
}

// closeBatch returns the number of callers that the next pass serves. Later callers join
// the batch of the pass after it.
func (f *Flusher) closeBatch() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.serving, f.batch = f.batch, nil
	return len(f.serving)
}

// takeServing returns the callers of the pass, unless Abandon has called them back.
func (f *Flusher) takeServing() []func(error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	batch := f.serving
	f.serving = nil
	return batch
}

// Started must be called when nats-server has started. It makes a pass and drops the links of
// blocks that nats-server has removed meanwhile. Otherwise a server that is killed again and
// again, each time before reportTime is over, would put back every block that it has ever had.
// nats-server makes its first flush a minute at the earliest after it has opened a stream, so
// that there is no report to wait for.
func (f *Flusher) Started() error {
	f.passing.Lock()
	defer f.passing.Unlock()
	if f.hasFailed() {
		return nil // which failed has been told
	}
	err := f.pass()
	if err == nil {
		err = f.drop(0)
	}
	if Retriable(err) {
		return nil // a later pass succeeds, or fails too
	}
	return err
}

// AwaitPass blocks while a pass is under way.
func (f *Flusher) AwaitPass() {
	f.passing.Lock()
	defer f.passing.Unlock()
}

// noteError returns an error of a pass as the callers get it. Unless the next pass may
// succeed, the error ends the Flusher: nothing is flushed after it.
func (f *Flusher) noteError(err error) error {
	if err == nil {
		return nil
	}
	last := !Retriable(err)
	err = notDurable(err)
	if last {
		f.mu.Lock()
		f.err = err
		f.mu.Unlock()
		f.failed(err)
	}
	return err
}

func notDurable(err error) error { return fmt.Errorf("%w: %w", ErrNotDurable, err) }

func (f *Flusher) hasFailed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err != nil
}

// Abandon calls back all waiting and later callers, including those of a pass that hangs,
// with the error that ended the Flusher, or else with one that wraps err.
func (f *Flusher) Abandon(err error) {
	f.mu.Lock()
	if f.err == nil {
		f.err = notDurable(err)
	}
	err = f.err
	waiting := append(f.serving, f.batch...)
	f.serving, f.batch = nil, nil
	f.mu.Unlock()
	for _, then := range waiting {
		then(err)
	}
}

// end abandons the callers and releases files.
func (f *Flusher) end(err error) {
	f.Abandon(err)
	for _, s := range f.blocks {
		_ = s.close() // nothing is written through these descriptors
	}
	f.watch.close()
}

// pass flushes every stream. It lists the streams and their blocks only if names have
// changed: a listing takes half as long as a flush.
func (f *Flusher) pass() error {
	f.listed = !f.watch.changed() && f.listed
	if f.listed {
		return f.flushOpen()
	}
	watched := f.watch.add(f.streams) // each directory is watched before it is listed
	names, err := listStreams(f.streams)
	if err != nil {
		return err
	}
	for _, name := range names {
		added := f.watch.add(f.streams, name) && f.watch.add(f.streams, name, msgsDir)
		watched = watched && added
	}
	if err := f.flushAll(names); err != nil {
		return err
	}
	f.listed = watched
	return nil
}

func (f *Flusher) flushOpen() error {
	for name, s := range f.blocks {
		if err := s.flushOpen(); err != nil {
			return fmt.Errorf("stream %s: %w", name, err)
		}
	}
	return nil
}

func (f *Flusher) flushAll(names []string) error {
	found := make(map[string]bool, len(names))
	for _, name := range names {
		found[name] = true
		if err := f.flush(name); err != nil {
			return fmt.Errorf("stream %s: %w", name, err)
		}
	}
	for name, s := range f.blocks {
		if !found[name] {
			delete(f.blocks, name)
			if err := s.close(); err != nil {
				return err
			}
		}
	}
	return nil
}

// flush flushes one stream. A stream without a meta file has no acknowledged writes to
// flush: nats-server is still creating it, or is deleting it.
func (f *Flusher) flush(name string) error {
	s := f.blocks[name]
	if s == nil {
		s = newBlocks(filepath.Join(f.streams, name), f.sync)
		f.blocks[name] = s
	}
	err := s.flush()
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if there, err2 := s.exists(); err2 != nil || there {
		return errors.Join(err, err2)
	}
	delete(f.blocks, name)
	return s.close()
}

// drop removes links that have been superfluous for some time. It must be called after a pass.
func (f *Flusher) drop(after time.Duration) error {
	if err := f.writeErr(); err != nil {
		return err
	}
	for _, s := range f.blocks {
		if err := s.drop(after); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Close stops the Flusher. Callers that still wait get ErrNotDurable.
func (f *Flusher) Close() {
	close(f.stop)
	<-f.done
}
