// Package listener bounds what the clients of nats-server's listener may take: Limits is how
// many there may be, and what one may send and subscribe to. A Guard accepts clients, and
// disconnects those that do not read. It also finds the connections that
// are subscribed to a subject.
//
// Begin with listener.go, then limits.go, lines.go and unread.go.
package listener
