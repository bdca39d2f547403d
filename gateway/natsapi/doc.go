// Package natsapi serves the operations of the gateway over NATS request/reply
// (README.md, "Subjects"): a micro service named kvslots with an endpoint for each
// operation. Request bodies are those of HTTP, plus the pool's "id", or the "session" and
// the "key", which HTTP has in the path and in headers. Answers are the same bytes as over
// HTTP, or {} where HTTP has no body. An error has its HTTP status in the header
// Nats-Service-Error-Code. kvslots.rpc receives and returns envelopes of Forrst.
//
// The gateways on one NATS share a queue group, so one of them receives each request. All
// of them receive kvslots.cancel.
//
// The service sends an answer that grants a lease in such a way that the server reports
// whether its reply subject has a subscription. If it has none, the service takes the lease
// back at once. That works within one account only, since the server never reports a reply
// through a service import as undelivered. So the connection must be in the clients'
// account. A client that confirms its grants after a wait does not depend on that report,
// and gets its grants sooner: for other clients the service first waits until the server
// has noticed closed sockets (README.md, "Confirming").
//
// Begin with Start in natsapi.go, then endpoints.go, operation.go and answer.go: a request from its
// subscription to its reply. room.go bounds what one client may have open.
package natsapi
