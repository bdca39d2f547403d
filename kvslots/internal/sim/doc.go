// Package sim is a deterministic simulation of kvslots: one to five real peers (package
// peer) on a model of the bucket's stream (package sim/stream), with clients of pools,
// sessions, locks and semaphores, and with the faults that kvslots/DESIGN.md describes
// under "Decisions".
//
// # A run
//
// A Plan determines a run completely. A seed determines a plan: each seed has its own
// mix of faults and rates (swarm testing), so that some seeds only have lag, while
// others lose half of the acknowledgements. Time is virtual. Events are ordered by
// time, and events of the same time in the order in which they were scheduled. A run
// starts no goroutine.
//
// Most seeds put the peers into a situation in which a particular rule matters
// (situations.go). testdata/mutations.txt lists changes of single lines in packages
// rules and peer that the simulation must detect, with the number of seeds that it
// needs.
//
// A kept scenario (testdata) is a plan with its seed, and no list of events: a change of what
// the simulation or a peer draws at random, or of what a peer writes, makes another run of it.
// It is worth keeping while its run still has the events of its trace, or while it detects a
// mutation. Where the order of events matters, there is a scripted test (type script). So
// that new faults leave the kept runs as they are, what is new in a plan is drawn from a
// source of its own (drawMore), and a run draws nothing for a fault that its plan does not
// have.
//
// A node hosts a peer as the shell does: it passes inputs to the peer, takes a Ready
// after each input, and sends the writes over a link. The stream's leader republishes each
// entry before it acknowledges it; entries (type feed) and acknowledgements come by the
// link in one order. To load and to catch up, a peer has a reading, a consumer of the stream
// that the node polls after a delay; it stands for a fetch, too. The stream keeps one entry for
// each key, so that a late poll skips entries.
//
// A replicated stream is in a cluster of three servers (cluster.go). Each link is to one of
// them, which may be cut off from the others (type partition), and which the shell leaves
// when it hears nothing for too long (type silence). Around a change of leader, entries may
// be republished by no leader or by two (type handover), and a deposed leader may refuse a
// write that the new one stores.
//
// # Checks
//
// The checker records what clients asked, the answers and their times. A call takes
// effect between its start and its answer. A call that is answered ErrUnavailable, or
// whose peer dies, may or may not take effect. From this the checker derives when each
// lease is certainly live and until when each session is certainly alive, and checks
// every answer against that. Where that is not enough, it checks against the true state of
// the stream (type truth), never against a peer's view.
// A refusal and a state must be right for one instant of the call (type poolState), where a
// claim that its peer withdraws is no lease.
//
// Checks of progress apply only while no fault is active and the consequences of the
// last one are over (type faultState).
//
// Begin with simulation.go, plan.go and node.go, then check.go.
package sim
