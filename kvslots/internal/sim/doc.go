// Package sim is a deterministic simulation of kvslots: one to five real peers
// (package peer) on a model of the bucket's stream (package sim/stream), with
// clients of pools, sessions, locks and semaphores, and with the faults that
// were measured (kvslots/DESIGN.md, "Decisions").
//
// # A run
//
// A run is a function of its Plan. A Plan is drawn from a seed: each seed has
// its own mix of faults and rates (swarm testing), so that some seeds are calm
// and only lag, while others lose half of their acknowledgements. Time is
// virtual, events are ordered by their time and then by the order in which they
// were queued, and no goroutine is started.
//
// Most of the seeds are put into a situation that a rule is for (situations.go).
// testdata/mutations.txt lists single lines of rules and peer whose loss must be
// found, with the number of seeds that it takes.
//
// A node hosts a peer as the shell does: it hands the peer its inputs, takes a
// Ready after each, and moves the writes into a FIFO uplink. Acknowledgements
// come back over a path of their own, the watch is a consumer of the stream that
// is polled with a delay of its own. With history 1 a late poll skips entries.
//
// # What is checked
//
// The checker knows what clients asked and what they were told, and when. A
// call takes effect at some time between its start and its answer; a call that
// was answered ErrUnavailable, or whose peer died, may have taken effect or not.
// From this the checker derives for each lease the time during which it is
// certainly live, and for each session the time until which it certainly lives,
// and holds every answer against them. Where that is not enough it looks at the
// stream itself (type truth), never at a peer's view.
//
// A check that demands progress holds only while the simulation is calm: no
// fault is active, and the last one ended some time ago.
package sim
