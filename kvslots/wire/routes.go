package wire

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/subjects"
)

// PoolInHeader in a path, in place of a pool's id, says that PoolHeader has the id. The id is a
// credential, and proxies, browsers and shells keep URLs, not headers.
const PoolInHeader = "self"

// Route is where gateways receive the requests for an operation: a subject over NATS, and a
// method and a path over HTTP. {id} in the path is the id of a pool or of a session,
// {key} the key of a lock or a semaphore, and {ref} what names any of them. Read reads the requests.
type Route struct {
	Subject, Method, Path string

	about target
	body  *body // nil if requests have no parameters in a body
	has   trait
}

// trait is a set of properties of a Route.
type trait uint8

const (
	keyed    trait = 1 << iota // requests may have a RequestKeyHeader
	queried                    // over HTTP the query has what the body has over NATS
	leased                     // over HTTP LeaseHeader has the lease
	mustKey                    // requests must have a RequestKeyHeader
	changing                   // requests change something
	whole                      // Position is kvslots.WholePool
)

// The routes of pools, sessions and functions. Statistics have no subject.
var (
	RegisterPool = Route{subjects.PoolRegister, http.MethodPut, "/l/{id}", aPool, laxly(countField, nameField), keyed}
	InspectPool  = Route{subjects.PoolInspect, http.MethodGet, "/l/{id}", aPool, nil, 0}
	DeletePool   = Route{subjects.PoolDelete, http.MethodDelete, "/l/{id}", aPool, nil, 0}
	Borrow       = Route{subjects.PoolBorrow, http.MethodPost, "/l/{id}/borrow", aPool, laxly(ttlField, waitField, labelField, uncountedField), keyed}
	Return       = Route{subjects.PoolReturn, http.MethodPost, "/l/{id}/return", aPool, laxly(leaseField), 0}
	RenewLease   = Route{subjects.PoolRenew, http.MethodPost, "/l/{id}/renew", aPool, laxly(leaseField, ttlField), 0}

	CreateSession = Route{subjects.SessionCreate, http.MethodPost, "/v1/sessions", nothing, strictly(labelField, idleField), 0}
	PingSession   = Route{subjects.SessionPing, http.MethodPost, "/v1/sessions/{id}/ping", aSession, strictly(), 0}
	EndSession    = Route{subjects.SessionDelete, http.MethodDelete, "/v1/sessions/{id}", aSession, strictly(), 0}
	ReadStats     = Route{"", http.MethodGet, "/v1/stats", aPage, nil, 0}

	CallFunction = Route{subjects.RPC, http.MethodPost, "/rpc", aFunction, nil, keyed}
)

// grantBodies are those of the operations on locks and semaphores, by kind and by the operation, which package subjects names.
var grantBodies = [...]map[string]*body{
	kvslots.KindLock: {
		subjects.Acquire: strictly(acquireField, leaseTTLField, labelField, uncountedField), subjects.Enqueue: strictly(leaseTTLField, labelField),
		subjects.Wait: strictly(timeoutField), subjects.Release: strictly(tokenField), subjects.Renew: strictly(tokenField, leaseTTLField),
	},
	kvslots.KindSemaphore: {
		subjects.Acquire: strictly(acquireField, limitField, leaseTTLField, labelField, uncountedField), subjects.Enqueue: strictly(limitField, leaseTTLField, labelField),
		subjects.Wait: strictly(timeoutField), subjects.Release: strictly(tokenField), subjects.Renew: strictly(tokenField, leaseTTLField),
	},
}

// ResourceRoute returns the route of an operation on locks or on semaphores, which package
// subjects names.
func ResourceRoute(kind kvslots.Kind, operation string) Route {
	r := Route{Method: http.MethodPost, about: aSemaphore, body: grantBodies[kind][operation]}
	noun := subjects.Semaphore
	if kind == kvslots.KindLock {
		noun, r.about = subjects.Lock, aLock
	}
	r.Subject, r.Path = subjects.Of(noun, operation), "/v1/"+noun+"s/{key}"
	switch operation {
	case subjects.Acquire:
		r.has = keyed
		return r
	case subjects.Enqueue:
		r.has = keyed
	}
	r.Path += "/" + operation
	return r
}

// PoolsAfter is the parameter of ReadStats in the query: where the page begins.
const PoolsAfter = "pools_after"

// PathOf returns the path of a request for the pool, session or key with the given name, or that a {ref} names.
func (r Route) PathOf(name string) string {
	name = url.PathEscape(name)
	return strings.NewReplacer("{id}", name, "{key}", name, "{ref}", name).Replace(r.Path)
}
