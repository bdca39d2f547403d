package ops

import (
	"sync"
	"sync/atomic"
)

// Limits are exact limits of what is open at a gateway at once. 0 means no limit.
type Limits struct {
	Total int
	PerIP int // of one client: an address, for IPv6 a /64
}

// Limiter counts what is open, in all and of each client, and refuses what is beyond its
// limits. The zero Limiter has no limits. It is safe for concurrent use.
type Limiter[Client comparable] struct {
	limits Limits // set before the first use

	mu   sync.Mutex
	open int
	of   map[Client]int // unused without a limit

	Refused, RefusedPerIP atomic.Int64 // how many each limit has refused
}

// Verdict is whether a Limiter refuses something, and by which limit.
type Verdict int

const (
	Within Verdict = iota
	BeyondTotal
	BeyondPerIP
)

// Limit sets the limits. It must be called before the first use.
func (l *Limiter[Client]) Limit(limits Limits) { l.limits, l.of = limits, map[Client]int{} }

// Enter counts something of a client. If it is Within the limits, the caller must call Leave
// once. PerIP does not apply to the zero Client.
func (l *Limiter[Client]) Enter(client Client) Verdict {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.limits.Total > 0 && l.open >= l.limits.Total:
		l.Refused.Add(1)
		return BeyondTotal
	case l.isCounted(client) && l.of[client] >= l.limits.PerIP:
		l.RefusedPerIP.Add(1)
		return BeyondPerIP
	case l.isCounted(client):
		l.of[client]++
	}
	l.open++
	return Within
}

func (l *Limiter[Client]) isCounted(client Client) bool {
	return l.limits.PerIP > 0 && client != *new(Client)
}

func (l *Limiter[Client]) Leave(client Client) {
	l.LeaveTotal()
	l.LeaveIP(client)
}

// LeaveTotal and LeaveIP are the two parts of Leave, for what still counts for its client.
func (l *Limiter[Client]) LeaveTotal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
}

func (l *Limiter[Client]) LeaveIP(client Client) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isCounted(client) {
		if l.of[client]--; l.of[client] == 0 {
			delete(l.of, client)
		}
	}
}

// IsCrowded reports whether more than half of a limit is open: of all, or of a client.
func (l *Limiter[Client]) IsCrowded(client Client) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.limits.Total > 0 && 2*l.open > l.limits.Total || l.isCounted(client) && 2*l.of[client] > l.limits.PerIP
}

func (l *Limiter[Client]) Open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open
}
