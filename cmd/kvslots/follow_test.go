//go:build unix

package main

import (
	"io"
	"regexp"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/client"
	"github.com/kvslots/kvslots/kvslots/client/natsclient"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// Over NATS the command ends at once when another client has ended its lease, long before the
// next renewal.
func TestRunCommandFollowsItsLease(t *testing.T) {
	p, url := startNATSTransport(t)
	p.want(t, "PUT", "/l/"+pool, `{"count":1}`, 200, "")
	out, code := start(t, "run", pool, "--nats-url", url, "--ttl", "1h", "--", "/bin/sh", "-c", `echo runs $KVSLOTS_LEASE.; exec sleep 600`)
	lease := regexp.MustCompile(`runs (\S+)\.`)
	waitFor(t, func() bool { return lease.MatchString(out.String()) })
	began := time.Now()
	p.want(t, "POST", "/l/"+pool+"/return", `{"lease":"`+lease.FindStringSubmatch(out.String())[1]+`"}`, 200, "true")
	if got := <-code; got != exitLost {
		t.Errorf("exit code %d:\n%s", got, out)
	}
	if took := time.Since(began); took > 2*time.Minute { // a renewal comes after three
		t.Errorf("it ended after %v", took)
	}
}

// What several hold together is lost when a session or one of the names is.
func TestNamedAreFollowed(t *testing.T) {
	_, url := startNATSTransport(t)
	over := natsclient.New(connectNATS(t, url), client.Config{})
	for name, end := range map[string]func(n *named) error{
		"the session ends": func(n *named) error { return over.EndSession(t.Context(), n.in.session.ID()) },
		"one is evicted": func(n *named) error {
			_, err := over.Evict(t.Context(), kvslots.ByName(n.on.Key), 0, n.mutex.Fence())
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			from, err := dial(&settings.Gateway{NATS: settings.NATS{URL: url}}, io.Discard)
			kvslotstest.Must(t, err)
			in := &ownSession{from: from}
			var members []member
			for range 2 {
				members = append(members, newNamed(in, kvslots.Lock(uuid.NewString()), leaseTerms{ttl: time.Hour}))
			}
			h := newSeveral(members)
			defer h.close()
			lease, err := h.Borrow(t.Context())
			kvslotstest.Must(t, err)
			kvslotstest.Must(t, end(members[1].(*named)))
			<-lease.Done()
		})
	}
}
