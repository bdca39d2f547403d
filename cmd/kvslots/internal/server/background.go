package server

import (
	"context"
	"sync"
)

// Background calls do in another goroutine. stop ends the context of do, and waits until
// do has returned.
func Background(do func(ctx context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { do(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}
