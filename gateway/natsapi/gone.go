package natsapi

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/kvslots/kvslots/gateway/internal/ops"
)

// askAtOnce is about how many clients of a line the server is asked at once.
const askAtOnce = 128

// lineOf returns the line in which a request may wait, or "": that of a pool or a lock, or of all
// calls of functions, whose locks only package forrst knows.
func (r *request) lineOf(call *ops.Call) string {
	switch {
	case r.reply == "" || !call.Cancels() || call.Grants && call.Wait == 0:
		return ""
	case call.Grants:
		return targetOf(call)
	}
	return call.Subject
}

// skipGone ends the first requests of a line whose clients have gone. It is called when the turn of
// one of these has come: each would delay those behind it by the milliseconds of a grant that is
// sent, not received and taken back.
func (s *Service) skipGone(line string) {
	var asking sync.WaitGroup
	var remain atomic.Bool
	for !remain.Load() {
		first := s.requests.ask(line)
		if len(first) == 0 {
			return
		}
		for _, w := range first {
			asking.Go(func() {
				if s.sender.Listens(w.reply) {
					s.requests.remains(w)
					remain.Store(true)
				} else {
					w.cancel(context.Canceled)
				}
			})
		}
		asking.Wait()
	}
}

func (r *requests) ask(line string) (first []*openRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.lines[line] {
		if !w.asked && len(first) < askAtOnce {
			w.asked = true
			first = append(first, w)
		}
	}
	return first
}

func (r *requests) remains(w *openRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w.asked = false
}
