package main

import (
	"fmt"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// trouble is a fault of an existing NATS, for which a gateway cannot serve.
type trouble struct {
	name   string
	reason string // in /ready, and in the log
	begin  func(nats *server.Server, js jetstream.JetStream) error
	end    func(nats *server.Server, js jetstream.JetStream) error
	loses  bool // the bucket's contents
}

func troubles(t *testing.T) []trouble {
	return []trouble{
		{
			"JetStream is disabled for the account", "enable JetStream",
			func(nats *server.Server, _ jetstream.JetStream) error { return nats.GlobalAccount().DisableJetStream() },
			func(nats *server.Server, _ jetstream.JetStream) error {
				return nats.GlobalAccount().EnableJetStream(nil, nil)
			},
			false,
		},
		{
			"another tool has created the bucket", "it has no format number",
			func(_ *server.Server, js jetstream.JetStream) error {
				if err := js.DeleteStream(t.Context(), "KV_kvslots"); err != nil {
					return err
				}
				_, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "kvslots", History: 5})
				return err
			},
			func(_ *server.Server, js jetstream.JetStream) error { return js.DeleteKeyValue(t.Context(), "kvslots") },
			true,
		},
	}
}

// While NATS has a fault, a gateway answers 502, and /ready has a reason that says what to do; the
// log has the first one that the gateway met. Afterwards the gateway recovers by itself.
func TestTroublesOfAnExistingNATS(t *testing.T) {
	t.Parallel() // waits for seconds
	dir := t.TempDir()
	for _, c := range troubles(t) {
		t.Run(c.name, func(t *testing.T) {
			nats, url := runNATS(t, server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: dir})
			js, err := jetstream.New(connectNATS(t, url))
			kvslotstest.Must(t, err)
			p := startServe(t, noEnv, "--nats-url", url)
			p.want(t, "PUT", "/l/"+pool, `{"count":2}`, 200, "")
			lease := p.lend(t)
			kvslotstest.Must(t, c.begin(nats, js))
			p.eventually(t, "/ready", c.reason)
			p.want(t, "GET", "/ready", "", 503, c.reason)
			p.want(t, "GET", "/health", "", 200, "ok")
			p.want(t, "POST", "/l/"+pool+"/borrow", `{"ttl":30}`, 502, "safe to retry")
			p.logs.waitFor(t, "not ready: send borrowers elsewhere")
			kvslotstest.Must(t, c.end(nats, js))
			p.eventually(t, "/ready", `"status":"ready"`)
			p.logs.waitFor(t, "ready again")
			if c.loses {
				p.want(t, "GET", "/l/"+pool, "", 404, "")
				p.want(t, "PUT", "/l/"+pool, `{"count":2}`, 200, "")
				return
			}
			p.want(t, "POST", "/l/"+pool+"/return", fmt.Sprintf(`{"lease":%q}`, lease.Lease), 200, `{"returned":true}`)
		})
	}
}
