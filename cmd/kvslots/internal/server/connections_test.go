package server

import (
	"testing"
)

func TestWithoutInboxes(t *testing.T) {
	const violation = "nats: permissions violation: Permissions Violation for "
	for text, want := range map[string]string{
		`Publish to "_INBOX.hunter2.1"`:                                   `Publish to "_INBOX.…"`,
		`Publish to "app.inbox.hunter2"`:                                  `Publish to "app.…"`,
		`Subscription to "_KVSLOTS.HUNTER.*"`:                             `Subscription to "_KVSLOTS.…"`,
		`Publish to "$JS.API.STREAM.INFO.KV_kvslots"`:                     `Publish to "$JS.API.STREAM.INFO.KV_kvslots"`,
		`Subscription to "kvslots.borrow" using queue "kvslots"`:          `Subscription to "kvslots.borrow" using queue "kvslots"`,
		`Subscription to "kvslots.confirm.hunter2.*"`:                     `Subscription to "kvslots.confirm.…"`,
		`Publish to "_R_.hunter2" and "_INBOX_UABC.hunter2": not allowed`: `Publish to "_R_.…" and "_INBOX_UABC.…": not allowed`,
	} {
		if got := withoutInboxes(violation + text); got != violation+want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
