// Package stream models one JetStream KV stream for simulations: a bucket with history
// 1, per-message TTL and limit markers, on file storage.
//
// The model does no I/O, reads no clock and starts no goroutine. Time is an argument,
// and random numbers come from the source given to New, so that Options, that source
// and the sequence of calls determine what a Stream does. A Stream is not safe for
// concurrent use.
//
// # Use
//
// The simulator calls Publish when a write reaches the stream's leader, so that it
// decides how writes and their answers are delayed, lost and reordered. It calls
// Consumer.Next when the server delivers the next message to a reading, and Republished
// after each call that may have stored messages. With history 1 an
// entry that was overwritten before that is never delivered, so that a late call makes
// a reading skip entries. The simulator calls Advance no later than NextExpiry says, to
// let the server expire messages; all other methods with a time argument do so as well.
// Time never goes back: a time before that of an earlier call counts as that of the
// earlier call.
//
// # Faults and traps
//
// A fault is a method that the simulator calls: BeginGap and EndGap (no leader),
// ChangeLeader, StepClock, Kill, LoseTail, Purge, Delete, Create, Compact. A trap is
// behavior of a real server that its documentation does not lead one to expect. Traps
// switches each trap, Measured has what was measured on nats-server 2.15.2, and Met
// counts how often each trap occurred.
//
// The tests compare the model with a real server: the same random writes, reads,
// watches and expiries must have the same answers and deliveries.
//
// # What is left out
//
// The model has no limits of size and number, no deduplication by message id, no
// rollups by clients, no "Nats-Expected-Last-Subject-Sequence-Subject", no batches and
// no filters. The replicas of a replicated stream never diverge; a consumer may be on one that
// is behind.
//
// Begin with stream.go, publish.go and consumer.go; faults.go and traps.go have what may go wrong.
package stream
