// Package server runs a gateway for kvslots serve: its HTTP listener, the NATS server or the
// connections to one, the store, and what operators need: logs, signals, reloaded files and
// the service manager.
//
// Begin with run in server.go, which starts the parts in order, each in a file of its own.
package server
