package bucket

import (
	"crypto/rand"
	"strings"

	"github.com/nats-io/nats.go"
)

// newInbox returns an inbox that cannot be guessed. nats.go makes all inboxes of a
// process from one random prefix and a counter, so a client that knows one of them could
// publish entries to a reading.
func newInbox(nc *nats.Conn) string {
	inbox := nc.NewInbox()
	return inbox[:strings.LastIndexByte(inbox, '.')+1] + rand.Text()
}
