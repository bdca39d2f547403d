// Package backup copies the contents of the bucket to a file, and restores them into a
// new stream, while peers run (README.md).
//
// Begin with dump.go, file.go, plan.go and restore.go, in this order.
package backup
