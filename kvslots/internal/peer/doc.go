// Package peer implements one peer of kvslots as a deterministic state machine
// without I/O, goroutines or clocks. Inputs are method calls, each with the time as
// an argument; Ready returns what the caller has to do. Package bucket, the shell
// around it, does the I/O. Package sim drives the same code on a model of JetStream
// with all its faults.
//
// # The caller's side
//
//	p := peer.New(cfg, now)
//	for {
//		wait for an entry delivered, an answer to a write, a request of a caller,
//		a caller that gives up, or r.WakeAt; and call the method for it
//		r := p.Ready()
//		send r.Writes, in order, after those of earlier Readys
//		deliver r.Answers to their callers
//		if r.Watch != nil, replace the watch
//		call Tick at r.WakeAt, if that is not 0
//	}
//
// Every call of Do is answered exactly once. The answer to a write may come at any
// time, or never: the peer sends the write again, and decides how long it waits.
// Writes of one key are sent in the order in which the peer decided them.
//
// # A borrow
//
// A borrow is always in one phase, which also says where the peer keeps it. These are
// the steps from phase to phase; the variable transitions has the table.
//
//	             a slot is free
//	  +--------------------------------------+
//	  |                                      v
//	arrived --> joining --> waiting --> claiming --> done: granted
//	  |  ^         |         |  ^  ^       |  |
//	  |  +---------+         |  |  +-------+  | its claim is void
//	  |   no ticket was      |  |   lost      v
//	  |   written            |  +------ withdrawing --> arrived, if it
//	  |                      | the wait is over         has no ticket
//	  +------> refusing <----+
//	              |
//	              +--> done: refused, by an exact view as new as the borrow
//	              +--> claiming or arrived, if the pool has changed meanwhile
//
// From every phase a borrow is done when its caller gives up, its session ends, or
// the outcome of its write is unknown. A borrow that has lost its ticket is arrived
// again. When the view is built anew, a waiting borrow is joining until the new view
// shows its ticket.
//
// # The files
//
// Calls: request.go, call.go, told.go. Borrows: borrow.go, claiming.go, ticket.go,
// refusing.go; named pools that open, and idle pools that close: opening.go,
// idlepools.go; what a session has enqueued: enqueue.go, await.go. Leases: renew.go,
// return.go, owned.go, follow.go, and held.go, which finds them. Pools: pool.go,
// register.go. Sessions: session.go, presence.go. The view: view.go, check.go and
// contradiction.go, with ownwrites.go for this peer's own writes and barrier.go for
// read barriers. Writes and their outcome: write.go, resolution.go, undo.go. What ends
// by time: cleaning.go. What monitoring reads: metrics.go, stats.go, confirm.go.
package peer
