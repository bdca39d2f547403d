// Package peer is what one peer of kvslots does: a deterministic state machine
// without I/O, goroutines or clocks. Inputs are calls, each of which carries the
// time; what is to be done is taken out as a Ready. The shell around it (package
// bucket) does the I/O, and the simulator (package sim) drives the same code under
// a model of JetStream with all its faults.
//
// # The caller's side
//
//	p := peer.New(cfg, now)
//	for {
//		select one of: an entry delivered, an answer to a write, a request of a
//		caller, a caller that gave up, WakeAt reached; and call the input for it
//		r := p.Ready()
//		send r.Writes, in order, after those of earlier Readys
//		hand r.Answers to their callers
//		if r.Watch != nil, replace the watch
//		call Tick at r.WakeAt, if that is not 0
//	}
//
// Every call of Do is answered exactly once. A write may be answered at any time,
// or never: the peer sends it again, and decides how long it waits. Writes of one
// key are sent in the order in which they were decided.
//
// # A borrow
//
// A borrow is always in one phase, and where it is kept follows from that. These
// are the steps from one to another; transitions is the table.
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
//	              +--> claiming or arrived, if there is something for it after all
//
// From every phase a borrow is done when its caller gives up, its session ends, or
// nothing is known of what it wrote. When the view is built anew, waiting is joining
// until the load shows the ticket again.
//
// # The files
//
// A call begins in request.go. Borrows: borrow.go, claiming.go, joining.go,
// refusing.go; named pools that open and close: names.go; what a session has
// enqueued: enqueue.go, await.go; leases that are held: held.go, owned.go; pools:
// register.go; sessions: session.go. The view: view.go, check.go and
// contradiction.go, with own.go for this peer's own writes and read.go for barriers. Writes and their fate: write.go,
// fate.go, release.go. What ends by time: cleaning.go.
package peer
