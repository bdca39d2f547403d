// Package ops is the table of operations on pools, sessions, locks, semaphores and functions,
// independent of the transport.
//
// A row is an Operation: the wire.Route that reads its requests, how it waits and is
// interrupted, and the step that calls the store and makes the answer. A transport, HTTP or
// NATS, has the route read a request into a Call, has a Service execute it with Do, and sends
// the Reply. So a new operation is a route and a row, and a new parameter is a field of
// wire.Params, which the route reads for all transports.
//
// Locks that Forrst's calls hold are owned locks; package forrst parses its envelopes itself.
//
// Begin with ops.go, then pools.go and sessions.go, which have the rows, and reply.go.
package ops
