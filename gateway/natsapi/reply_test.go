package natsapi_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"

	"github.com/kvslots/kvslots/gateway"
	"github.com/kvslots/kvslots/gateway/forrst"
	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/gateway/natsapi"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

// everySubject returns the subjects to which clients may publish under the permissions of
// README.md, "On a NATS of your own", each with a body that the service answers.
func everySubject(t *testing.T, d *fixture) map[string]string {
	t.Helper()
	m, err := d.nc.RequestWithContext(t.Context(), "$SRV.INFO.kvslots", nil)
	kvslotstest.Must(t, err)
	var info micro.Info
	kvslotstest.Must(t, json.Unmarshal(m.Data, &info))
	subjects := map[string]string{}
	for _, e := range info.Endpoints {
		subjects[e.Subject] = `{}` // answered with a 400
	}
	if len(subjects) != 29 {
		t.Fatalf("%d endpoints: %v", len(subjects), subjects)
	}
	delete(subjects, "kvslots.cancel") // is never answered
	subjects["kvslots.inspect"] = `{"id":"` + poolA + `"}`
	subjects["kvslots.borrow"] = `{"id":"` + poolA + `","ttl":600}`
	subjects["kvslots.session.create"] = ""
	subjects["kvslots.rpc"] = `{"protocol":{"name":"forrst","version":"0.1.0"},"id":"1","call":{"function":"urn:cline:forrst:ext:atomic-lock:fn:status","arguments":{"key":"lock:k"}}}`
	for _, verb := range []string{"PING", "INFO", "STATS"} {
		for _, of := range []string{"", ".kvslots", ".kvslots." + info.ID} {
			subjects["$SRV."+verb+of] = ""
		}
	}
	return subjects
}

// On a NATS where clients and the bucket share an account, no request makes the
// service write into the bucket, call JetStream or call itself, although the
// service's own permissions allow it.
func TestRepliesGoToInboxesOnly(t *testing.T) {
	srv, store := openStore(t)
	d := startService(t, srv, store, withSessions(store), withCalls(store))
	d.register(t, "2")
	d.borrow(t, `"ttl":600`)
	subjects := everySubject(t, d)
	js, err := jetstream.New(d.nc)
	kvslotstest.Must(t, err)
	bucket, err := js.KeyValue(t.Context(), "kvslots")
	kvslotstest.Must(t, err)
	keys, err := bucket.Keys(t.Context())
	kvslotstest.Must(t, err)
	replies := []string{
		"$JS.API.STREAM.PURGE.KV_kvslots", "$JS.API.STREAM.DELETE.KV_kvslots", "$JS.FC.KV_kvslots.x.y",
		"$SYS.REQ.SERVER.PING", "$SRV.STATS", "$G", "$",
		"kvslots.delete", "kvslots.borrow", "kvslots", "kvslots.x",
		"other", "other.x", "forrst.fn.x", "inbox.x", "_inbox.x", "_INBOXES.x", "_INBOX", "_INBOX_x", "x._INBOX.y",
	}
	for _, key := range keys {
		replies = append(replies, "$KV.kvslots."+key)
	}
	if len(keys) < 3 { // the pool, the lease, the peer
		t.Fatalf("the bucket has only %q", keys)
	}
	replies = append(replies, "$KV.kvslots.p.new.cfg", "$KV.another.x")

	// What stands at a key, and under which revision, must stay.
	before := map[string]uint64{}
	for _, key := range keys {
		if strings.HasPrefix(key, "p.") {
			entry, err := bucket.Get(t.Context(), key)
			kvslotstest.Must(t, err)
			before[key] = entry.Revision()
		}
	}
	listener := srv.Connect()
	arrived, err := listener.SubscribeSync(">")
	kvslotstest.Must(t, err)
	kvslotstest.Must(t, listener.Flush())
	for subject, body := range subjects {
		for _, reply := range replies {
			kvslotstest.Must(t, d.nc.PublishMsg(request(subject, reply, body)))
		}
		for _, inbox := range []string{d.nc.NewInbox(), "_INBOX_UABC.x", "_INBOX.me"} {
			answers, err := d.nc.SubscribeSync(inbox)
			kvslotstest.Must(t, err)
			kvslotstest.Must(t, d.nc.PublishMsg(request(subject, inbox, body)))
			if _, err := answers.NextMsgWithContext(t.Context()); err != nil {
				t.Errorf("%s: no answer to %s: %v", subject, inbox, err)
			}
			kvslotstest.Must(t, answers.Unsubscribe())
		}
	}
	if err := d.service.Close(t.Context()); err != nil { // everything under way is answered now
		t.Fatal(err)
	}
	kvslotstest.Must(t, errors.Join(d.nc.Flush(), listener.Publish("end", nil)))
	requested := map[string]bool{}
	for _, reply := range replies {
		requested[reply] = true
	}
	for {
		m, err := arrived.NextMsgWithContext(t.Context())
		kvslotstest.Must(t, err)
		if m.Subject == "end" {
			break
		}
		if requested[m.Subject] && m.Header.Get(ofTest) == "" && !fromStore(m) {
			t.Errorf("the service wrote %q to %s", m.Data, m.Subject)
		}
	}
	for key, revision := range before {
		entry, err := bucket.Get(t.Context(), key)
		if err != nil || entry.Revision() != revision {
			t.Errorf("%s changed: %v, %v", key, entry, err)
		}
	}
	if logged := d.logs.String(); strings.Count(logged, "reply subject") != 1 || strings.Contains(logged, keys[0]) {
		t.Errorf("logged:\n%s", logged)
	}
}

// ofTest is a header of this test's own requests; the service's answers lack it.
const ofTest = "Of-Test"

func request(subject, reply, body string) *nats.Msg {
	m := nats.NewMsg(subject)
	m.Reply, m.Data = reply, []byte(body)
	m.Header.Set(ofTest, "1")
	return m
}

// fromStore reports whether m is a peer's own write.
func fromStore(m *nats.Msg) bool {
	return strings.HasPrefix(m.Subject, "$KV.") && m.Header.Get("Nats-Expected-Last-Subject-Sequence") != ""
}

func withSessions(store ops.Sessions) func(*natsapi.Config) {
	return func(cfg *natsapi.Config) {
		cfg.Sessions, cfg.Turns = store, gateway.NewTurns()
	}
}

func withCalls(locks ops.OwnedLocks) func(*natsapi.Config) {
	return func(cfg *natsapi.Config) {
		cfg.Calls = forrst.New(locks, forrst.Config{Lending: cfg.Lending, Functions: &forrst.Functions{}})
	}
}

func TestStartChecksReplyPrefixes(t *testing.T) {
	_, err := natsapi.Start(nil, natsapi.Config{Logger: logtest.Logger(), ReplyPrefixes: []string{"app", "$KV"}})
	if err == nil || !strings.Contains(err.Error(), `"$KV"`) {
		t.Error(err)
	}
}
