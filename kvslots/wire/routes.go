package wire

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire/subjects"
)

// Route is where gateways receive the requests for an operation: a subject over NATS, and a
// method and a path over HTTP. {id} in the path is the id of a pool or of a session, and
// {key} the key of a lock or a semaphore.
type Route struct{ Subject, Method, Path string }

// The routes of pools and sessions. Statistics have no subject.
var (
	RegisterPool = Route{subjects.PoolRegister, http.MethodPut, "/l/{id}"}
	InspectPool  = Route{subjects.PoolInspect, http.MethodGet, "/l/{id}"}
	DeletePool   = Route{subjects.PoolDelete, http.MethodDelete, "/l/{id}"}
	Borrow       = Route{subjects.PoolBorrow, http.MethodPost, "/l/{id}/borrow"}
	Return       = Route{subjects.PoolReturn, http.MethodPost, "/l/{id}/return"}
	RenewLease   = Route{subjects.PoolRenew, http.MethodPost, "/l/{id}/renew"}

	CreateSession = Route{subjects.SessionCreate, http.MethodPost, "/v1/sessions"}
	PingSession   = Route{subjects.SessionPing, http.MethodPost, "/v1/sessions/{id}/ping"}
	EndSession    = Route{subjects.SessionDelete, http.MethodDelete, "/v1/sessions/{id}"}
	ReadStats     = Route{"", http.MethodGet, "/v1/stats"}
)

// ResourceRoute returns the route of an operation on locks or on semaphores, which package
// subjects names.
func ResourceRoute(kind kvslots.Kind, operation string) Route {
	noun := subjects.Semaphore
	if kind == kvslots.KindLock {
		noun = subjects.Lock
	}
	path := "/v1/" + noun + "s/{key}"
	if operation != subjects.Acquire {
		path += "/" + operation
	}
	return Route{subjects.Of(noun, operation), http.MethodPost, path}
}

// PathOf returns the path of a request for the pool, session or key with the given name.
func (r Route) PathOf(name string) string {
	name = url.PathEscape(name)
	return strings.NewReplacer("{id}", name, "{key}", name).Replace(r.Path)
}
