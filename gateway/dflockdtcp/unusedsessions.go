package dflockdtcp

import (
	"sync"
	"time"
)

const (
	// reuseTime is how long a session without a connection waits for the next one.
	reuseTime = time.Second

	// maxUnused is how many sessions of one origin wait at most.
	maxUnused = 64
)

// unusedSessions are the sessions of connections that have ended, and that certainly hold and
// wait for nothing: all that they took was released. The next connection of their origin gets
// one of them instead of a new one. Clients that dial for each lock so cost the store half as
// many writes, and leave no tombstones.
type unusedSessions struct {
	mu      sync.Mutex            // guards session.client, too
	by      map[string][]*session // by origin, the latest last
	count   int
	stopped bool
}

// add keeps a session for the next connection, unless enough are kept.
func (u *unusedSessions) add(s *session) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	origin := s.client.origin
	if u.stopped || len(u.by[origin]) >= maxUnused {
		return false
	}
	s.next(reuseTime)
	u.by[origin] = append(u.by[origin], s)
	u.count++
	return true
}

func (u *unusedSessions) take(c *conn) *session {
	u.mu.Lock()
	defer u.mu.Unlock()
	list := u.by[c.origin]
	if len(list) == 0 {
		return nil
	}
	s := list[len(list)-1]
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.used) > s.every { // the process was suspended: the session may have ended
		return nil
	}
	s.client = c
	s.timer.Reset(s.every)
	u.drop(c.origin, len(list)-1)
	return s
}

// remove reports whether a session waited for a connection, which it does no longer.
func (u *unusedSessions) remove(s *session) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	origin := s.client.origin
	for i, found := range u.by[origin] {
		if found == s {
			u.drop(origin, i)
			return true
		}
	}
	return false
}

func (u *unusedSessions) drop(origin string, i int) {
	list := u.by[origin]
	copy(list[i:], list[i+1:])
	list[len(list)-1] = nil
	if u.by[origin] = list[:len(list)-1]; len(list) == 1 {
		delete(u.by, origin)
	}
	u.count--
}

func (u *unusedSessions) len() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.count
}

func (u *unusedSessions) stop() {
	u.mu.Lock()
	u.stopped = true
	by := u.by
	u.by, u.count = nil, 0
	u.mu.Unlock()
	var all sync.WaitGroup
	for _, list := range by {
		for _, s := range list {
			all.Go(s.end)
		}
	}
	all.Wait()
}
