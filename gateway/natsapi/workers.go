package natsapi

import (
	"context"
	"sync"
)

// maxIdle is how many goroutines are kept for the requests to come.
const maxIdle = 128

// workers run tasks, each in a goroutine that runs nothing else meanwhile. Those that
// are done wait for another task: a new goroutine would have to grow its stack again,
// which took a twentieth of the time of a request.
type workers struct {
	tasks   chan func()   // for the idle ones
	idle    chan struct{} // as many as there are of them
	stopped <-chan struct{}
	running sync.WaitGroup
}

// newWorkers is workers that end, when their tasks are done, after ctx has ended.
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

// next waits for another task; nil means that the worker is to end.
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
