package wire

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"

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

// maxFound is more than the bytes of any name.
const maxFound = 512

// The routes of operators. {ref} is the UUID of a pool; the hash of a pool, a lock or a semaphore, or its first 8 digits
// or more; the public name of a pool; or the name of a lock or a semaphore.
var (
	ListPools = Route{subjects.PoolList, http.MethodGet, "/v1/pools", aList, listPools, queried}
	ReadPool  = Route{subjects.PoolRead, http.MethodGet, "/v1/pools/{ref}", aRef, readPool, queried}
	Evict     = Route{subjects.PoolEvict, http.MethodDelete, "/v1/pools/{ref}/leases/{position}", aRef, evict, queried | changing}
	SetOut    = Route{subjects.PoolOut, http.MethodPut, "/v1/pools/{ref}/positions/{position}", aRef, setOut, changing}
	Pause     = Route{subjects.PoolPause, http.MethodPut, "/v1/pools/{ref}/pause", aRef, pause, changing}
	SetLimit  = Route{subjects.PoolLimit, http.MethodPut, "/v1/pools/{ref}/limit", aRef, setLimit, changing}

	// Parts of ReadPool, over HTTP only.
	ReadLeases = Route{"", http.MethodGet, "/v1/pools/{ref}/leases", aRef, readLeases, queried}
	ReadLine   = Route{"", http.MethodGet, "/v1/pools/{ref}/line", aRef, readLine, queried}
)

// The routes of a holder, and of a borrower in line. {ref} is the UUID of a pool, and of ReadHolder in a request with a session
// the name of a lock or a semaphore.
var (
	ReadHolder = Route{subjects.PoolHolder, http.MethodGet, "/v1/pools/{ref}/leases/" + PoolInHeader, anyLease, readHolder, leased}
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

// The readers of requests. A page of nothing is none, not the first one.
var (
	readPages  = strictly(fromParam, holdersParam, afterParam, waitersParam)
	readLeases = strictly(fromParam, listed("limit", 1, func(p *Params) *int { return &p.Operator.Page.MaxHolders }))
	readLine   = strictly(afterParam, listed("limit", 1, func(p *Params) *int { return &p.Operator.Page.MaxWaiters }))
	listPools  = strictly(sortParam, nextParam, matchParam, holderParam, contendedParam, listed("limit", 1, func(p *Params) *int { return &p.Operator.Query.Max }))
	evict      = strictly(positionParam, fenceParam)
	setOut     = strictly(positionParam, outParam, reasonParam)
	pause      = strictly(pauseParam, reasonParam)
	setLimit   = strictly(limitParam)

	readPoolLease = laxly(leaseParam)
	readGrant     = strictly(tokenParam)
)

// readHolder reads a lease of a pool, or of a session.
func readHolder(f Fields, p *Params) error {
	if p.Session != "" {
		return readGrant(f, p)
	}
	return readPoolLease(f, p)
}

func readPool(f Fields, p *Params) error {
	err := readPages(f, p)
	if p.Operator.Page == (kvslots.DetailPage{}) {
		p.Operator.Page.MaxHolders = -1
	}
	return err
}

const (
	maxListed     = 1000 // of leases, places and pools in one answer; kvslots.MaxPoolsRead
	maxListedNATS = 100  // and at most MaxAnswer bytes
	defaultListed = 100
	maxPlace      = math.MaxInt32 // no position and no place is higher
	maxFence      = 1<<53 - 1
)

// limit lowers what one answer lists to what a message over NATS may have.
func (o *OperatorParams) limit() {
	const most = maxListedNATS
	o.Most = MaxAnswer
	o.Page.MaxHolders, o.Page.MaxWaiters = min(o.Page.MaxHolders, most), min(o.Page.MaxWaiters, most)
	o.Query.Max = min(o.Query.Max, most)
}

// Names of PoolQuery.Order in requests, in the order of its values.
var orders = []string{
	kvslots.ByWaiting: "waiting", kvslots.ByOldestWait: "oldest_wait", kvslots.ByInUse: "in_use", kvslots.ByExpired: "expired",
}

// NameOf returns the name of an order in requests.
func NameOf(order kvslots.PoolOrder) string { return orders[order] }

// fieldsOfQuery returns the parameters of a query as fields with strings.
func fieldsOfQuery(query string) (Fields, error) {
	f := Fields{object: object{}, inQuery: true}
	values, err := url.ParseQuery(query)
	if err != nil {
		return f, rangeError("query", "an encoded query")
	}
	for name, all := range values {
		f.object[name], _ = json.Marshal(all[0]) // does not fail for a string
		if len(all) > 1 {
			f.repeated = append(f.repeated, name)
		}
	}
	return f, nil
}

// place adds the position in a path to the fields.
func (f *Fields) place(position string) error {
	if f.object == nil {
		f.object = object{}
	}
	if _, twice := f.object["position"]; twice {
		return rangeError("position", Once)
	}
	f.object["position"] = json.RawMessage(position)
	if f.inQuery {
		f.object["position"], _ = json.Marshal(position)
	}
	return nil
}

// LimitRequest is the body of SetLimit over HTTP.
type LimitRequest struct {
	Limit int `json:"limit"`
}

// OutOfServiceRequest is the body of SetOut and Pause over HTTP.
type OutOfServiceRequest struct {
	Out    bool   `json:"out"`
	Reason string `json:"reason,omitempty"`
}
