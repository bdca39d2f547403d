// Package natstest starts nats-servers with JetStream for tests: in the test's own
// process, on loopback, on ports that the kernel picks. Links cut servers off from each
// other. Eventually waits for a condition.
//
// Begin with server.go, cluster.go and eventually.go.
package natstest
