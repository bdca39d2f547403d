package natsembed

import (
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

const functionSubject = "forrst.fn.payments.charge"

// serveFunction answers calls of a function until the test ends.
func serveFunction(t *testing.T, srv *Server, opts ...nats.Option) (*nats.Conn, <-chan error) {
	t.Helper()
	nc, complaints := client(t, srv, opts...)
	_, err := nc.Subscribe(functionSubject, func(m *nats.Msg) { _ = m.Respond([]byte("done")) })
	kvslotstest.Must(t, errors.Join(err, nc.Flush()))
	return nc, complaints
}

func wantDenied(t *testing.T, nc *nats.Conn, complaints <-chan error, do func() error) {
	t.Helper()
	kvslotstest.Must(t, errors.Join(do(), nc.Flush()))
	if err := <-complaints; !errors.Is(err, nats.ErrPermissionViolation) {
		t.Errorf("complains of %v", err)
	}
}

// ask calls the function as a gateway does.
func ask(t *testing.T, srv *Server) {
	t.Helper()
	gateway, err := srv.ConnectService(nats.CustomInboxPrefix("_KVSLOTS_FN"))
	kvslotstest.Must(t, err)
	defer gateway.Close()
	if answer, err := gateway.RequestWithContext(t.Context(), functionSubject, nil); err != nil || string(answer.Data) != "done" {
		t.Errorf("got %v, %v", answer, err)
	}
}

func TestFunctionsOfAnOpenListener(t *testing.T) {
	srv := startServer(t, Config{DataDir: t.TempDir(), Addr: "127.0.0.1:0", Functions: Functions{Prefix: "forrst.fn"}})
	nc, complaints := serveFunction(t, srv)
	ask(t, srv)
	if len(complaints) > 0 {
		t.Errorf("complains of %v", <-complaints)
	}
	for _, subject := range []string{"_KVSLOTS_FN.>", "kvslots.>", ">", "forrst.>"} {
		wantDenied(t, nc, complaints, func() error { _, err := nc.SubscribeSync(subject); return err })
	}
	for _, subject := range []string{functionSubject, "_KVSLOTS_FN.x", "_INBOX.x"} {
		wantDenied(t, nc, complaints, func() error { return nc.Publish(subject, nil) })
	}
}

func TestFunctionsHaveCredentials(t *testing.T) {
	key, signer := newUser(t)
	srv := startServer(t, Config{
		DataDir: t.TempDir(), Addr: "127.0.0.1:0", User: "ann", Password: "secret",
		Functions: Functions{Prefix: "forrst.fn", Nkeys: []string{key}},
	})
	ordinary, complaints := client(t, srv, nats.UserInfo("ann", "secret"))
	wantDenied(t, ordinary, complaints, func() error { _, err := ordinary.SubscribeSync(functionSubject); return err })

	nc, complaints := serveFunction(t, srv, signer)
	ask(t, srv)
	if len(complaints) > 0 {
		t.Errorf("complains of %v", <-complaints)
	}
	for _, subject := range []string{"_INBOX.>", "_INBOX.x", "kvslots.borrow", "$SRV.PING", ">", "$KV.>", "_KVSLOTS_FN.>"} {
		wantDenied(t, nc, complaints, func() error { _, err := nc.SubscribeSync(subject); return err })
	}
	for _, subject := range []string{"kvslots.borrow", functionSubject, "$SRV.PING", "_INBOX.x", "_KVSLOTS_FN.x", "$JS.API.INFO"} {
		wantDenied(t, nc, complaints, func() error { return nc.Publish(subject, nil) })
	}
}

// With credentials for clients alone, no client may serve functions. With credentials
// for functions alone, other clients are accepted, and may not serve functions.
func TestFunctionsNeedCredentials(t *testing.T) {
	key, _ := newUser(t)
	for name, c := range map[string]struct {
		cfg    Config
		option nats.Option
	}{
		"clients with a password": {Config{User: "ann", Password: "secret", Functions: Functions{Prefix: "forrst.fn"}}, nats.UserInfo("ann", "secret")},
		"functions with an nkey":  {Config{Functions: Functions{Prefix: "forrst.fn", Nkeys: []string{key}}}, nats.Name("x")},
	} {
		t.Run(name, func(t *testing.T) {
			c.cfg.DataDir, c.cfg.Addr = t.TempDir(), "127.0.0.1:0"
			srv := startServer(t, c.cfg)
			nc, complaints := client(t, srv, c.option)
			wantDenied(t, nc, complaints, func() error { _, err := nc.SubscribeSync(functionSubject); return err })
		})
	}
}

func TestFunctionsAreValidated(t *testing.T) {
	key, _ := newUser(t)
	for want, c := range map[string]Config{
		"need a subject prefix": {Addr: "127.0.0.1:0", Functions: Functions{Nkeys: []string{key}}},
		"need a listener":       {Functions: Functions{Prefix: "fn", Nkeys: []string{key}}},
		"begin with U":          {Addr: "127.0.0.1:0", Functions: Functions{Prefix: "fn", Nkeys: []string{"hidden"}}},
		"different nkeys":       {Addr: "127.0.0.1:0", Nkeys: []string{key}, Functions: Functions{Prefix: "fn", Nkeys: []string{key}}},
		"not begin with kv":     {Functions: Functions{Prefix: "kvslots.fn"}},
		"with dots between":     {Functions: Functions{Prefix: "fn."}},
		"of A-Z, a-z, 0-9":      {Functions: Functions{Prefix: "fn.*"}},
		"with kvslots or _":     {Functions: Functions{Prefix: "_INBOX"}},
		"must be words":         {Functions: Functions{Prefix: "$JS"}},
	} {
		c.DataDir = t.TempDir()
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hidden") {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
