package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nkeys"
)

// newNkey makes a user's nkey, with its seed in a file.
func newNkey(t *testing.T) (pair nkeys.KeyPair, public, file string) {
	t.Helper()
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	public, err = pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := pair.Seed()
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "seed")
	if err := os.WriteFile(file, seed, 0o600); err != nil {
		t.Fatal(err)
	}
	return pair, public, file
}
