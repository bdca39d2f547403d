// Package subjects names the NATS subjects at which gateways take requests. It
// imports nothing, so that the embedded server can make its permissions of them.
package subjects

import "strings"

// Service is the name of the gateways' micro service, their queue group, and the
// first word of their subjects.
const Service = "kvslots"

// The subjects of pools, and of calls of functions. Every gateway gets what is
// published to Cancel; one of them gets each other request.
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

// The subjects of sessions.
const (
	SessionCreate = Service + ".session.create"
	SessionPing   = Service + ".session.ping"
	SessionDelete = Service + ".session.delete"
)

// The words for the two kinds of resources with a name, and for what a session does
// with one; the paths of /v1 have them, too.
const (
	Lock      = "lock"
	Semaphore = "semaphore"

	Acquire = "acquire"
	Enqueue = "enqueue"
	Wait    = "wait"
	Release = "release"
	Renew   = "renew"
)

// Of is the subject of one of these operations on one of these kinds.
func Of(kind, operation string) string { return Service + "." + kind + "." + operation }

// Confirm begins the subjects at which grants are confirmed. A word for the gateway
// and one for the grant follow. Clients may publish below it, and not subscribe.
const Confirm = Service + ".confirm."

// The beginnings of reply subjects, without the dot behind them.
const (
	// Inbox is that of NATS clients. Inbox + "_" with something behind it is the
	// usual custom prefix: _INBOX_<public key>.
	Inbox = "_INBOX"

	// Import is what a server puts in place of a reply subject on the way from
	// another account, through a service import.
	Import = "_R_"
)

// Requests are the subjects to which a client of gateways publishes, one by one: a
// pattern would let its own wildcard through as a literal. Confirmations have a
// pattern, since each grant has a subject of its own that only its requester knows;
// what is published to the pattern itself reaches no gateway, whose subscriptions
// begin with their names. The last are the verbs of micro services (ADR-32).
func Requests() []string {
	all := []string{
		PoolRegister, PoolInspect, PoolDelete, PoolBorrow, PoolReturn, PoolRenew, Cancel, RPC,
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

// Name is what INFO and STATS call the endpoint at a subject: dashes stand for the
// dots.
func Name(subject string) string {
	return strings.ReplaceAll(strings.TrimPrefix(subject, Service+"."), ".", "-")
}
