// Package delivery sends grants over NATS, and learns whether they have arrived: a grant
// that has not must be taken back, for the next in line.
//
// It finds that out in one of two ways. The server reports whether a client was subscribed
// to the subject of an answer (deliveries). Or the client confirms the grant (confirmations), which also finds a client that has
// just died.
//
// The package also decides to which subjects a service answers at all: see Sender.MayAnswer.
//
// Begin with delivery.go, then deliveries.go and confirmations.go.
package delivery
