package bucket

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots/internal/natstest"
)

// One inbox says nothing about another one, and they are below the connection's prefix.
func TestInboxesCannotBeGuessed(t *testing.T) {
	nc := natstest.Start(t, "").Connect(nats.CustomInboxPrefix("_KVSLOTS.x"))
	const prefix = "_KVSLOTS.x."
	a, b := newInbox(nc), newInbox(nc)
	if !strings.HasPrefix(a, prefix) || !strings.HasPrefix(b, prefix) || len(a) < len(prefix)+26 {
		t.Errorf("inboxes %s, %s", a, b)
	}
	if a[:len(prefix)+12] == b[:len(prefix)+12] {
		t.Errorf("%s and %s begin alike", a, b)
	}
	if known := nc.NewInbox(); strings.HasPrefix(a, known[:len(known)-10]) {
		t.Errorf("%s is like %s", a, known)
	}
}
