package natsapi

import (
	"context"
	"sync"
)

// maxIdle is how many idle goroutines are kept for later requests.
const maxIdle = 128

// workers runs tasks, each in a goroutine that runs no other task meanwhile. A goroutine
// whose task is done waits for another one: a new goroutine would have to grow its stack
// again, which took a twentieth of the time of a request.
type workers struct {
	tasks   chan func()   // for idle goroutines
	idle    chan struct{} // a value for each idle goroutine
	stopped <-chan struct{}
	running sync.WaitGroup
}

// newWorkers returns workers whose goroutines end, when their tasks are done, after ctx
// has ended.
func newWorkers(ctx context.Context) *workers {
	return &workers{tasks: make(chan func()), idle: make(chan struct{}, maxIdle), stopped: ctx.Done()}
}

// run runs a task. It does not block.
func (w *workers) run(task func()) {
	select {
	case w.tasks <- task:
	default:
		w.running.Go(func() { w.work(task) })
	}
}

func (w *workers) work(task func()) {
	for task != nil {
		task()
		task = w.next()
	}
}

// next waits for another task. It returns nil if the goroutine should end.
func (w *workers) next() func() {
	select {
	case w.idle <- struct{}{}:
	default:
		return nil
	}
	select {
	case task := <-w.tasks:
		<-w.idle
		return task
	case <-w.stopped:
		return nil
	}
}
