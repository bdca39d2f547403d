package natsembed

import (
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
)

// Subscribers knows the connections that receive a message, and forgets those that do not
// receive it any more.
func TestSubscribers(t *testing.T) {
	srv := startServer(t, Config{DataDir: t.TempDir(), Addr: "127.0.0.1:0"})
	var numbers []uint64
	subscribe := func(subjects ...string) *nats.Conn {
		t.Helper()
		nc, _ := client(t, srv)
		for _, subject := range subjects {
			if _, err := nc.SubscribeSync(subject); err != nil {
				t.Fatal(err)
			}
		}
		number, err := nc.GetClientID()
		if err != nil {
			t.Fatal(err)
		}
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
		numbers = append(numbers, number)
		return nc
	}
	receivers := func(subject string) (got []int) {
		for _, number := range srv.Subscribers()(subject) {
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
	eventually(t, "the server forgets the subscriptions of a closed connection", func() bool { return len(receivers("_INBOX.b")) == 1 })
	want("_INBOX.a.1", 0)
	want("_INBOX.c.1.2", 2)
	want("_INBOX.x")
	if address, open := srv.Address(numbers[0]); !open || !strings.HasPrefix(address, "127.0.0.1:") {
		t.Errorf("address %q, open: %v", address, open)
	}
	if address, open := srv.Address(numbers[1]); open {
		t.Errorf("address %q of a closed connection", address)
	}
	inside, err := srv.ConnectService()
	if err != nil {
		t.Fatal(err)
	}
	defer inside.Close()
	number, err := inside.GetClientID()
	if address, open := srv.Address(number); err != nil || !open || address != "" {
		t.Errorf("address %q of a connection within the process, open: %v, %v", address, open, err)
	}
}
