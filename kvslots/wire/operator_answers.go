package wire

import (
	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/reads"
)

const (
	TypePool      = "pool"
	TypeLock      = "lock"
	TypeSemaphore = "semaphore"
)

// PoolInfo is a pool, or that of a lock or a semaphore, in the answers to operators. Times are in
// seconds.
type PoolInfo struct {
	Hash    string `json:"hash"`
	Type    string `json:"type"`
	Name    string `json:"name,omitempty"` // see kvslots.WithName
	Key     string `json:"key,omitempty"`  // of a lock or a semaphore
	Dialect string `json:"dialect,omitempty"`
	reads.State
	OldestWait  float64 `json:"oldest_wait_s"`
	Expired     int     `json:"expired"` // leases within the last hour
	Out         int     `json:"out"`     // positions out of service
	Paused      bool    `json:"paused"`
	PauseReason string  `json:"pause_reason,omitempty"`
}

// HolderInfo is a lease, without its id.
type HolderInfo struct {
	Position  int     `json:"position"`
	Label     string  `json:"label"`
	Fence     uint64  `json:"fence"`
	Age       float64 `json:"age_s"`
	ExpiresIn float64 `json:"expires_in_s"`
	Owner     uint64  `json:"owner_conn_id,omitempty"` // see kvslots.HolderStats
}

// WaiterInfo is a place in line.
type WaiterInfo struct {
	Place  int     `json:"place"`
	Label  string  `json:"label"`
	Waited float64 `json:"waited_s"`
	Owner  uint64  `json:"owner_conn_id,omitempty"`
}

// OutInfo is a position that is out of service.
type OutInfo struct {
	Position int    `json:"position"`
	Reason   string `json:"reason"`
}

// PoolDetail is what a pool holds. Leases and Line are nil if the request does not ask for them.
type PoolDetail struct {
	PoolInfo
	OutOfService []OutInfo    `json:"out_of_service"`
	Leases       []HolderInfo `json:"leases,omitzero"`
	NextFrom     int          `json:"next_from,omitempty"` // the position where the next page of leases begins; 0: this is the last
	Line         []WaiterInfo `json:"line,omitzero"`
	NextAfter    int          `json:"next_after,omitempty"` // the place after which the next page of the line begins; likewise
}

// PoolList is a page of pools.
type PoolList struct {
	Pools []PoolInfo `json:"pools"`
	Next  string     `json:"next,omitempty"` // where the next page begins; "": this is the last
}

// Inspection is the answer to an inspection of a pool.
type Inspection struct {
	Pool
	Hash         string    `json:"hash"`
	Name         string    `json:"name,omitempty"`
	Paused       bool      `json:"paused,omitempty"`
	PauseReason  string    `json:"pause_reason,omitempty"`
	OutOfService []OutInfo `json:"out_of_service,omitempty"`
}

// Evicted is the answer to the end of a lease by an operator.
type Evicted struct {
	Evicted HolderInfo `json:"evicted"`
}

// Place is the answer to the question of a borrower for its place: one of the two.
type Place struct {
	Waiting *WaiterInfo `json:"waiting,omitempty"`
	Lease   *HolderInfo `json:"lease,omitempty"`
}

// NewPoolInfo returns the answer for a pool.
func NewPoolInfo(p *kvslots.PoolStats) PoolInfo {
	info := PoolInfo{
		Hash: p.Hash, Type: TypePool, Name: p.Name, Key: p.Resource.Key, Dialect: dialect(p.Owned),
		State: p.State, OldestWait: inSeconds(p.OldestWait), Expired: p.Expired, Out: p.OutCount,
	}
	info.PauseReason, info.Paused = pausedBy(p.OutList)
	switch {
	case p.Resource.Key == "":
	case p.Resource.Kind == kvslots.KindLock:
		info.Type = TypeLock
	default:
		info.Type = TypeSemaphore
	}
	return info
}

func pausedBy(list []kvslots.OutOfService) (reason string, paused bool) {
	for _, out := range list {
		if out.Position == kvslots.WholePool {
			return out.Reason, true
		}
	}
	return "", false
}

func newOutList(list []kvslots.OutOfService) []OutInfo {
	all := []OutInfo{}
	for _, out := range list {
		if out.Position != kvslots.WholePool {
			all = append(all, OutInfo(out))
		}
	}
	return all
}

// NewHolderInfo returns the answer for a lease.
func NewHolderInfo(h kvslots.HolderStats) HolderInfo {
	return HolderInfo{h.Position, h.Label, h.Fence, inSeconds(h.Age), inSeconds(h.ExpiresIn), h.Owner}
}

// NewWaiterInfo returns the answer for a place in line.
func NewWaiterInfo(w kvslots.WaiterStats) WaiterInfo {
	return WaiterInfo{w.Place, w.Label, inSeconds(w.Waited), w.Owner}
}

// NewPoolDetail returns the answer for a page of what a pool holds.
func NewPoolDetail(d *kvslots.PoolDetail, page kvslots.DetailPage) PoolDetail {
	answer := PoolDetail{PoolInfo: NewPoolInfo(&d.PoolStats), OutOfService: newOutList(d.OutList)}
	if page.MaxHolders > 0 {
		answer.Leases = make([]HolderInfo, 0, len(d.Holders))
		for _, h := range d.Holders {
			answer.Leases = append(answer.Leases, NewHolderInfo(h))
		}
		if n := len(d.Holders); d.MoreHolders && n > 0 {
			answer.NextFrom = d.Holders[n-1].Position + 1
		}
	}
	if page.MaxWaiters > 0 {
		answer.Line = make([]WaiterInfo, 0, len(d.Waiters))
		for _, w := range d.Waiters {
			answer.Line = append(answer.Line, NewWaiterInfo(w))
		}
		if n := len(d.Waiters); n > 0 && d.Waiters[n-1].Place < d.Waiting {
			answer.NextAfter = d.Waiters[n-1].Place
		}
	}
	return answer
}

// NewPoolList returns the answer for a page of pools.
func NewPoolList(pools []kvslots.PoolStats, next string) PoolList {
	list := PoolList{Pools: make([]PoolInfo, 0, len(pools)), Next: next}
	for i := range pools {
		list.Pools = append(list.Pools, NewPoolInfo(&pools[i]))
	}
	return list
}

// NewInspection returns the answer for the pool id.
func NewInspection(id uuid.UUID, p *kvslots.PoolStats) Inspection {
	answer := Inspection{Pool: Pool{id, p.State}, Hash: p.Hash, Name: p.Name, OutOfService: newOutList(p.OutList)}
	answer.PauseReason, answer.Paused = pausedBy(p.OutList)
	return answer
}

// hashOrNone returns a hash, or "" for another text: clients print what a gateway has sent as one.
func hashOrNone(text string) string {
	if _, err := kvslots.ByHash(text); err != nil {
		return ""
	}
	return text
}

// Stats returns what an answer describes. An answer that lists no positions out of service has
// none but that of a paused pool.
func (i *PoolInfo) Stats() kvslots.PoolStats {
	p := kvslots.PoolStats{
		Hash: hashOrNone(i.Hash), Name: i.Name, Owned: i.Dialect != "", OldestWait: ofSeconds(i.OldestWait), Expired: i.Expired, OutCount: i.Out,
		State: i.State,
	}
	switch i.Type {
	case TypeLock:
		p.Resource = kvslots.Lock(i.Key)
	case TypeSemaphore:
		p.Resource = kvslots.Semaphore(i.Key, i.Count)
	}
	if i.Paused {
		p.OutList = []kvslots.OutOfService{{Position: kvslots.WholePool, Reason: i.PauseReason}}
	}
	return p
}

// Stats returns what an answer describes.
func (i HolderInfo) Stats() kvslots.HolderStats {
	return kvslots.HolderStats{Owner: i.Owner, Position: i.Position, Fence: i.Fence, Age: ofSeconds(i.Age), ExpiresIn: ofSeconds(i.ExpiresIn), Label: i.Label}
}

// Stats returns what an answer describes.
func (i WaiterInfo) Stats() kvslots.WaiterStats {
	return kvslots.WaiterStats{Owner: i.Owner, Place: i.Place, Waited: ofSeconds(i.Waited), Label: i.Label}
}

// Detail returns what an answer describes.
func (d *PoolDetail) Detail() kvslots.PoolDetail {
	detail := kvslots.PoolDetail{PoolStats: d.Stats(), MoreHolders: d.NextFrom > 0}
	for _, out := range d.OutOfService {
		detail.OutList = append(detail.OutList, kvslots.OutOfService(out))
	}
	for _, h := range d.Leases {
		detail.Holders = append(detail.Holders, h.Stats())
	}
	for _, w := range d.Line {
		detail.Waiters = append(detail.Waiters, w.Stats())
	}
	return detail
}
