package listener

import (
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(logtest.NoSecrets(m)) }

const testAccount = "CLIENTS"

// guarded is a nats-server with a Guard. A connection within the process is a service.
type guarded struct {
	*server.Server
	guard *Guard
}

func start(t *testing.T) *guarded {
	t.Helper()
	stopping, ended := make(chan struct{}), make(chan struct{})
	srv := &guarded{}
	srv.guard = New(Config{Account: testAccount, Server: func() *server.Server { return srv.Server }, Logger: logtest.Logger()}, stopping)
	options := &server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true, CustomClientAuthentication: srv}
	Limits{}.Apply(options)
	var err error
	if srv.Server, err = server.NewServer(options); err == nil {
		_, err = srv.RegisterAccount(testAccount)
	}
	kvslotstest.Must(t, err)
	srv.Start()
	t.Cleanup(func() {
		close(stopping)
		<-ended
		srv.Shutdown()
		srv.WaitForShutdown()
	})
	go func() {
		defer close(ended)
		srv.guard.Watch()
	}()
	if !srv.ReadyForConnections(time.Minute) {
		t.Fatal("the server is not ready")
	}
	return srv
}

// Check implements server.Authentication.
func (s *guarded) Check(c server.ClientAuthentication) bool {
	account, err := s.LookupAccount(testAccount)
	if err != nil {
		return false
	}
	register := func(accepted bool) {
		if accepted {
			c.RegisterUser(&server.User{Account: account})
		}
	}
	if _, socket := c.RemoteAddress().(*net.TCPAddr); !socket {
		register(true)
	} else {
		s.guard.Admit(c.RemoteAddress(), register)
	}
	return true
}

// serve answers requests, over a connection that provider opens, until the test ends.
func (s *guarded) serve(t *testing.T, provider nats.InProcessConnProvider) *nats.Conn {
	t.Helper()
	nc := s.client(t, nats.InProcessServer(provider), nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond))
	kvslotstest.Must(t, kvslotstest.Err(nc.Subscribe("kvslots.>", func(m *nats.Msg) { _ = m.Respond(nil) })))
	kvslotstest.Must(t, nc.Flush())
	return nc
}

func (s *guarded) client(t *testing.T, opts ...nats.Option) *nats.Conn {
	t.Helper()
	// A busy machine may delay the server's greeting.
	nc, err := nats.Connect(s.ClientURL(), append(opts, nats.Timeout(time.Minute))...)
	kvslotstest.Must(t, err)
	t.Cleanup(nc.Close)
	return nc
}

// Subscribers knows the connections that receive a message, and forgets those that do not
// receive it any more.
func TestSubscribers(t *testing.T) {
	srv := start(t)
	var numbers []uint64
	subscribe := func(subjects ...string) *nats.Conn {
		t.Helper()
		nc := srv.client(t)
		for _, subject := range subjects {
			kvslotstest.Must(t, kvslotstest.Err(nc.SubscribeSync(subject)))
		}
		number, err := nc.GetClientID()
		kvslotstest.Must(t, err)
		kvslotstest.Must(t, nc.Flush())
		numbers = append(numbers, number)
		return nc
	}
	receivers := func(subject string) (got []int) {
		for _, number := range srv.guard.Subscribers()(subject) {
			got = append(got, slices.Index(numbers, number))
		}
		slices.Sort(got)
		return slices.Compact(got)
	}
	want := func(subject string, clients ...int) {
		t.Helper()
		if got := receivers(subject); !slices.Equal(got, clients) {
			t.Errorf("%s: %v, want %v", subject, got, clients)
		}
	}
	subscribe("_INBOX.a.*")
	all := subscribe("_INBOX.>", "_INBOX.>", "_INBOX.*.1")
	subscribe("_INBOX.b", "_INBOX.c.1.2")
	want("_INBOX.a.1", 0, 1)
	want("_INBOX.a.1.2", 1)
	want("_INBOX.b", 1, 2)
	all.Close()
	kvslotstest.Eventually(t, "the server forgets the subscriptions of a closed connection", func() bool { return len(receivers("_INBOX.b")) == 1 })
	want("_INBOX.a.1", 0)
	want("_INBOX.c.1.2", 2)
	want("_INBOX.x")
	if address, open := srv.guard.Address(numbers[0]); !open || !strings.HasPrefix(address, "127.0.0.1:") {
		t.Errorf("address %q, open: %v", address, open)
	}
	if address, open := srv.guard.Address(numbers[1]); open {
		t.Errorf("address %q of a closed connection", address)
	}
	number, err := srv.serve(t, srv).GetClientID()
	if address, open := srv.guard.Address(number); err != nil || !open || address != "" {
		t.Errorf("address %q of a connection within the process, open: %v, %v", address, open, err)
	}
}
