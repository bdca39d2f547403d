// Package events serves the events of a store over HTTP as server-sent events: who was granted
// what, who returned it, who waits (gateway/README.md, "Events"). Names, labels and hashes of
// pools are no secrets, and events contain nothing else of clients. The id of an event is the revision of its entry.
//
// Begin with events.go, then stream.go; publisher.go publishes the same events on NATS.
package events
