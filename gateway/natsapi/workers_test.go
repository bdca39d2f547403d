package natsapi

import (
	"context"
	"sync"
	"testing"
)

// Tasks never wait for each other, however many there are, and at most maxIdle goroutines
// are kept.
func TestWorkers(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	w := newWorkers(ctx)
	for range 3 {
		const tasks = 3 * maxIdle
		begun, ended := sync.WaitGroup{}, sync.WaitGroup{}
		begun.Add(tasks)
		ended.Add(tasks)
		release := make(chan struct{})
		for range tasks {
			w.run(func() {
				defer ended.Done()
				begun.Done()
				<-release
			})
		}
		begun.Wait()
		close(release)
		ended.Wait()
	}
	if n := len(w.idle); n > maxIdle {
		t.Errorf("%d goroutines are idle", n)
	}
	cancel()
	w.running.Wait()
}
