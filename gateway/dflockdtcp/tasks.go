package dflockdtcp

import "sync"

// tasks are goroutines that no connection has, for Finish to join.
type tasks struct {
	mu      sync.Mutex // wait begins between two calls of run
	running sync.WaitGroup
}

func (t *tasks) run(task func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running.Go(task)
}

func (t *tasks) wait() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running.Wait()
}
