package wire

import (
	"cmp"
	"fmt"
	"net/http"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/subjects"
)

// OperatorParams are the parameters of the requests of operators.
type OperatorParams struct {
	Pool kvslots.PoolRef
	Find string // names the pool, lock or semaphore, for the store to find; "": Pool names it

	OnlyName bool // see Route.LimitToName

	Page  kvslots.DetailPage // of what a pool holds
	Query kvslots.PoolQuery  // of the list of pools
	Most  int                // bytes that a page of either may have; 0: any number

	Position int // may be kvslots.WholePool
	Fence    uint64
	Out      bool
	Reason   string

	Authorization string // the value of the header, which has a secret
}

// locate sets what {ref} of a request names.
func (o *OperatorParams) locate(ref string) error {
	if id, err := ParseID("ref", ref); err == nil {
		o.Pool = kvslots.ByID(id)
		return nil
	}
	if pool, err := kvslots.ByHash(ref); err == nil {
		o.Pool = pool
		return nil
	}
	if o.Find = ref; ref == "" || len(ref) > maxFound {
		return rangeError("ref", fmt.Sprintf("the UUID of a pool, a hash or its first 8 digits or more, or a name, of at most %d bytes", maxFound))
	}
	return nil
}

// name returns what a request names by {ref} over HTTP, which is no secret.
func (o *OperatorParams) name() string { return cmp.Or(o.Find, o.Pool.Hash()) }

// ref returns what a request names over NATS. Without a token a client may read a lock or a semaphore by its name.
func (o *OperatorParams) ref(reads bool) string {
	if id, byID := o.Pool.ID(); byID {
		return id.String()
	}
	if reads && o.Pool.Key() != "" {
		return o.Pool.Key()
	}
	return o.name()
}

// maxFound is more than the bytes of any name.
const maxFound = 512

// The routes of operators. {ref} is the UUID of a pool; the hash of a pool, a lock or a semaphore, or its first 8 digits
// or more; the public name of a pool; or the name of a lock or a semaphore.
var (
	ListPools = Route{subjects.PoolList, http.MethodGet, "/v1/pools", aList, listPools, queried}
	ReadPool  = Route{subjects.PoolRead, http.MethodGet, "/v1/pools/{ref}", aRef, readPool, queried}
	Evict     = Route{subjects.PoolEvict, http.MethodDelete, "/v1/pools/{ref}/leases/{position}", aRef, evict, queried | changing}
	SetOut    = Route{subjects.PoolOut, http.MethodPut, "/v1/pools/{ref}/positions/{position}", aRef, setOut, changing}
	Pause     = Route{subjects.PoolPause, http.MethodPut, "/v1/pools/{ref}/pause", aRef, pause, changing | whole}
	SetLimit  = Route{subjects.PoolLimit, http.MethodPut, "/v1/pools/{ref}/limit", aRef, setLimit, changing}

	// Parts of ReadPool, over HTTP only.
	ReadLeases = Route{"", http.MethodGet, "/v1/pools/{ref}/leases", aRef, readLeases, queried}
	ReadLine   = Route{"", http.MethodGet, "/v1/pools/{ref}/line", aRef, readLine, queried}
)

// The routes of a holder, and of a borrower in line. {ref} is the UUID of a pool, and of ReadHolder in a request with a session
// the name of a lock or a semaphore.
var (
	ReadHolder = Route{subjects.PoolHolder, http.MethodGet, "/v1/pools/{ref}/leases/" + PoolInHeader, anyLease, strictly(itsLeaseField, itsTokenField), leased}
	ReadPlace  = Route{subjects.PoolPlace, http.MethodGet, "/v1/pools/{ref}/line/" + PoolInHeader, aBorrow, nil, keyed | mustKey}
)

// Access is what a request may do.
type Access uint8

// The values of Access. Each includes those before it.
const (
	AccessNone Access = iota
	AccessRead
	AccessFull
)

// Needs returns the access that a request over NATS must prove by a token, if the gateway has one. A client that knows a
// pool's id needs none. Without access it may read a lock or a semaphore: see LimitToName.
func (r *Route) Needs(p *Params) Access {
	if p.Operator == nil {
		return AccessNone
	}
	switch _, byID := p.Operator.Pool.ID(); {
	case byID:
		return AccessNone
	case r.has&changing != 0:
		return AccessFull
	}
	return AccessRead
}

// LimitToName has {ref} of a read name a lock or a semaphore and nothing else, and reports whether it can.
func (r *Route) LimitToName(p *Params) bool {
	o := p.Operator
	if r.about != aRef || r.has&changing != 0 {
		return false
	}
	name := cmp.Or(o.Find, o.Pool.Hash())
	o.Pool, o.Find, o.OnlyName = kvslots.ByName(name), "", true
	return CheckKey(name) == nil
}

// The bodies of requests.
var (
	readPool   = strictly(fromField, holdersField, afterField, waitersField)
	readLeases = strictly(fromField, listed("limit", 1, func(p *Params) any { return &p.Operator.Page.MaxHolders }))
	readLine   = strictly(afterField, listed("limit", 1, func(p *Params) any { return &p.Operator.Page.MaxWaiters }))
	listPools  = strictly(sortField, nextField, matchField, holderField, contendedField, listed("limit", 1, func(p *Params) any { return &p.Operator.Query.Max }))
	evict      = strictly(positionField, fenceField)
	setOut     = strictly(positionField, outField, reasonField)
	pause      = strictly(outField, reasonField)
	setLimit   = strictly(limitField)
)

// limit lowers what one answer lists to what a message over NATS may have. A page of nothing is none, not the first one.
func (o *OperatorParams) limit(overHTTP bool) {
	const most = maxListedNATS
	if !overHTTP {
		o.Most = MaxAnswer
		o.Page.MaxHolders, o.Page.MaxWaiters = min(o.Page.MaxHolders, most), min(o.Page.MaxWaiters, most)
		o.Query.Max = min(o.Query.Max, most)
	}
	if o.Page == (kvslots.DetailPage{}) {
		o.Page.MaxHolders = -1
	}
}

// Names of PoolQuery.Order in requests, in the order of its values.
var orders = []string{
	kvslots.ByWaiting: "waiting", kvslots.ByOldestWait: "oldest_wait", kvslots.ByInUse: "in_use", kvslots.ByExpired: "expired",
}

// NameOf returns the name of an order in requests.
func NameOf(order kvslots.PoolOrder) string { return orders[order] }
