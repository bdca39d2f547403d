package bucket

import (
	"math"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots/internal/natstest"
)

func TestAckTokens(t *testing.T) {
	tokens, others := newAckTokens(), newAckTokens()
	for _, write := range []uint64{0, 1, 2, 1 << 32, math.MaxUint64} {
		token := string(tokens.append(nil, write))
		if id, ok := tokens.write(token); !ok || id != write {
			t.Errorf("%d became %s, and that became %d, %v", write, token, id, ok)
		}
		if _, ok := others.write(token); ok {
			t.Errorf("the token of %d is valid under another key", write)
		}
	}
	for _, token := range []string{"", "1", strings.Repeat("0", 32), strings.Repeat("0", 34), strings.Repeat("x", 32)} {
		if id, ok := tokens.write(token); ok {
			t.Errorf("%q is the token of %d", token, id)
		}
	}
}

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
