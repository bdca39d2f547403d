package wire

import (
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
	Pool  kvslots.PoolRef
	Key   string             // of the lock or semaphore, if the request names it
	Type  string             // the PoolInfo.Type that a path with the key names; "": any
	Page  kvslots.DetailPage // of what a pool holds
	Query kvslots.PoolQuery  // of the list of pools
	Most  int                // bytes that a page of either may have; 0: any number

	Position int // may be kvslots.WholePool
	Fence    uint64
	Out      bool
	Reason   string

	Find          string // names the pool, for kvslots.FindPool; "": Pool names it
	Authorization string // the value of the header, which has a secret

	hashed bool // the request names the pool by its hash, or by what stands for that
}

// find sets the pool of a request that names it by its hash, or by what stands for that.
func (o *OperatorParams) find(text string) (err error) {
	o.hashed = true
	if o.Pool, err = kvslots.ByHash(text); err == nil {
		return nil
	}
	if o.Find = text; text == "" || len(text) > maxFound {
		return rangeError("hash", fmt.Sprintf("the hash of a pool, its first 8 digits or more, or its name, of at most %d bytes", maxFound))
	}
	return nil
}

// maxFound is more than the bytes of any name.
const maxFound = 512

// Naming is a way to name a pool in the requests of operators. Over HTTP it is the beginning of
// their paths; over NATS each request uses the one that its body names.
type Naming struct {
	path  string
	about target
}

// The ways to name a pool.
var (
	BySecret    = Naming{"/l/{id}", aPool}
	ByHash      = Naming{"/v1/pools/{hash}", aHash}
	ByLock      = Naming{"/v1/locks/{key}", aLockName}
	BySemaphore = Naming{"/v1/semaphores/{key}", aSemaphoreName}
	OverNATS    = Naming{"", anyPool}
)

// The routes of operators. Those without a Naming are about no pool, or need its id.
var (
	ListPools  = Route{subjects.PoolList, http.MethodGet, "/v1/pools", aList, listPools, queried}
	ReadHolder = Route{subjects.PoolHolder, http.MethodGet, "/l/{id}/leases/" + PoolInHeader, aPool, laxly(leaseParam), leased}
	ReadPlace  = Route{subjects.PoolPlace, http.MethodGet, "/l/{id}/line/" + PoolInHeader, aPool, nil, keyed | mustKey}
)

// ReadPool is the route of a read of what a pool holds, and ReadLeases and ReadLine those of a
// part of it, which exist over HTTP only.
func (d Naming) ReadPool() Route {
	return Route{subjects.PoolRead, http.MethodGet, d.path, d.about, readPool, queried}
}

func (d Naming) ReadLeases() Route {
	return Route{"", http.MethodGet, d.path + "/leases", d.about, readLeases, queried}
}

func (d Naming) ReadLine() Route {
	return Route{"", http.MethodGet, d.path + "/line", d.about, readLine, queried}
}

// Evict is the route of the end of a lease.
func (d Naming) Evict() Route {
	return Route{subjects.PoolEvict, http.MethodDelete, d.path + "/leases/{position}", d.about, evict, queried | changing}
}

// SetOut is the route that takes a position out of service, or puts it back, and Pause the one
// that does so with a whole pool.
func (d Naming) SetOut() Route {
	return Route{subjects.PoolOut, http.MethodPut, d.path + "/positions/{position}", d.about, setOut, changing}
}

func (d Naming) Pause() Route {
	return Route{subjects.PoolPause, http.MethodPut, d.path + "/pause", d.about, pause, changing}
}

// SetLimit is the route that changes the limit of a semaphore.
func (d Naming) SetLimit() Route {
	return Route{subjects.PoolLimit, http.MethodPut, d.path + "/limit", d.about, setLimit, changing}
}

// Access is what a request may do.
type Access uint8

// The values of Access. Each includes those before it.
const (
	AccessNone Access = iota
	AccessRead
	AccessFull
)

// Needs returns the access that a request over NATS must prove by a token, if the gateway has
// one. A client that knows a pool's id, or the name of a lock or a semaphore, needs no token for what a
// client without one may do with it.
func (r *Route) Needs(p *Params) Access {
	switch {
	case p.Operator == nil || r.about == aPool, r.has&changing == 0 && p.Operator.Key != "":
		return AccessNone
	case r.about == anyPool && !p.Operator.hashed && p.Operator.Key == "": // by id
		return AccessNone
	case r.has&changing != 0:
		return AccessFull
	}
	return AccessRead
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
)

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

// oneOf reads and removes the field id, hash or key, of which a request over NATS has one.
func (f Fields) oneOf(o *OperatorParams) (err error) {
	var names []string
	for _, name := range []string{"id", "hash", "key"} {
		if f.object[name] != nil {
			names = append(names, name)
		}
	}
	if len(names) != 1 {
		return rangeError("id, hash or key", "given, and only one of them")
	}
	text, err := f.take(names[0])
	if err != nil {
		return err
	}
	switch names[0] {
	case "id":
		id, err := ParseID("id", text)
		o.Pool = kvslots.ByID(id)
		return err
	case "hash":
		return o.find(text)
	}
	o.Key, o.Pool = text, kvslots.ByName(text)
	return CheckKey(text)
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
