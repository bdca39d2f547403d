// Package subjects defines the NATS subjects on which gateways receive requests. It
// depends on no other package of kvslots, so that natsembed can derive permissions
// from it.
package subjects

import "strings"

// Service is the name of the gateways' NATS micro service and queue group, and the
// first token of their subjects.
const Service = "kvslots"

// The subjects of pools, and of calls of functions. Every gateway receives each message
// to Cancel; one gateway receives each other request.
const (
	PoolRegister = Service + ".register"
	PoolInspect  = Service + ".inspect"
	PoolDelete   = Service + ".delete"
	PoolBorrow   = Service + ".borrow"
	PoolReturn   = Service + ".return"
	PoolRenew    = Service + ".renew"
	Cancel       = Service + ".cancel"
	RPC          = Service + ".rpc"
)

// The subjects of operators.
const (
	PoolList   = Service + ".pools"
	PoolRead   = Service + ".read"
	PoolHolder = Service + ".holder"
	PoolPlace  = Service + ".place"
	PoolEvict  = Service + ".evict"
	PoolOut    = Service + ".out"
	PoolPause  = Service + ".pause"
	PoolLimit  = Service + ".limit"
)

// The subjects of sessions.
const (
	SessionCreate = Service + ".session.create"
	SessionPing   = Service + ".session.ping"
	SessionDelete = Service + ".session.delete"
)

// The words for the two kinds of named resources and for the operations on them, in
// subjects and in the paths of /v1.
const (
	Lock      = "lock"
	Semaphore = "semaphore"

	Acquire = "acquire"
	Enqueue = "enqueue"
	Wait    = "wait"
	Release = "release"
	Renew   = "renew"
)

// Of returns the subject of an operation on a kind of resource.
func Of(kind, operation string) string { return Service + "." + kind + "." + operation }

// Confirm is the prefix of the subjects on which clients confirm grants. One token for
// the gateway and one for the grant follow. Clients may publish there, and not
// subscribe.
const Confirm = Service + ".confirm."

// Events is the prefix of the subjects on which a gateway publishes events, if it is told to. The
// hash of the pool, or NoPool, and the type of the event follow.
const (
	Events = Service + ".events."
	NoPool = "none"
)

// The prefixes of reply subjects, without the final dot.
const (
	// Inbox is the default prefix of NATS clients. The usual custom prefix is
	// Inbox + "_" and a public key: _INBOX_<public key>.
	Inbox = "_INBOX"

	// Gateway is the prefix of the inboxes of gateways. Clients must not be allowed to
	// subscribe there; nothing is sent there on their behalf.
	Gateway = "_KVSLOTS"

	// Import is the prefix that a server gives to the reply subject of a request
	// from another account, through a service import.
	Import = "_R_"
)

// Requests returns the subjects to which clients of gateways may publish. They are
// listed one by one, since a permission with a wildcard also allows the wildcard itself
// as a literal subject. Only confirmations have a wildcard: each grant has a subject of its
// own, and no gateway subscribes to the literal wildcard. The last subjects are those
// on which NATS micro services answer monitoring requests: PING, INFO and STATS, of all
// services, of those with a name, and of one instance.
func Requests() []string {
	all := []string{
		PoolRegister, PoolInspect, PoolDelete, PoolBorrow, PoolReturn, PoolRenew, Cancel, RPC,
		PoolList, PoolRead, PoolHolder, PoolPlace, PoolEvict, PoolOut, PoolPause, PoolLimit,
		SessionCreate, SessionPing, SessionDelete, Confirm + "*.*",
	}
	for _, kind := range []string{Lock, Semaphore} {
		for _, operation := range []string{Acquire, Enqueue, Wait, Release, Renew} {
			all = append(all, Of(kind, operation))
		}
	}
	for _, verb := range []string{"PING", "INFO", "STATS"} {
		verb = "$SRV." + verb
		all = append(all, verb, verb+"."+Service, verb+"."+Service+".*")
	}
	return all
}

// Name returns the name of the endpoint at a subject in INFO and STATS, with dashes in
// place of dots.
func Name(subject string) string {
	return strings.ReplaceAll(strings.TrimPrefix(subject, Service+"."), ".", "-")
}
