// Package backup copies the contents of the bucket to a file, and restores them into a
// new stream, while peers run (kvslots/DESIGN.md, "Backup and restore").
package backup
