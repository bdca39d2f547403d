// Package natsstore opens a kvslots.Store on a connection to NATS with JetStream, and backs up and restores the bucket
// that all Stores share.
//
//	store, err := natsstore.Open(ctx, nc, kvslots.Config{})
package natsstore
