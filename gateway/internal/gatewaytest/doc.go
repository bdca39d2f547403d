// Package gatewaytest contains helpers for tests of the gateway's APIs: stores, a
// gateway that listens on a port, and a client.
package gatewaytest
