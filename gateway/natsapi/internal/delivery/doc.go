// Package delivery sends grants over NATS, and learns whether they have arrived: a grant
// that has not must be taken back, for the next in line.
//
// It finds that out in one of two ways. The server reports whether a client was subscribed
// to the subject of an answer (deliveries); but it takes a moment to notice that a client
// has died, so an answer that comes after a wait must first wait for that. Or the client
// confirms the grant (confirmations), which needs neither.
//
// The package also decides to which subjects a service answers at all: see Sender.MayAnswer.
//
// Begin with delivery.go, then deliveries.go and confirmations.go.
package delivery
