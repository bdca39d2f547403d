package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nkeys"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// newNkey makes a user's nkey, with its seed in a file.
func newNkey(t *testing.T) (pair nkeys.KeyPair, public, file string) {
	t.Helper()
	pair, err := nkeys.CreateUser()
	kvslotstest.Must(t, err)
	public, err = pair.PublicKey()
	kvslotstest.Must(t, err)
	seed, err := pair.Seed()
	kvslotstest.Must(t, err)
	file = filepath.Join(t.TempDir(), "seed")
	kvslotstest.Must(t, os.WriteFile(file, seed, 0o600))
	return pair, public, file
}
