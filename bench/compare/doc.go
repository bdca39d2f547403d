// Command compare measures all transports of kvslots and the library in one process, beside the
// limits of the machine, plain KV, and Redis and etcd, if they are installed. It judges targets
// and draws plots. It is a module of its own, so that programs that use kvslots do not depend
// on what only this comparison needs. bench/README.md describes it.
//
// Begin with main.go, then lab.go, targets.go and limits.go; a lock server has a file each.
package main
