// Package kvslots is a distributed semaphore on NATS JetStream.
//
// A pool is a number of slots, registered under a secret UUID. Borrow takes the
// lowest free slot under a lease that ends by Return or by time, or waits in
// line for one. Each slot is one key of a JetStream key-value bucket, taken by
// compare-and-swap.
//
//	store, err := kvslots.Open(ctx, nc, kvslots.Config{})
//	state, err := store.Register(ctx, pool, 3)
//	lease, err := store.Borrow(ctx, pool, 30*time.Second, 10*time.Second)
//	defer lease.Return(ctx)
//
// Locks and semaphores by name need no registration. They are held by sessions. A
// session ends when it has not been used for a while, and frees what it holds: see
// Store.CreateSession, Store.Acquire, and Store.Enqueue with Store.Wait.
// Store.LockOwned is for locks that an owner holds without a session.
//
// # Roles
//
// Every Store is an equal peer: no Store owns a pool, none leads, and there is nothing
// to fail over. A Store watches the whole bucket, decides from what it sees, and
// writes; several Stores on one NATS are one semaphore. Services that may not use JetStream
// ask a gateway, over NATS or HTTP: see package client.
//
// # What gives safety
//
// A claim becomes a lease only after it was judged by the state of its pool at the
// claim's own place in the stream. So a pool never lends more slots than its count,
// no position is lent twice at a time, the lowest free position is lent first, and
// borrowers that wait are served in the order of arrival. A Store that is behind, or
// has skipped entries, finds out and does not judge until it knows. No answer comes
// from a read that may be old, or from a guess: after ErrUnavailable nothing is held,
// or it will be undone.
//
// # What gives liveness
//
// The leases of a holder that is gone end by time. The tickets of a Store that is gone
// or paused are passed over after a second. Waiting borrowers are woken by the stream,
// and one claim is written for one grant, however many wait.
//
// # What is not promised
//
// A holder that is suspended or cut off may not notice that its lease has ended.
// Resources that must not believe it check Lease.Fence. Nothing is lent while JetStream
// has no leader.
//
// # Clocks
//
// The stream decides: a lease is live until its purge is in the stream. Clocks decide
// only when a Store writes that purge. The Store that granted a lease counts from its
// answer, by its monotonic clock; the others end it a second later. No two machines'
// wall clocks are compared.
//
// How all of this works is in kvslots/DESIGN.md, "What is promised" and "One borrow,
// from request to answer".
package kvslots
