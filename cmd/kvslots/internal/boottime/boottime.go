// Package boottime reads a monotonic clock that includes the time while the machine is
// suspended, as leases do. The monotonic clock of package time excludes that time.
package boottime
