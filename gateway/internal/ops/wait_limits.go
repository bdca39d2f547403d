package ops

import (
	"sync"

	"github.com/kvslots/kvslots/kvslots/wire"
)

// WaitLimits are exact limits of the requests that wait at one gateway at once. 0 means no
// limit.
type WaitLimits struct {
	Total int // over all transports
	PerIP int // of one client address over HTTP, for IPv6 of one /64
}

// Waits counts waiting requests, and refuses those beyond the limits. The zero Waits has no
// limits. It is safe for concurrent use.
type Waits struct {
	limits WaitLimits // set before the first request

	mu                         sync.Mutex
	open                       int
	perIP                      map[string]int // unused without a limit
	refusedTotal, refusedPerIP int64
}

// Limit sets the limits. It must be called before the first request.
func (w *Waits) Limit(limits WaitLimits) { w.limits, w.perIP = limits, map[string]int{} }

// Enter counts a request that is about to wait. When it has stopped waiting, the caller
// must call Leave with the same address. remote is the address and port of the client; the
// limit per address does not apply to "".
func (w *Waits) Enter(remote string) error {
	ip := w.counted(remote)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.limits.Total > 0 && w.open >= w.limits.Total:
		w.refusedTotal++
		return wire.ErrMaxWaitersTotal
	case ip != "" && w.perIP[ip] >= w.limits.PerIP:
		w.refusedPerIP++
		return wire.ErrMaxWaitersPerIP
	case ip != "":
		w.perIP[ip]++
	}
	w.open++
	return nil
}

// counted returns the key in perIP of a client, or "" if no limit applies to it.
func (w *Waits) counted(remote string) string {
	if w.limits.PerIP == 0 || remote == "" {
		return ""
	}
	return Origin(remote)
}

// Leave ends the count of a request for which Enter returned nil.
func (w *Waits) Leave(remote string) {
	ip := w.counted(remote)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open--
	if ip != "" {
		if w.perIP[ip]--; w.perIP[ip] == 0 {
			delete(w.perIP, ip)
		}
	}
}

// Refused returns the number of requests that each limit has refused.
func (w *Waits) Refused() (total, perIP int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.refusedTotal, w.refusedPerIP
}
