package attack

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kvslots/kvslots/gateway"
	"github.com/kvslots/kvslots/gateway/internal/gatewaytest"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// from is the header by which a trusted proxy says that a client has an address.
const from = "X-Forwarded-For"

func behindProxy(c *config) { c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} }

// A client that takes its locks out of service uses up its own share, and no other's.
func TestNamesForEver(t *testing.T) {
	const share = 10
	d := open(t, func(c *config) {
		behindProxy(c)
		c.store.MaxLocks, c.store.MaxLocksPerOrigin = 4*share, share
	})
	take := func(client, key string) (code int) {
		var session wire.Session
		d.decode(t, d.want(t, "POST", "/v1/sessions", "", 200, "", from, client), &session)
		code, _, _ = d.Do(t, "POST", "/v1/locks/"+key, `{"acquire_timeout_s":0}`, wire.SessionHeader, session.ID, from, client)
		return code
	}
	for i := range 2 * share {
		key := fmt.Sprint("flood-", i)
		want := http.StatusOK
		if i >= share {
			want = http.StatusTooManyRequests
		}
		if code := take("198.51.100.1", key); code != want {
			t.Fatalf("lock %d: %d, want %d", i, code, want)
		}
		d.Do(t, "PUT", "/v1/pools/"+key+"/pause", `{"out":true}`, from, "198.51.100.1")
	}
	if code := take("198.51.100.2", "honest"); code != http.StatusOK {
		t.Errorf("another client is answered %d", code)
	}
}

// Many requests of one client for what takes long delay another client by a reading or two, and most are
// refused.
func TestLists(t *testing.T) {
	for name, path := range map[string]string{
		"lists": "/v1/pools?limit=%d", "look-ups": "/v1/pools/9f1c2e%02x", "streams": "/v1/events?pool=9f1c2e%02x", "long pages": "/v1/pools/9f1c2e7a-5b3d-4c8e-a1f0-6d2b9c4e%04x?leases=1000",
		"metrics": "/metrics?%d",
	} {
		t.Run(name, func(t *testing.T) { testLists(t, path) })
	}
}

func testLists(t *testing.T, path string) {
	d := open(t, behindProxy)
	for i := range 100 {
		d.want(t, "PUT", fmt.Sprintf("/l/9f1c2e7a-5b3d-4c8e-a1f0-6d2b9c4e%04x", i), `{"count":1}`, 200, "", from, "198.51.100.1")
	}
	stop := make(chan struct{})
	var flood sync.WaitGroup
	var refused atomic.Int64
	defer flood.Wait()
	defer close(stop)
	for i := range 40 {
		flood.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					if code, _, _ := d.Do(t, "GET", fmt.Sprintf(path, i+1), "", from, "198.51.100.1"); code == http.StatusTooManyRequests {
						refused.Add(1)
					}
				}
			}
		})
	}
	gatewaytest.Eventually(t, "some are refused", func() bool { return refused.Load() > 0 })
	for range 5 {
		d.want(t, "GET", "/v1/pools?limit=1000", "", 200, `"waiting"`, from, "198.51.100.2")
	}
}

// Streams whose clients read nothing are cut, and another one misses no event.
func TestSilentStreams(t *testing.T) {
	d := open(t, func(c *config) {
		behindProxy(c)
		c.events.WriteTimeout = 200 * time.Millisecond
	})
	stream := func(client string) net.Conn {
		conn := d.Dial(t)
		fmt.Fprintf(conn, "GET /v1/events HTTP/1.1\r\nHost: localhost\r\n%s: %s\r\n\r\n", from, client)
		return conn
	}
	const silent = 32
	for range silent {
		_ = stream("198.51.100.1").(*net.TCPConn).SetReadBuffer(4 << 10)
	}
	honest := bufio.NewReader(stream("198.51.100.2"))
	gatewaytest.Eventually(t, "the streams are open", func() bool { return d.metric(t, "kvslots_event_streams") == silent+1 })
	d.want(t, "PUT", "/l/"+pool, `{"count":1}`, 200, "")
	var returned atomic.Int64
	go func() {
		for line, err := honest.ReadString('\n'); err == nil; line, err = honest.ReadString('\n') {
			if strings.Contains(line, `"type":"returned"`) {
				returned.Add(1)
			}
		}
	}()
	label, pairs := strings.Repeat("é", 64), int64(0)
	gatewaytest.Eventually(t, "the silent streams are cut", func() bool {
		var lease wire.Lease
		d.decode(t, d.want(t, "POST", "/l/"+pool+"/borrow", `{"ttl":60,"label":"`+label+`"}`, 200, ""), &lease)
		d.want(t, "POST", "/l/"+pool+"/return", `{"lease":"`+lease.Lease.String()+`"}`, 200, "")
		pairs++
		return pairs%50 == 0 && d.metric(t, "kvslots_event_streams") == 1
	})
	gatewaytest.Eventually(t, "the other stream has had all events", func() bool { return returned.Load() == pairs })
	if cut := d.metric(t, "kvslots_event_streams_cut_total"); cut != silent {
		t.Errorf("%v streams were cut", cut)
	}
}

// A crowd of connections takes neither the places of probes, nor that of the next guess at a token.
func TestConnections(t *testing.T) {
	d := open(t, func(c *config) {
		c.MaxConnections, c.Tokens, c.RateLimit, c.RateBurst = 20, gateway.NewTokens("correct-token"), 0.001, 5
	})
	auth := func(token string) string {
		conn, err := net.Dial("tcp", d.tcp)
		kvslotstest.Must(t, err)
		defer conn.Close()
		fmt.Fprintf(conn, "auth\n_\n%s\n", token)
		reply, _ := bufio.NewReader(conn).ReadString('\n')
		return reply
	}
	for _, token := range []string{"a", "b", "c", "correct-token", "d", "correct-token"} {
		t.Log(token, auth(token))
	}
	if got := auth("correct-token"); got != "error_auth\n" {
		t.Errorf("a guess beyond the rate is answered %q", got)
	}
	for range 25 {
		io.WriteString(d.Dial(t), "GET / HTTP/1.1\r\n")
	}
	for _, path := range []string{"/health", "/ready"} {
		gatewaytest.Eventually(t, path, func() bool { // refused connections are read for a second
			answer, err := http.Get("http://" + d.Addr + path)
			if err != nil {
				return false
			}
			answer.Body.Close()
			return answer.StatusCode == http.StatusOK
		})
	}
}
