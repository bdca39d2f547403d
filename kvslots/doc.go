// Package kvslots is a distributed semaphore on NATS JetStream.
//
// A pool is a number of slots, registered under a secret UUID. Borrow takes the
// lowest free slot under a lease that ends by Return or by time, or waits in
// line for one. Each slot is one key of a JetStream key-value bucket, taken by
// compare-and-swap.
//
// Locks and semaphores by name need no registration. They are held by sessions,
// which end when they are not used for a while, and what they hold with them:
// see Store.CreateSession, Store.Acquire, and Store.Enqueue with Store.Wait.
//
// # Roles
//
// Every Store is an equal peer: there is no owner and no leader but JetStream's
// own, and nothing to fail over. A Store watches the whole bucket, decides from
// what it sees, and writes; several Stores on one NATS are one semaphore.
// Package client is for services that may not touch JetStream: it asks gateways
// over NATS.
//
// # What gives safety
//
// A claim is judged by the world as it stood at the claim's own place in the
// stream, so all peers come to the same verdict: a pool never has more leases
// than its count in force, no position is lent twice, the lowest free one is
// lent first, and whoever waits is served in the order of arrival. A view that
// is behind, or has skipped entries, finds out, and does not judge until it
// knows. Nothing is ever answered from a read, or from a guess: after
// ErrUnavailable nothing is held, or it will be undone.
//
// # What gives liveness
//
// The leases of whoever is gone end by time. The tickets of a peer that is gone
// or stands still are passed over after a second. Waiters are woken by the
// stream, and one claim is made for one grant, however many wait.
//
// # What is not promised
//
// A holder that is suspended, or cut off, may not notice that its lease has
// ended. Lease.Fence is for the resources that must not believe it. Nothing is
// lent while JetStream has no leader.
//
// # Clocks
//
// The stream decides: a lease is live until its purge is in the stream. Clocks
// decide only when a peer writes that purge: its own peer counts from its
// answer by its monotonic clock, the others a second longer from the stream
// leader's timestamp. No two machines' wall clocks are compared.
package kvslots
