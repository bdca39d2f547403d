// Package underlease runs a command under a lease.
//
// [Run] borrows a lease, starts the command, and returns the lease when the command's process group is
// empty. The lease renews itself meanwhile. If it cannot be renewed, or another client has returned it, Run ends the
// command: with SIGTERM, and with SIGKILL after [Config.KillAfter], early enough that a
// lease that cannot be renewed outlives the command by [Margin].
//
// A lease is measured on the clock of package clock. If the machine is suspended until after the end
// of the lease, Run kills the command within maxPause after the resumption.
//
// All this needs a running process. If the process is killed, a guard kills the command with its
// process group: a shell in a session of its own; on Windows a job object. Without a shell Linux kills the
// command alone. What has left the command's group goes on, and so do the children of a command
// that shares the group of this process, at a terminal. If the process is stopped
// (SIGSTOP), nothing ends the command in time.
//
// Begin with underlease.go, then supervision.go, lease.go and child.go; guard_unix.go is the guard, and
// orphans_linux.go knows what is left of the command. origin_linux.go has what os/signal does not tell.
package underlease
