package main

import (
	"errors"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/client"
	"github.com/kvslots/kvslots/kvslots/client/natsclient"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// recommended starts a NATS server with the permissions in the manual of natsapi, and an
// admin without any.
func recommended(t *testing.T) (url string) {
	t.Helper()
	block := regexp.MustCompile("(?s)```text\n(users = .*?)```").FindStringSubmatch(readDocument(t, natsManual))
	if block == nil {
		t.Fatal("the manual recommends no permissions")
	}
	t.Setenv("KVSLOTS", "hunter2")
	t.Setenv("ANN", "hunter3")
	t.Setenv("CHARGE", "hunter4")
	users := strings.Replace(block[1], "users = [", "users = [{user: admin, password: hunter5}", 1)
	options, err := server.ProcessConfigFile(writeFile(t, "nats.conf", "authorization {\n"+users+"}\n"))
	kvslotstest.Must(t, err)
	options.Host, options.Port, options.JetStream, options.StoreDir = "127.0.0.1", -1, true, t.TempDir()
	_, url = runNATS(t, *options)
	return url
}

// With these permissions a client can send all requests, and cannot make the gateway
// erase a lease, destroy a pool or delete the bucket.
func TestRecommendedPermissions(t *testing.T) {
	url := recommended(t)
	p := startServe(t, map[string]string{"KVSLOTS_NATS_PASSWORD": "hunter2"}, "--nats-url", url, "--nats-user", "kvslots", "--publish-events")
	complaints := make(chan error, 1)
	ann := connectNATS(t, url, nats.UserInfo("ann", "hunter3"), nats.CustomInboxPrefix("_INBOX_ann"),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			select {
			case complaints <- err:
			default:
			}
		}))
	client, id := natsclient.New(ann, client.Config{}), uuid.MustParse(pool)
	kvslotstest.Must(t, kvslotstest.Err(client.Register(t.Context(), id, 1)))
	kvslotstest.Must(t, kvslotstest.Err(client.Borrow(t.Context(), id, kvslots.WithFixedTTL(time.Hour), kvslots.WithWait(0))))
	session, _, err := client.CreateSession(t.Context())
	kvslotstest.Must(t, err)
	kvslotstest.Must(t, kvslotstest.Err(client.Acquire(t.Context(), session, kvslots.Lock("deploy"), kvslots.WithTTL(time.Minute), kvslots.WithWait(0))))
	callCharge(t, url, ann)

	admin := connectNATS(t, url, nats.UserInfo("admin", "hunter5"))
	js, err := admin.JetStream()
	kvslotstest.Must(t, err)
	bucket, err := js.KeyValue("kvslots")
	kvslotstest.Must(t, err)
	keys, err := bucket.Keys()
	kvslotstest.Must(t, err)
	seen, err := admin.SubscribeSync("$KV.kvslots.p.>")
	kvslotstest.Must(t, err)
	kvslotstest.Must(t, admin.Flush())
	for _, verb := range []string{"$SRV.PING", "$SRV.INFO.kvslots", "$SRV.STATS", "kvslots.inspect", "kvslots.session.create"} {
		for _, reply := range append(prefixed("$KV.kvslots.", keys), "$JS.API.STREAM.PURGE.KV_kvslots", "$JS.API.STREAM.DELETE.KV_kvslots") {
			kvslotstest.Must(t, ann.PublishRequest(verb, reply, nil))
		}
		// A subscription delivers its requests in order: when this one is answered,
		// the earlier ones are, too.
		if _, err := ann.RequestWithContext(t.Context(), verb, nil); err != nil {
			t.Errorf("%s: %v", verb, err)
		}
	}
	p.want(t, "GET", "/l/"+pool, "", 200, `"count":1,"in_use":1`)
	p.want(t, "POST", "/l/"+pool+"/borrow", `{"ttl":30}`, 409, "")
	kvslotstest.Must(t, admin.Flush())
	if n, _, _ := seen.Pending(); n != 0 {
		t.Errorf("%d entries were written", n)
	}
	kvslotstest.Must(t, ann.Flush())
	file, env := filepath.Join(t.TempDir(), "kvslots.backup"), map[string]string{"KVSLOTS_NATS_PASSWORD": "hunter2"}
	storage := func(command ...string) {
		if code, _, stderr := call(t, env, append(command, file, "--nats-url", url, "--nats-user", "kvslots")...); code != exitDone {
			t.Errorf("%s: %s", command[0], stderr)
		}
	}
	storage("backup")
	p.stop()
	p.exitCode(t)
	storage("restore", "--replace")
	again := startServe(t, env, "--nats-url", url, "--nats-user", "kvslots", "--publish-events")
	again.want(t, "GET", "/l/"+pool, "", 200, `"count":1,"in_use":1`)
	select {
	case err := <-complaints:
		t.Errorf("the server complains of %v", err)
	default:
	}
	kvslotstest.Must(t, ann.Publish("kvslots.events.none.starts_over", nil))
	if err := <-complaints; !errors.Is(err, nats.ErrPermissionViolation) { // ann may not forge events
		t.Error(err)
	}
	if logged := p.logs.String() + again.logs.String(); strings.Contains(logged, "ermissions ") {
		t.Errorf("the gateway's permissions do not suffice:\n%s", logged)
	}
	for _, secret := range []string{"hunter", keys[0], pool} {
		if strings.Contains(p.logs.String(), secret) {
			t.Errorf("%s is in the logs:\n%s", secret, p.logs)
		}
	}
}

func prefixed(prefix string, words []string) []string {
	all := make([]string, len(words))
	for i, word := range words {
		all[i] = prefix + word
	}
	return all
}

// callCharge calls the function of the manual's function service as a client. The
// service may answer once, and publish nothing else.
func callCharge(t *testing.T, url string, client *nats.Conn) {
	t.Helper()
	denied := make(chan error, 10)
	charge := connectNATS(t, url, nats.UserInfo("charge", "hunter4"),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { denied <- err }))
	_, err := charge.Subscribe("forrst.fn.payments.charge", func(m *nats.Msg) {
		_ = charge.Publish("$KV.kvslots.x", nil)
		_ = m.Respond([]byte(`{"charge_id":"ch_abc"}`))
		_ = m.Respond([]byte(`{}`))
	})
	kvslotstest.Must(t, errors.Join(err, charge.Flush()))
	m, err := client.RequestWithContext(t.Context(), "kvslots.rpc", []byte(`{"protocol":{"name":"forrst","version":"0.1.0"},"id":"1","call":{"function":"payments.charge"}}`))
	if err != nil || !strings.Contains(string(m.Data), `"result":{"charge_id":"ch_abc"}`) {
		t.Fatalf("%v, %v", m, err)
	}
	for range 2 {
		if err := <-denied; !errors.Is(err, nats.ErrPermissionViolation) {
			t.Error(err)
		}
	}
}

// A client that may subscribe below _INBOX sees nothing of what JetStream sends to the
// gateway on an external NATS, nor of what the gateway asks about its answers.
func TestGatewayInboxesAreItsOwn(t *testing.T) {
	_, url := runNATS(t, server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir()})
	spy := connectNATS(t, url)
	seen, err := spy.SubscribeSync("_INBOX.>")
	if err == nil {
		err = spy.Flush()
	}
	kvslotstest.Must(t, err)
	p := startServe(t, noEnv, "--nats-url", url)
	ann := natsclient.New(connectNATS(t, url, nats.CustomInboxPrefix("_INBOX_ann")), client.Config{})
	id := uuid.MustParse(pool)
	kvslotstest.Must(t, kvslotstest.Err(ann.Register(t.Context(), id, 1)))
	lease, err := ann.Borrow(t.Context(), id, kvslots.WithFixedTTL(time.Hour), kvslots.WithWait(0))
	kvslotstest.Must(t, err)
	kvslotstest.Must(t, kvslotstest.Err(lease.Return(t.Context())))
	p.want(t, "GET", "/l/"+pool, "", 200, `"count":1,"in_use":0`)
	kvslotstest.Must(t, spy.Flush())
	if m, err := seen.NextMsg(time.Millisecond); err == nil {
		t.Errorf("the gateway is sent %q at %s %v", m.Data, m.Subject, m.Header)
	}
}

// When NATS takes away the permission for a subscription and gives it back, the gateway
// subscribes again: it serves the API over NATS, and calls functions, for each of which it
// subscribes anew. Meanwhile it is ready,
// since it serves HTTP, and a borrower that came over NATS stays in line.
func TestPermissionsGivenBack(t *testing.T) {
	t.Parallel() // waits for seconds
	srv := kvslotstest.Start(t, "", denying())
	admin := connectNATS(t, srv.ClientURL(), nats.UserInfo("admin", "p"))
	_, err := admin.Subscribe("forrst.fn.payments.charge", func(m *nats.Msg) { _ = m.Respond([]byte(`{"paid":true}`)) })
	kvslotstest.Must(t, errors.Join(err, admin.Flush()))
	p := startServe(t, map[string]string{"KVSLOTS_NATS_PASSWORD": "p"},
		"--nats-url", srv.ClientURL(), "--nats-user", "kvslots", "--forrst-timeout", "1s")
	serves := func() bool {
		m, err := admin.Request("kvslots.inspect", []byte(`{"id":"`+pool+`"}`), 10*time.Second)
		return err == nil && strings.Contains(string(m.Data), `"count":1`)
	}
	calls := func() bool {
		_, answer := p.ask(t, "POST", "/rpc", `{"protocol":{"name":"forrst","version":"0.1.0"},"id":"1","call":{"function":"payments.charge"}}`)
		return strings.Contains(answer, `{"paid":true}`)
	}
	p.want(t, "PUT", "/l/"+pool, `{"count":1}`, 200, "")
	lease := p.lend(t)
	waited := make(chan error, 1)
	go func() {
		_, err := natsclient.New(admin, client.Config{}).Borrow(t.Context(), uuid.MustParse(pool), kvslots.WithFixedTTL(time.Minute), kvslots.WithWait(5*time.Minute))
		waited <- err
	}()
	p.eventually(t, "/l/"+pool, `"waiting":1`)
	kvslotstest.Eventually(t, "the API over NATS is served, and functions are called", func() bool { return serves() && calls() })
	srv.Reload(denying("kvslots.>"))
	if serves() && calls() {
		t.Fatal("the gateway has lost no subscription")
	}
	p.logs.Await(t, func(text string) bool { // it has tried once in vain
		return strings.Count(text, `"connection":"service","pause_ms":`) >= 2
	})
	p.eventually(t, "/ready", `"status":"ready"`)
	srv.Reload(denying())
	kvslotstest.Eventually(t, "the API over NATS is served again, and functions are called", func() bool { return serves() && calls() })
	p.want(t, "POST", "/l/"+pool+"/return", `{"lease":"`+lease.Lease.String()+`"}`, 200, `{"returned":true}`)
	if err := <-waited; err != nil {
		t.Errorf("the borrower that waited: %v", err)
	}
}

// denying changes the permissions of the gateway.
func denying(subjects ...string) func(*server.Options) {
	denied := &server.Permissions{Subscribe: &server.SubjectPermission{Deny: subjects}}
	return func(o *server.Options) {
		o.Users = []*server.User{{Username: "admin", Password: "p"}, {Username: "kvslots", Password: "p", Permissions: denied}}
	}
}
