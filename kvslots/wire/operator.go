package wire

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/subjects"
)

// OperatorParams are the parameters of the requests of those who look at pools, locks and
// semaphores, and look after them.
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

	Find          string // what names the pool, for kvslots.FindPool; "": Pool does
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

// Door is a way to name a pool in the requests of operators. Over HTTP it is the beginning of
// their paths; over NATS each request uses the one that its body names.
type Door struct {
	path  string
	about target
}

// The doors.
var (
	BySecret    = Door{"/l/{id}", aPool}
	ByHash      = Door{"/v1/pools/{hash}", aHash}
	ByLock      = Door{"/v1/locks/{key}", aLockName}
	BySemaphore = Door{"/v1/semaphores/{key}", aSemaphoreName}
	OverNATS    = Door{"", anyPool}
)

// The routes of operators. Those that name no Door are about no pool, or need its id.
var (
	ListPools  = Route{subjects.PoolList, http.MethodGet, "/v1/pools", aList, Fields.listPools, queried}
	ReadHolder = Route{subjects.PoolHolder, http.MethodGet, "/l/{id}/leases/" + PoolInHeader, aPool, Fields.Return, leased}
	ReadPlace  = Route{subjects.PoolPlace, http.MethodGet, "/l/{id}/line/" + PoolInHeader, aPool, nil, keyed | mustKey}
)

// ReadPool is the route of a read of what a pool holds, and ReadLeases and ReadLine those of a
// part of it, which exist over HTTP only.
func (d Door) ReadPool() Route {
	return Route{subjects.PoolRead, http.MethodGet, d.path, d.about, Fields.readPool, queried}
}

func (d Door) ReadLeases() Route {
	return Route{"", http.MethodGet, d.path + "/leases", d.about, Fields.readLeases, queried}
}

func (d Door) ReadLine() Route {
	return Route{"", http.MethodGet, d.path + "/line", d.about, Fields.readLine, queried}
}

// Evict is the route of the end of a lease.
func (d Door) Evict() Route {
	return Route{subjects.PoolEvict, http.MethodDelete, d.path + "/leases/{position}", d.about, Fields.evict, queried | changing}
}

// SetOut is the route that takes a position out of service, or puts it back, and Pause the one
// that does so with a whole pool.
func (d Door) SetOut() Route {
	return Route{subjects.PoolOut, http.MethodPut, d.path + "/positions/{position}", d.about, Fields.setOut, changing}
}

func (d Door) Pause() Route {
	return Route{subjects.PoolPause, http.MethodPut, d.path + "/pause", d.about, Fields.pause, changing}
}

// SetLimit is the route that changes the limit of a semaphore.
func (d Door) SetLimit() Route {
	return Route{subjects.PoolLimit, http.MethodPut, d.path + "/limit", d.about, Fields.limitOf, changing}
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
// one. Who knows a pool's id, or the name of a lock or a semaphore, needs none to do what such
// clients may do anyway.
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

const (
	maxListed     = 1000 // of leases, places and pools in one answer; kvslots.MaxPoolsRead
	maxListedNATS = 100  // and at most MaxAnswer bytes
	defaultListed = 100
	maxPlace      = math.MaxInt32 // no position and no place is higher
	maxFence      = 1<<53 - 1
)

func (f Fields) readPool(p *Params) (err error) {
	page := &p.Operator.Page
	err = f.integers([]integerField{
		{"from", &page.From, 0, 0, maxPlace}, {"leases", &page.MaxHolders, defaultListed, 0, maxListed},
		{"after", &page.After, 0, 0, maxPlace}, {"line", &page.MaxWaiters, defaultListed, 0, maxListed},
	})
	if *page == (kvslots.DetailPage{}) {
		page.MaxHolders = -1 // none, and not the first page
	}
	return err
}

func (f Fields) readLeases(p *Params) error {
	page := &p.Operator.Page
	return f.integers([]integerField{{"from", &page.From, 0, 0, maxPlace}, {"limit", &page.MaxHolders, defaultListed, 1, maxListed}})
}

func (f Fields) readLine(p *Params) error {
	page := &p.Operator.Page
	return f.integers([]integerField{{"after", &page.After, 0, 0, maxPlace}, {"limit", &page.MaxWaiters, defaultListed, 1, maxListed}})
}

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

func (f Fields) listPools(p *Params) (err error) {
	q, sort := &p.Operator.Query, orders[0]
	if err = f.integers([]integerField{{"limit", &q.Max, defaultListed, 1, maxListed}}, "sort", "after", "q", "holder", "contended"); err != nil {
		return err
	}
	if err = f.optionalText("sort", &sort); err != nil {
		return err
	}
	order := slices.Index(orders, sort)
	if order < 0 {
		return rangeError("sort", "one of "+strings.Join(orders, ", "))
	}
	q.Order = kvslots.PoolOrder(order)
	if err = f.optionalText("after", &q.After); err != nil {
		return err
	}
	if err = f.optionalText("q", &q.Match); err != nil {
		return err
	}
	if err = f.optionalText("holder", &q.Holder); err != nil {
		return err
	}
	q.Waiting, err = f.boolean("contended", false)
	return err
}

// NameOf returns the name of an order in requests.
func NameOf(order kvslots.PoolOrder) string { return orders[order] }

func (f Fields) evict(p *Params) error {
	var fence int
	err := f.integers([]integerField{{"position", &p.Operator.Position, missing, 0, maxPlace}, {"fence", &fence, missing, 1, maxFence}})
	p.Operator.Fence = uint64(fence)
	return err
}

func (f Fields) setOut(p *Params) error {
	err := f.integers([]integerField{{"position", &p.Operator.Position, missing, 0, maxPlace}}, "out", "reason")
	if err != nil {
		return err
	}
	return f.out(p)
}

func (f Fields) pause(p *Params) error {
	p.Operator.Position = kvslots.WholePool
	if err := f.only("out", "reason"); err != nil {
		return err
	}
	return f.out(p)
}

func (f Fields) limitOf(p *Params) (err error) {
	if err = f.only("limit"); err == nil {
		p.Limit, err = f.between("limit", 1, kvslots.MaxSemaphoreLimit)
	}
	return err
}

// out parses {"out", "reason"}, of which the store checks the reason.
func (f Fields) out(p *Params) (err error) {
	if _, given := f.object["out"]; !given {
		return rangeError("out", "true or false")
	}
	if p.Operator.Out, err = f.boolean("out", false); err != nil {
		return err
	}
	return f.optionalText("reason", &p.Operator.Reason)
}

// integerField is an integer in the query over HTTP, and in the body over NATS.
type integerField struct {
	name      string
	into      *int
	otherwise int // the value if the field is missing; or missing: it is required
	low, high int
}

const missing = -1

// integers reads integer fields. No fields but these and the others may be there.
func (f Fields) integers(fields []integerField, others ...string) error {
	names := others
	for _, field := range fields {
		names = append(names, field.name)
	}
	if err := f.only(names...); err != nil {
		return err
	}
	for _, field := range fields {
		raw, given := f.object[field.name]
		if !given && field.otherwise != missing {
			*field.into = field.otherwise
			continue
		}
		text := string(raw)
		if f.inQuery {
			text, _ = anyText(raw)
		}
		n, err := strconv.Atoi(text)
		if err != nil || strconv.Itoa(n) != text || n < field.low || n > field.high {
			return rangeError(field.name, fmt.Sprintf("an integer between %d and %d", field.low, field.high))
		}
		*field.into = n
	}
	return nil
}

func (f Fields) optionalText(field string, into *string) error {
	raw, given := f.object[field]
	if !given {
		return nil
	}
	text, ok := Text(raw)
	if *into = text; !ok {
		return rangeError(field, "a text")
	}
	return nil
}

func (f Fields) boolean(field string, otherwise bool) (bool, error) {
	raw, given := f.object[field]
	text := string(raw)
	if f.inQuery {
		text, _ = anyText(raw)
	}
	switch {
	case !given:
		return otherwise, nil
	case text == "true" || text == "false":
		return text == "true", nil
	}
	return false, rangeError(field, "true or false")
}

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
