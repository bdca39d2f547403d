package main

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots/cosmo"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// onLimits starts a NATS with JetStream. args returns the arguments of a cosmo command that
// uses it.
func onLimits(t *testing.T) (nc *nats.Conn, args func(args ...string) []string) {
	t.Helper()
	_, url := runNATS(t, jetStreamOptions(t))
	return connectNATS(t, url), func(args ...string) []string {
		return append([]string{"cosmo", args[0], "--nats-url", url}, args[1:]...)
	}
}

// acquireAsRuby takes a slot as a Ruby worker does.
func acquireAsRuby(t *testing.T, nc *nats.Conn, slot, jid string) {
	t.Helper()
	m := nats.NewMsg("$KV." + cosmo.DefaultBucket + "." + slot)
	m.Data = []byte(jid)
	m.Header.Set("Nats-Expected-Last-Subject-Sequence", "0")
	m.Header.Set("Nats-TTL", "60s")
	reply, err := nc.RequestMsgWithContext(t.Context(), m)
	if err != nil || !strings.Contains(string(reply.Data), `"seq":`) {
		t.Fatalf("%v, %v", reply, err)
	}
}

func TestCosmoKeys(t *testing.T) {
	nc, limit := onLimits(t)
	wantCall(t, 0, "", "", limit("list")...) // it creates the bucket
	for _, key := range []string{"api-v1_job/42", "a.b=c", "", strings.Repeat("k", cosmo.MaxKey)} {
		acquireAsRuby(t, nc, key+"/0", "ruby")
		for _, want := range []int{0, 75} {
			if code, out, errs := call(t, noEnv, limit("acquire", key, "--jid", "go", "--limit", "2")...); code != want || code == 0 && out != key+"/1\n" {
				t.Errorf("key %.20q: %d, %q, %q", key, code, out, errs)
			}
		}
		wantCall(t, 0, "released\n", "", limit("release", key+"/0", "--jid", "ruby")...)
		wantCall(t, 0, "released\n", "", limit("release", key+"/1", "--jid", "go")...)
	}
	for _, key := range []string{"*", ">", "a.*.b", "a.>", "a b", ".", "Zürich", strings.Repeat("k", cosmo.MaxKey+1)} {
		wantCall(t, 2, "", "kvslots: key must be up to 3000 letters, .*\n", limit("acquire", key, "--jid", "go")...)
	}
}

func TestCosmoList(t *testing.T) {
	nc, limit := onLimits(t)
	wantCall(t, 0, "", "", limit("list")...)
	wantCall(t, 0, "mail/0\n", "", limit("acquire", "mail", "--jid", "one", "--duration", "1h")...)
	acquireAsRuby(t, nc, "print/0", "bad\x1b[2J\n")
	acquireAsRuby(t, nc, "mail/eu/0", "two")
	const since = `[0-9]+s`
	mail := `mail/0: job one, age ` + since + `, revision 1\n`
	wantCall(t, 0, mail+`print/0: job "bad\\x1b\[2J\\n", age `+since+`, revision 2\nmail/eu/0: job two, age `+since+`, revision 3\n`, "", limit("list")...)
	wantCall(t, 0, mail, "", limit("list", "mail")...)
	wantCall(t, 0, "", "", limit("list", "other")...)
	out := wantCall(t, 0, `\{"slot":"mail/eu/0","number":0,"revision":3,"jid":"two","age":[0-9]+\}`+"\n", "", limit("list", "mail/eu", "--json")...)
	if !json.Valid([]byte(out)) {
		t.Errorf("no JSON: %s", out)
	}
}

// --revision names an acquisition, even if a later one is of the same job.
func TestCosmoReleaseByRevision(t *testing.T) {
	_, limit := onLimits(t)
	acquire := func(revision string) {
		t.Helper()
		wantCall(t, 0, `\{"slot":"mail/0","number":0,"revision":`+revision+`\}`+"\n", "", limit("acquire", "mail", "--jid", "j", "--json")...)
	}
	acquire("1")
	wantCall(t, 0, "not held\n", "", limit("release", "mail/0", "--revision", "2")...)
	wantCall(t, 0, "released\n", "", limit("release", "mail/0", "--revision", "1")...)
	acquire("2")
	wantCall(t, 0, "not held\n", "", limit("release", "mail/0", "--jid", "j", "--revision", "1")...)
	wantCall(t, 0, "not held\n", "", limit("release", "mail/0", "--jid", "k", "--revision", "2")...)
	wantCall(t, 0, "released\n", "", limit("release", "mail/0", "--jid", "j", "--revision", "2")...)
}

// --replicas counts when the bucket is created, and not afterwards.
func TestCosmoReplicas(t *testing.T) {
	nc, limit := onLimits(t)
	js, err := jetstream.New(nc)
	kvslotstest.Must(t, err)
	wantCall(t, 1, "", "kvslots: .*replicas.*\n", limit("acquire", "mail", "--jid", "j", "--replicas", "3")...) // on one server
	if _, err := js.Stream(t.Context(), "KV_"+cosmo.DefaultBucket); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("the bucket: %v", err)
	}
	wantCall(t, 0, "mail/0\n", "", limit("acquire", "mail", "--jid", "j", "--replicas", "1")...)
	wantCall(t, 75, "", "kvslots: all slots are taken\n", limit("acquire", "mail", "--jid", "j", "--replicas", "3")...)
}

func TestCosmoRefusesUnsafeBuckets(t *testing.T) {
	nc, limit := onLimits(t)
	js, err := jetstream.New(nc)
	kvslotstest.Must(t, err)
	kvslotstest.Must(t, kvslotstest.Err(js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "aging", TTL: time.Minute, LimitMarkerTTL: time.Minute})))
	wantCall(t, 1, "", "kvslots: .*max_age is 1m0s, not 0\n", limit("acquire", "mail", "--jid", "j", "--bucket", "aging")...)
}

func TestCosmoCommands(t *testing.T) {
	_, url := runNATS(t, jetStreamOptions(t))
	nats := []string{"--nats-url", url}
	acquire := func(args ...string) []string {
		return append(append([]string{"cosmo", "acquire", "mail", "--limit", "2"}, args...), nats...)
	}
	release := func(args ...string) []string {
		return append(append([]string{"cosmo", "release"}, args...), nats...)
	}
	wantCall(t, 0, "mail/0\n", "", acquire("--jid", "a")...)
	out := wantCall(t, 0, `\{"slot":"mail/1","number":1,"revision":2\}`+"\n", "", acquire("--jid", "b", "--json")...)
	if !json.Valid([]byte(out)) {
		t.Errorf("no JSON: %s", out)
	}
	wantCall(t, 75, "", "kvslots: all slots are taken\n", acquire("--jid", "c")...)
	wantCall(t, 0, "not held\n", "", release("mail/0", "--jid", "b")...)
	wantCall(t, 0, "released\n", "", release("mail/0", "--jid", "a")...)
	wantCall(t, 0, "not held\n", "", release("mail/0", "--jid", "a")...)
	wantCall(t, 0, `\{"released":true\}`+"\n", "", release("mail/1", "--force", "--json")...)
	wantCall(t, 0, "mail/0\n", "", acquire("--jid", "c", "--duration", "1500ms")...)
	wantCall(t, 2, "", "kvslots: key must be .*\n", append([]string{"cosmo", "acquire", "m.*", "--jid", "j"}, nats...)...)
	wantCall(t, 2, "", "kvslots: slot must be .*\n", release("mail", "--force")...)
}

func jetStreamOptions(t *testing.T) server.Options {
	return server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir()}
}
