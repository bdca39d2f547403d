// Package kvslots is a distributed semaphore on NATS JetStream.
//
// A pool is a number of slots, registered under a secret UUID. Borrow takes the
// lowest free slot, or waits in line until one is free. It returns a lease, which
// is renewed in the background, and ends when it is returned or when its time is over. Each slot is one key of a
// JetStream key-value bucket, and a borrow takes it by compare-and-swap.
//
//	store, err := natsstore.Open(ctx, nc, kvslots.Config{})
//	state, err := store.Register(ctx, pool, 3)
//	lease, err := store.Borrow(ctx, pool, kvslots.WithWait(10*time.Second)) // renewed until it is returned
//	defer lease.Return(ctx)
//
// Locks and semaphores have names and need no registration. Sessions hold them. A
// session ends when it has not been used for its idle time, and then releases what it
// holds: see Store.CreateSession, Store.Acquire, and Store.Enqueue with Store.Wait.
// Store.LockOwned takes a lock for an owner without a session.
//
// # Roles
//
// All Stores on a bucket are equal peers, and together they are one semaphore. No Store
// owns a pool, there is no leader among them, and nothing has to fail over. Each Store
// follows the whole bucket and decides by its view of it. Services that cannot use
// JetStream call a gateway, over NATS or HTTP: see package client.
//
// # What gives safety
//
// A Store writes a claim for a slot, and judges it by the state of the pool at the claim's
// own place in the stream. Only a claim that is valid there becomes a lease. So a pool
// never lends more slots than its count, no position is lent twice at a time, the lowest
// free position is lent first, and waiting borrowers are served in the order of arrival.
// A Store whose view is behind the stream, or has skipped entries, detects that and
// judges only when its view has caught up. No answer comes from a stale read: after
// ErrUnavailable the caller holds nothing, or the Store undoes what was written.
//
// # What gives liveness
//
// The leases of a holder that has died end when their time is over. The line passes over
// the borrowers of a Store that has died or is paused, after a second. Entries of the stream
// wake waiting borrowers, and each grant costs one claim, however many borrowers wait.
//
// # What is not promised
//
// A holder that is suspended or disconnected may not notice that its lease has ended.
// A resource that must refuse such a holder compares fencing tokens: see Lease.Fence.
// No slot is lent while the bucket's stream has no leader.
//
// # Clocks
//
// A lease is live until its purge is in the stream. Clocks decide only when a Store writes
// that purge. The Store that granted a lease counts its time by a monotonic clock, from
// the answer to the caller; other Stores end the lease a second later. The wall clocks of
// two machines are never compared.
//
// See kvslots/DESIGN.md, "What is promised" and "One borrow, from request to answer".
//
// To change the package, begin with store.go and session.go, then lease.go, tenure.go and mutex.go.
package kvslots
