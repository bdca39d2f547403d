package natsembed

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// client connects to the listener. The channel receives the server's error messages.
func client(t *testing.T, srv *Server, opts ...nats.Option) (*nats.Conn, <-chan error) {
	t.Helper()
	complaints := make(chan error, 16)
	// A busy machine may delay the server's greeting.
	opts = append(opts, nats.Timeout(time.Minute), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { complaints <- err }))
	nc, err := nats.Connect(srv.ClientURL(), opts...)
	kvslotstest.Must(t, err)
	t.Cleanup(nc.Close)
	return nc, complaints
}

func TestClientsAreDenied(t *testing.T) {
	srv := startServer(t, Config{DataDir: t.TempDir(), Addr: "127.0.0.1:0"})
	denied := func(t *testing.T, do func(nc *nats.Conn) error) {
		t.Helper()
		nc, complaints := client(t, srv)
		kvslotstest.Must(t, errors.Join(do(nc), nc.Flush()))
		if err := <-complaints; !errors.Is(err, nats.ErrPermissionViolation) {
			t.Errorf("complains of %v", err)
		}
	}
	for _, subject := range []string{
		">", "*", "*.>", "*.*", "*.borrow", "kvslots.>", "kvslots.*", "kvslots.borrow", "kvslots",
		"kvslots.confirm.>", "kvslots.confirm.*.*", "kvslots.confirm.gateway.*", "kvslots.confirm.gateway.grant",
		"$KV.>", "$KV.kvslots.>", "$KV.kvslots.p.x.cfg", "$*.>",
		"$JS.API.>", "$JS.>", "$JS.API.STREAM.MSG.GET.KV_kvslots", "$JS.EVENT.>",
		"$SYS.>", "$SRV.>", "$SRV.PING", "$SRV.PING.kvslots", "_INBOX", "*.*.*", "_KVSLOTS.>",
	} {
		t.Run("subscribe "+subject, func(t *testing.T) {
			denied(t, func(nc *nats.Conn) error {
				_, err := nc.SubscribeSync(subject)
				return err
			})
		})
		t.Run("queue "+subject, func(t *testing.T) {
			denied(t, func(nc *nats.Conn) error {
				_, err := nc.QueueSubscribeSync(subject, "kvslots")
				return err
			})
		})
	}
	for _, subject := range []string{
		"$KV.kvslots.p.x.cfg", "$KV.x", "$JS.API.STREAM.DELETE.KV_kvslots", "$JS.API.INFO", "$JS.ACK.x",
		"$SYS.REQ.SERVER.PING", "_INBOX.another.client", "kvslots", "other",
		"kvslots.>", "kvslots.*", "kvslots.other", "kvslots.confirm", "kvslots.confirm.>", "kvslots.confirm.a", "kvslots.confirm.a.b.c", "kvslots.lock", "kvslots.lock.*", "kvslots.session.end", "$SRV.>", ">", "*",
	} {
		t.Run("publish "+subject, func(t *testing.T) {
			denied(t, func(nc *nats.Conn) error { return nc.Publish(subject, nil) })
		})
	}
}

func TestClientsReachServices(t *testing.T) {
	srv := startServer(t, Config{DataDir: t.TempDir(), Addr: "127.0.0.1:0"})
	service := serve(t, srv)
	defer service.Close()
	nc, complaints := client(t, srv)
	for _, subject := range []string{
		"kvslots.borrow", "kvslots.session.create", "kvslots.lock.wait", "kvslots.semaphore.enqueue",
		"kvslots.confirm.gateway.grant", "$SRV.PING", "$SRV.INFO.kvslots",
	} {
		if _, err := nc.RequestWithContext(t.Context(), subject, nil); err != nil {
			t.Errorf("%s: %v", subject, err)
		}
	}
	if len(complaints) > 0 {
		t.Errorf("complains of %v", <-complaints)
	}
	// Requests do not reach the bucket's account.
	bucket, err := srv.Connect()
	kvslotstest.Must(t, err)
	defer bucket.Close()
	if _, err := bucket.RequestWithContext(t.Context(), "kvslots.borrow", nil); !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("from the bucket's account: %v", err)
	}
}

// serve answers every request in the clients' account.
func serve(t *testing.T, srv *Server, opts ...nats.Option) *nats.Conn {
	t.Helper()
	nc, err := srv.ConnectService(opts...)
	kvslotstest.Must(t, err)
	for _, subject := range []string{"kvslots.>", "$SRV.>"} {
		kvslotstest.Must(t, kvslotstest.Err(nc.Subscribe(subject, func(m *nats.Msg) { _ = m.Respond(nil) })))
	}
	kvslotstest.Must(t, nc.Flush())
	return nc
}

// newUser returns a new nkey's public half, and an option that connects with it and
// receives answers in its inbox.
func newUser(t *testing.T) (public string, option nats.Option) {
	t.Helper()
	pair, err := nkeys.CreateUser()
	kvslotstest.Must(t, err)
	public, err = pair.PublicKey()
	kvslotstest.Must(t, err)
	return public, func(o *nats.Options) error {
		return errors.Join(nats.Nkey(public, pair.Sign)(o), nats.CustomInboxPrefix("_INBOX_"+public)(o))
	}
}

func TestAuthentication(t *testing.T) {
	key, signer := newUser(t)
	_, stranger := newUser(t)
	_, forger := newUser(t)
	forged := func(o *nats.Options) error { // the key of one user, the signature of another
		if err := forger(o); err != nil {
			return err
		}
		o.Nkey = key
		return nil
	}
	none := nats.Name("nobody")
	user, token := nats.UserInfo("u", "hunter2"), nats.Token("t0ken")
	wrongUser, wrongToken := nats.UserInfo("u", "hunter"), nats.Token("hunter2")
	for _, c := range []struct {
		name  string
		cfg   Config
		in    []nats.Option
		notIn []nats.Option
	}{
		{"nothing", Config{}, []nats.Option{none, user, token}, nil},
		{"user", Config{User: "u", Password: "hunter2"}, []nats.Option{user}, []nats.Option{none, wrongUser, nats.UserInfo("u", ""), nats.UserInfo("", "hunter2"), token, wrongToken, stranger}},
		{"token", Config{Token: "t0ken"}, []nats.Option{token}, []nats.Option{none, user, wrongToken, nats.UserInfo("t0ken", ""), stranger}},
		{"nkeys", Config{Nkeys: []string{key}}, []nats.Option{signer}, []nats.Option{none, user, token, stranger, forged}},
		{"all", Config{User: "u", Password: "hunter2", Token: "t0ken", Nkeys: []string{key}}, []nats.Option{user, token, signer}, []nats.Option{none, wrongUser, wrongToken, stranger, forged}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.cfg.DataDir, c.cfg.Addr = t.TempDir(), "127.0.0.1:0"
			srv := startServer(t, c.cfg)
			defer serve(t, srv).Close()
			for i, option := range c.in {
				nc, complaints := client(t, srv, option)
				if _, err := nc.RequestWithContext(t.Context(), "kvslots.inspect", nil); err != nil {
					t.Errorf("%d: %v (%d complaints)", i, err, len(complaints))
				}
			}
			for i, option := range c.notIn {
				nc, err := nats.Connect(srv.ClientURL(), option)
				if err == nil {
					nc.Close()
					t.Errorf("option %d is accepted", i)
				} else if !errors.Is(err, nats.ErrAuthorization) {
					t.Errorf("%d: %v", i, err)
				}
			}
			put(t, srv, "the bucket's own connection is let in")
		})
	}
}

// A client with an nkey has inboxes to which no other client can subscribe, and can
// subscribe to no others.
func TestPrivateInboxes(t *testing.T) {
	alice, aliceKey := newUser(t)
	bob, bobKey := newUser(t)
	srv := startServer(t, Config{DataDir: t.TempDir(), Addr: "127.0.0.1:0", Nkeys: []string{alice, bob}})
	defer serve(t, srv).Close()
	nc, complaints := client(t, srv, aliceKey)
	if _, err := nc.RequestWithContext(t.Context(), "kvslots.borrow", nil); err != nil {
		t.Errorf("%v (%d complaints)", err, len(complaints))
	}
	spy, complaints := client(t, srv, bobKey)
	for _, subject := range []string{"_INBOX_" + alice + ".>", "_INBOX.>", "_KVSLOTS.>"} {
		kvslotstest.Must(t, kvslotstest.Err(spy.SubscribeSync(subject)))
		if err := <-complaints; !errors.Is(err, nats.ErrPermissionViolation) {
			t.Errorf("%s: complains of %v", subject, err)
		}
	}
}

// The server does not check the reply subject that a client names, and tells a service
// nothing else about the client: see gateway/natsapi/README.md, "Who a client is".
func TestReplySubjectIsNotChecked(t *testing.T) {
	alice, aliceKey := newUser(t)
	bob, bobKey := newUser(t)
	srv := startServer(t, Config{DataDir: t.TempDir(), Addr: "127.0.0.1:0", Nkeys: []string{alice, bob}})
	service, err := srv.ConnectService()
	kvslotstest.Must(t, err)
	defer service.Close()
	headers := make(chan nats.Header, 1)
	if _, err := service.Subscribe("kvslots.borrow", func(m *nats.Msg) {
		headers <- m.Header
		_ = m.Respond(nil)
	}); err != nil {
		t.Fatal(err)
	}
	owner, _ := client(t, srv, bobKey)
	answers, err := owner.SubscribeSync("_INBOX_" + bob + ".x")
	kvslotstest.Must(t, errors.Join(err, owner.Flush(), service.Flush()))
	other, _ := client(t, srv, aliceKey)
	kvslotstest.Must(t, other.PublishRequest("kvslots.borrow", "_INBOX_"+bob+".x", nil))
	if header := <-headers; len(header) != 0 {
		t.Errorf("the service learns of the client: %v", header)
	}
	if _, err := answers.NextMsgWithContext(t.Context()); err != nil {
		t.Error("the answer did not go to the owner of the inbox:", err)
	}
}

func TestValidate(t *testing.T) {
	key, _ := newUser(t)
	for _, c := range []struct {
		name string
		cfg  Config
		want string // in the error; none when empty
	}{
		{"loopback", Config{Addr: "127.0.0.1:0"}, ""},
		{"loopback by name", Config{Addr: "localhost:0"}, ""},
		{"loopback, version 6", Config{Addr: "[::1]:0"}, ""},
		{"everywhere", Config{Addr: ":0"}, ErrOpenListener.Error()},
		{"every address", Config{Addr: "0.0.0.0:0"}, ErrOpenListener.Error()},
		{"every address, version 6", Config{Addr: "[::]:0"}, ErrOpenListener.Error()},
		{"by name", Config{Addr: "example.com:0"}, ErrOpenListener.Error()},
		{"TLS alone", Config{Addr: ":0", TLSCert: "c", TLSKey: "k"}, ErrOpenListener.Error()},
		{"insecure", Config{Addr: ":0", Insecure: true}, ""},
		{"user", Config{Addr: ":0", User: "u", Password: "hunter2"}, ""},
		{"token", Config{Addr: ":0", Token: "hunter2"}, ""},
		{"nkeys", Config{Addr: ":0", Nkeys: []string{key}}, ""},
		{"client certificates", Config{Addr: ":0", TLSCert: "c", TLSKey: "k", TLSCA: "a"}, ""},
		{"user alone", Config{Addr: "127.0.0.1:0", User: "u"}, "go together"},
		{"password alone", Config{Addr: "127.0.0.1:0", Password: "hunter2"}, "go together"},
		{"certificate alone", Config{Addr: "127.0.0.1:0", TLSCert: "c"}, "go together"},
		{"authorities alone", Config{Addr: "127.0.0.1:0", TLSCA: "c"}, "need TLS"},
		{"seed in place of a key", Config{Addr: "127.0.0.1:0", Nkeys: []string{"SUhunter2"}}, "public keys of users"},
		{"no listener", Config{Token: "hunter2"}, "need a listener"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.cfg.DataDir = "somewhere"
			err := c.cfg.Validate()
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want %q", err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("a secret is in %q", err)
			}
		})
	}
}

func TestNumClients(t *testing.T) {
	srv := startServer(t, Config{DataDir: t.TempDir(), Addr: "127.0.0.1:0"})
	service := serve(t, srv)
	defer service.Close()
	inside, err := srv.Connect()
	kvslotstest.Must(t, err)
	defer inside.Close()
	want := func(n int) {
		t.Helper()
		eventually(t, fmt.Sprintf("%d clients", n), func() bool { return srv.Clients().NumClients() == n })
	}
	want(0)
	first, _ := client(t, srv)
	client(t, srv)
	want(2)
	first.Close()
	want(1)
}
