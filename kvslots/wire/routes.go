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
// method and a path over HTTP. {id} in the path is the id of a pool or of a session, and
// {key} the key of a lock or a semaphore. Read reads the requests.
type Route struct {
	Subject, Method, Path string

	about target
	read  func(body Fields, params *Params) error // nil if requests have no parameters in a body
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
)

// The routes of pools, sessions and functions. Statistics have no subject, and those to follow
// something have no path.
var (
	RegisterPool = Route{subjects.PoolRegister, http.MethodPut, "/l/{id}", aPool, Fields.Register, keyed}
	InspectPool  = Route{subjects.PoolInspect, http.MethodGet, "/l/{id}", aPool, nil, 0}
	DeletePool   = Route{subjects.PoolDelete, http.MethodDelete, "/l/{id}", aPool, nil, 0}
	Borrow       = Route{subjects.PoolBorrow, http.MethodPost, "/l/{id}/borrow", aPool, Fields.Borrow, keyed}
	Return       = Route{subjects.PoolReturn, http.MethodPost, "/l/{id}/return", aPool, Fields.Return, 0}
	RenewLease   = Route{subjects.PoolRenew, http.MethodPost, "/l/{id}/renew", aPool, Fields.RenewLease, 0}
	FollowLease  = Route{subjects.PoolFollow, "", "", aPool, Fields.FollowLease, 0}

	CreateSession = Route{subjects.SessionCreate, http.MethodPost, "/v1/sessions", nothing, Fields.CreateSession, 0}
	PingSession   = Route{subjects.SessionPing, http.MethodPost, "/v1/sessions/{id}/ping", aSession, Fields.Empty, 0}
	EndSession    = Route{subjects.SessionDelete, http.MethodDelete, "/v1/sessions/{id}", aSession, Fields.Empty, 0}
	FollowSession = Route{subjects.SessionFollow, "", "", aSession, Fields.FollowSession, 0}
	ReadStats     = Route{"", http.MethodGet, "/v1/stats", aPage, nil, 0}

	CallFunction = Route{subjects.RPC, http.MethodPost, "/rpc", aFunction, nil, keyed}
)

// resourceReaders read the parameters of the operations on locks and semaphores.
var resourceReaders = map[string]func(Fields, *Params) error{
	subjects.Acquire: Fields.Acquire, subjects.Enqueue: Fields.Enqueue, subjects.Wait: Fields.Wait,
	subjects.Release: Fields.Release, subjects.Renew: Fields.Renew,
}

// ResourceRoute returns the route of an operation on locks or on semaphores, which package
// subjects names.
func ResourceRoute(kind kvslots.Kind, operation string) Route {
	noun, about := subjects.Semaphore, aSemaphore
	if kind == kvslots.KindLock {
		noun, about = subjects.Lock, aLock
	}
	path := "/v1/" + noun + "s/{key}"
	if operation != subjects.Acquire {
		path += "/" + operation
	}
	var has trait
	if operation == subjects.Acquire || operation == subjects.Enqueue {
		has = keyed
	}
	return Route{subjects.Of(noun, operation), http.MethodPost, path, about, resourceReaders[operation], has}
}

// FollowGrant returns the route to follow a grant of a lock or of a semaphore.
func FollowGrant(kind kvslots.Kind) Route {
	if kind == kvslots.KindLock {
		return Route{subjects.Of(subjects.Lock, subjects.Follow), "", "", aLock, Fields.FollowGrant, 0}
	}
	return Route{subjects.Of(subjects.Semaphore, subjects.Follow), "", "", aSemaphore, Fields.FollowGrant, 0}
}

// PoolsAfter is the parameter of ReadStats in the query: where the page begins.
const PoolsAfter = "pools_after"

// PathOf returns the path of a request for the pool, session or key with the given name.
func (r Route) PathOf(name string) string {
	name = url.PathEscape(name)
	return strings.NewReplacer("{id}", name, "{key}", name).Replace(r.Path)
}
