package listener

import (
	"errors"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
)

const quoted = "9f1c2e7a-5b3d-4c8e-a1f0-6d2b9c4e7a01"

func TestLinesAboutClients(t *testing.T) {
	const of = `127.0.0.1:4711 - cid:7 - `
	client := errors.New(of + `"v1:go:` + quoted + ` - x"`) // has a text, as nats-server's clients do
	for _, c := range []struct {
		format string
		v      []any
		kind   string // "" for a line that is not about a client
	}{
		{of + "Publish Violation - Subject %q", []any{quoted}, "Publish Violation - Subject"},
		{of + `Subscription Violation - Subject "` + quoted + `", SID 1`, nil, "Subscription Violation - Subject"},
		{of + `Client parser ERROR, state=0, i=0: proto='"` + quoted + `"...'`, nil, "Client parser ERROR"},
		{of + `processPub Parse Error: "` + quoted + `"`, nil, "processPub Parse Error"},
		{of + "Client Error %s", []any{"abc " + quoted}, "Client Error"},
		{of + "%v - %s", []any{server.ErrAuthentication, `User "` + quoted + `"`}, "authentication error"},
		{of + "%s: %d vs %d", []any{server.ErrMaxPayload.Error(), 7, 6}, "maximum payload exceeded"},
		{of + "%s", []any{quoted}, "client error"},
		{`127.0.0.1:4711 - cid:7 - "v1:go:` + quoted + ` \" - %s" - "user - x" - Publish Violation - Reply %q`, []any{quoted}, "Publish Violation - Reply"},
		{"pipe - cid:7 - Slow Consumer Detected: MaxPending of %d Exceeded", []any{7}, "Slow Consumer Detected"},
		{"%s - %s%s", []any{client, "Producer was stalled for a total of 12ms", " - user"}, "Producer was stalled for a total of"},
		{"%s - %s%s", []any{client, "Invalid JetStream request '" + quoted + "'", ""}, "Invalid JetStream request"},
		{"%s - %s%s", []any{errors.New("JETSTREAM"), "Producer was stalled for a total of 12ms", ""}, ""},
		{"%s%s", []any{"Producer was stalled for a total of 12ms", ""}, ""},
		{"%s - %s", []any{"message", "error"}, ""},
		{"Server Exiting..", nil, ""},
		{"JetStream: cid:7 - of a stream", nil, ""},
	} {
		number, kind, ok := LineAboutClient(c.format, c.v)
		if ok != (c.kind != "") || kind != c.kind || ok && number != 7 {
			t.Errorf("%s: client %d, %q, %v; want %q", c.format, number, kind, ok, c.kind)
		}
	}
}
