package natsembed

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// idlePass is how often the blocks are flushed when no caller waits for it.
const idlePass = time.Second

// ErrNotDurable is returned when it is not known whether a write survives a power
// cut: it could not be flushed, or the server is about to stop.
var ErrNotDurable = errors.New("natsembed: the write was not flushed to disk")

// Flusher flushes what the server has acknowledged, in groups: one flush covers
// every write before it, of however many callers.
//
// The server runs without its own flush of each write. A caller whose write was
// acknowledged must not rely on it, and must tell no other of it, before Durable
// has called back. That holds for what was read, too: entries can be read before
// they are flushed.
//
// One goroutine makes one pass after the other over the block files of the bucket
// account's streams. A pass serves the callers that came before it began; those
// that come meanwhile are served by the next one. No pass waits for more callers.
type Flusher struct {
	streams string // the directory of the streams
	top     string // directories are flushed up to here
	failed  func(error)
	sync    func(*os.File) error // flushes a block or a directory

	mu    sync.Mutex
	batch []func(error)
	err   error // set once: nothing is flushed any more

	wake chan struct{}
	stop chan struct{}
	done chan struct{}

	// The rest is the goroutine's.
	blocks map[string]*blocks // by stream
	watch  *watch             // of the directories that a pass lists
	listed bool               // and the watch has reported no change since
}

// newFlusher starts a flusher. failed is called once if it cannot go on.
func newFlusher(dir *dataDir, failed func(error), sync func(*os.File) error) *Flusher {
	f := &Flusher{
		streams: dir.streamsPath(), top: filepath.Dir(dir.path), failed: failed, sync: sync,
		wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
		blocks: map[string]*blocks{}, watch: newWatch(dir.path),
	}
	go f.run()
	return f
}

// Durable calls then once everything that the server acknowledged before the call
// survives a power cut. It does not block. then is called once, possibly before
// Durable returns, and must not block; its error, which wraps ErrNotDurable, says
// that this is not known, nor ever will be. Durable may be called concurrently.
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
	var spare []func(error)
	for {
		select {
		case <-f.stop:
			f.end(ErrNotDurable)
			return
		case <-f.wake:
		case <-idle.C:
		}
		batch := f.take(spare)
		err := f.pass()
		full := isFull(err)
		if err != nil && !full {
			err = f.fail(err)
		}
		for _, then := range batch {
			then(err)
		}
		if err == nil {
			err = f.drop()
		}
		if err != nil && !full {
			f.end(f.fail(err))
			return
		}
		clear(batch)
		spare = batch[:0]
	}
}

// take closes the batch: who comes now is for the next pass.
func (f *Flusher) take(spare []func(error)) []func(error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	batch := f.batch
	f.batch = spare
	return batch
}

// fail notes the error that ends everything. What could not be flushed is never
// flushed again: the kernel may have dropped it, and would report success.
func (f *Flusher) fail(err error) error {
	if errors.Is(err, ErrNotDurable) {
		return err
	}
	err = fmt.Errorf("%w: %w", ErrNotDurable, err)
	f.mu.Lock()
	f.err = err
	f.mu.Unlock()
	f.failed(err)
	return err
}

// end answers all callers that wait, or come later, with an error.
func (f *Flusher) end(err error) {
	f.mu.Lock()
	if f.err == nil {
		f.err = err
	}
	batch := f.batch
	f.batch = nil
	f.mu.Unlock()
	for _, then := range batch {
		then(err)
	}
	for _, s := range f.blocks {
		_ = s.close() // nothing is written through these descriptors
	}
	f.watch.close()
}

// pass flushes every stream. It lists the streams and their blocks only if names have
// changed: that takes half as long as a flush.
func (f *Flusher) pass() error {
	f.listed = !f.watch.changed() && f.listed
	if f.listed {
		return f.flushHeld()
	}
	watched := f.watch.add(f.streams) // before it is listed, and so below
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

// flushHeld flushes the blocks that the last pass has found.
func (f *Flusher) flushHeld() error {
	for name, s := range f.blocks {
		if err := s.flushHeld(); err != nil {
			return fmt.Errorf("stream %s: %w", name, err)
		}
	}
	return nil
}

// flushAll flushes the streams of these names, and forgets others.
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

// flush flushes one stream. A stream without a meta file is being created, and
// nothing in it was acknowledged; or it is being deleted.
func (f *Flusher) flush(name string) error {
	s := f.blocks[name]
	if s == nil {
		s = newBlocks(filepath.Join(f.streams, name), f.top, f.sync)
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

// drop removes the links that the pass has made superfluous.
func (f *Flusher) drop() error {
	for _, s := range f.blocks {
		if err := s.drop(); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// close ends the flusher. Callers that still wait get ErrNotDurable.
func (f *Flusher) close() {
	close(f.stop)
	<-f.done
}
