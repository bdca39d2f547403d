// Package bench measures kvslots: it puts load on it, and prints what the load
// took beside the limits of the machine and beside what others use instead.
//
// A Workload is a kind of load. It has cases: one for each door (the transport
// by which clients reach kvslots), sync mode and size. The cases of a workload
// are measured in turn, over and over (A B A B), each with a warm-up, so that a
// change of the machine's speed meets all of them. A row of the Report is a case
// with the median and the spread of its repetitions. On a machine that others
// use as well only ratios of rows of one report mean anything; the Targets are
// such ratios, each formed within one repetition.
//
// Everything runs in this process, clients and servers, but for the peers, which
// are the ordinary servers of the operating system, and for the connections of
// the waiters over HTTP.
package bench
