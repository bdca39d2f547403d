package ops

import (
	"sync"
	"sync/atomic"

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
	open   atomic.Int64

	mu    sync.Mutex
	perIP map[string]int // nil without a limit

	refusedTotal, refusedPerIP atomic.Int64
}

// Limit sets the limits. It must be called before the first request.
func (w *Waits) Limit(limits WaitLimits) { w.limits, w.perIP = limits, map[string]int{} }

// Enter counts a request that is about to wait. When it has stopped waiting, the caller
// must call Leave with the same address. remote is the address and port of the client; the
// limit per address does not apply to "".
func (w *Waits) Enter(remote string) error {
	if open := w.open.Add(1); w.limits.Total > 0 && open > int64(w.limits.Total) {
		w.open.Add(-1)
		w.refusedTotal.Add(1)
		return wire.ErrMaxWaitersTotal
	}
	if !w.enterIP(remote) {
		w.open.Add(-1)
		w.refusedPerIP.Add(1)
		return wire.ErrMaxWaitersPerIP
	}
	return nil
}

func (w *Waits) enterIP(remote string) bool {
	if w.limits.PerIP == 0 || remote == "" {
		return true
	}
	ip := origin(remote)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.perIP[ip] >= w.limits.PerIP {
		return false
	}
	w.perIP[ip]++
	return true
}

// Leave ends the count of a request for which Enter returned nil.
func (w *Waits) Leave(remote string) {
	w.open.Add(-1)
	if w.limits.PerIP == 0 || remote == "" {
		return
	}
	ip := origin(remote)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.perIP[ip]--; w.perIP[ip] == 0 {
		delete(w.perIP, ip)
	}
}

// Refused returns the number of requests that each limit has refused.
func (w *Waits) Refused() (total, perIP int64) { return w.refusedTotal.Load(), w.refusedPerIP.Load() }
