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
//		if r.Joined != 0, end that reading
//		if r.Reading != nil, begin that reading in place of the present one
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
//	                         | no caller waits          has no ticket
//	                         +--> parting --> done; arrived, if one has come back
//
// Callers are refused one by one, by a live view as new as each call: in phase arrived if they do
// not wait, and in phase waiting when their wait is over. A borrow whose request key has a slot in
// the view goes from arrived to resuming, and from there to done: granted, or back to arrived if
// the slot is gone. One whose request key has a place in the line takes that place, or waits beside
// the peer that serves it.
//
// From every phase a borrow is done when its last caller gives up, its session ends, or
// the outcome of its write is unknown; with a request key its place may be kept. A borrow that has
// lost its ticket is arrived again. When the view is built anew, a waiting borrow is joining until the new view
// shows its ticket.
//
// # The rooms
//
// The package has rooms. Each uses those before it, by calls only: the fields of its types are
// its own, but for those of the contract. TestRoomsDependOneWay and TestNoLargeCircleOfFiles check that.
// Read peer.go, hub.go and begin.go first: all inputs, all entries and all requests go to the rooms from
// there. The others need not be read together.
//
//   - The contract: config.go, request.go, output.go, errors.go, metrics.go.
//   - The kernel, on which all stand: time, view, alarms, open calls. kernel.go, call.go, queue.go, lists.go.
//   - The post, which writes messages, says what has become of each, and makes answers as new as their calls:
//     post.go, write.go, writequeue.go, underway.go, message.go, discard.go, caps.go, barrier.go. Of the view
//     it knows that there is a viewKeeper.
//   - The keeper of the view: feed.go, loading.go, catchup.go, catchup_check.go, contradiction.go; presence.go
//     and confirmation.go. It calls the rooms above it by the interface host.
//   - Leases that were granted: told.go, held.go, return.go, renew.go, expiry.go, evict.go, owned.go, certain.go,
//     describe.go.
//   - The registry, which writes configurations for callers: register.go, delete.go, outofservice.go.
//   - Borrows: pool.go, borrow.go, wish.go, borrow_phase.go, share.go, caller.go, claiming.go, ticket.go,
//     repeat.go, restart.go; names.go, limitmismatch.go and idlepools.go, which the others call by the interface naming; enqueue.go
//     and await.go.
//   - Sessions: session.go, session_end.go.
//   - What looks at the view: stats.go, read.go, ranking.go, event.go.
//   - The peer, which joins them: peer.go, hub.go, begin.go, cleaning.go, remains.go.
package peer
