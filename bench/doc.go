// Package bench measures the throughput and latency of gateways from outside. The module
// bench/compare also measures the library, the limits of the machine and other lock servers.
//
// A workload is a kind of load. It has one case for each transport by which clients
// reach kvslots, sync mode and size. The cases of a workload are measured in turn, over
// and over (A B A B), each with a warm-up, so that changes of the machine's speed
// affect all of them. A row of the Report is a case with the median and the spread of
// its repetitions. On a shared machine only ratios of rows of the same report are
// meaningful.
//
// Begin with workload.go, load.go and runner.go.
package bench
