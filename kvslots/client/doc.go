// Package client accesses the pools, sessions, locks and semaphores of gateways over
// HTTP, and package natsclient does so over NATS. Its Client has the methods of a
// kvslots.Store, and returns the same errors.
//
//	c, err := client.Dial(ctx, "http://127.0.0.1:8080", client.Config{})
//	session, err := kvslots.NewSession(ctx, c)
//	defer session.Close(ctx)
//	err = session.With(ctx, "nightly", func(ctx context.Context, fence uint64) error { … }) // under a lock by name
//	err = kvslots.With(ctx, c, pool, do, kvslots.WithWait(10*time.Second))               // with a slot of a pool
//
// Both renew their lease, and end the context of the work before it is lost. For more than one
// function: Session.Mutex and Session.Semaphore, and Client.Borrow, whose Lease renews itself, too.
// kvslots.NewElection elects a leader among sessions, and lets other programs observe it.
//
// A Client knows only what gateways answer. Lease.Done is closed when the lease's time
// is over, when Return succeeds on this Client, when a renewal is refused, and within 5 s after others have
// ended it: it asks a gateway every 4 s. So does a Mutex.
//
// # Cancellation
//
// When the context of a waiting call ends, the call returns context.Cause. Over NATS
// the Client informs the gateway, which takes back what it may have granted. Over HTTP
// the Client closes the connection, and sends the request once more, without a wait, so
// that it leaves the line, for a second at most. If that fails, the gateway keeps the place,
// or the slot, for its --resume-grace. It is so with a request key of the caller's, too, unless
// the cause is kvslots.ErrPlaceKept.
//
// # Repeats and timeouts
//
// Borrow and Acquire repeat a request whose answer was lost, or whose gateway has waited for
// its --max-wait, or cannot serve it now, until their wait is over. Each repeat has the same
// request key (see kvslots.WithRequestKey), which the Client makes up if there is none: so it shares
// the place in line, or the lease, of the first. A call with a wait of w ends within w and 3 s, also if a
// gateway accepts the connection and never answers, and at once if a gateway asks for a longer pause than
// what is left of the wait. Return, Release and EndSession are repeated for 10 s, and CreateSession until the deadline of its context, or
// for 3 s. Other calls send one request, whose answer may take 10 s. See
// Config.Timeout. If the program dies while it waits, gateways keep its place for their --resume-grace. Clients in
// other languages promise the same: see kvslots/client/PROMISES.md.
//
// To change the package, begin with client.go, then repeat.go and exchange.go.
package client
