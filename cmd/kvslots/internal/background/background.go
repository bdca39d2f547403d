// Package background runs functions in goroutines that their starters end and join.
package background

import (
	"context"
	"sync"
)

// Run calls do in another goroutine. stop ends the context of do, and waits until
// do has returned.
func Run(do func(ctx context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { do(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}
