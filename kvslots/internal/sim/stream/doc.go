// Package stream is a model of one JetStream KV stream, for simulations: a
// bucket with history 1, per-message TTL and limit markers, on file storage.
//
// The model is pure. It does no I/O, reads no clock and starts no goroutine:
// the time is an argument, chance comes from the source given to New, and what
// a Stream does is a function of Options, that source and the calls made. A
// Stream is not safe for concurrent use.
//
// # Driving it
//
// The simulator calls Publish when a write reaches the stream's leader, so the
// delay, loss and reordering of writes and of their answers are its own. It
// calls Consumer.Next when the server sends the next message to a watch: with
// history 1 an entry that was overwritten before that moment is never sent, so
// the simulator makes a watch lag and skip by calling late. It calls Advance,
// no later than NextExpiry says, to let the server's own expiry happen; every
// other call with a time does so as well. Time never goes back: an earlier
// time than the last one counts as the last one.
//
// # Faults and traps
//
// A fault is a call that the simulator makes: BeginGap and EndGap (no leader),
// ChangeLeader, StepClock, Kill, LoseTail, Purge, Delete, Create, Compact. A
// trap is what a real server does besides that a naive reader of its manual
// does not expect; Traps switches each one, Measured has the figures that were
// measured on nats-server 2.15.2, and Met counts how often each has happened.
//
// The tests hold the model against a real server: the same random sequences of
// writes, reads, watches and expiries give the same answers and deliveries.
//
// # What is left out
//
// Limits of size and number, deduplication by message id, rollups asked for by
// a client, "Nats-Expected-Last-Subject-Sequence-Subject", batches, filters.
// The replicas of a replicated stream never diverge.
package stream
