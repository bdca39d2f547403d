// Package dflockdtcp serves dflockd's TCP protocol: locks and semaphores by name, held by
// connections (gateway/dflockdtcp/README.md). It stands over the operations of package
// dflockd, so clients of both, and those over NATS, wait in the same lines.
//
// A connection has two goroutines: one reads, so that it notices at once that the client has
// gone, and one serves the requests, one after the other. The connection's session is created
// by the first request that takes or waits for something. It ends in one step, with
// everything that it holds and waits for, when the connection does.
//
// Begin with conn.go, which serves a connection, then request.go, which has the commands, and session.go.
package dflockdtcp
