// Package boottime reads a monotonic clock that goes on while the machine is
// suspended, as leases do. The monotonic clock of package time stops then.
package boottime
