package natsapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/gateway"
	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/gateway/library"
	"github.com/kvslots/kvslots/gateway/natsapi"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/client"
	"github.com/kvslots/kvslots/kvslots/client/natsclient"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/natsstore"
	"github.com/kvslots/kvslots/natsembed"
)

// served is a gateway as the program runs it: an embedded server, with connections for
// the bucket and the service within the process, and clients on sockets.
type served struct {
	store *kvslots.Store
	url   string // of NATS
	web   string // of HTTP
}

// serveBoth serves HTTP and NATS until the benchmark ends. wrap may replace the store of
// both.
func serveBoth(b *testing.B, wrap func(ops.Pools) ops.Pools) served {
	b.Helper()
	ctx := b.Context()
	fail := func(err error) {
		b.Helper()
		kvslotstest.Must(b, err)
	}
	srv, err := natsembed.Start(ctx, natsembed.Config{DataDir: b.TempDir(), Addr: "127.0.0.1:0", Sync: natsembed.SyncInterval})
	fail(err)
	b.Cleanup(func() { _ = srv.Close() })
	inside, err := srv.Connect()
	fail(err)
	b.Cleanup(inside.Close)
	store, err := natsstore.Open(ctx, inside, kvslots.Config{})
	fail(err)
	b.Cleanup(func() { _ = store.Close(context.Background()) })
	lending := gateway.NewLending()
	clients, err := srv.ConnectService(nats.ReconnectBufSize(-1))
	fail(err)
	b.Cleanup(clients.Close)
	service, err := natsapi.Start(clients, natsapi.Config{
		Pools: wrap(store), Sessions: store, Turns: gateway.NewTurns(), Lending: lending,
		VerbsPerSecond: 1e9, // BenchmarkUncontended is one client
		Listener:       srv.Clients(),
	})
	fail(err)
	b.Cleanup(func() { _ = service.Close(context.Background()) })
	g := gateway.New(gateway.Config{
		Store: store, Lending: lending,
		Dialects: []gateway.Dialect{library.New(wrap(store), lending, nil)},
	})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	fail(err)
	ended := make(chan error, 1)
	go func() { ended <- g.Serve(ln) }()
	b.Cleanup(func() {
		_ = g.Drain(context.Background())
		<-ended
	})
	return served{store, srv.ClientURL(), "http://" + ln.Addr().String()}
}

func unchanged(pools ops.Pools) ops.Pools { return pools }

func (s served) connect(b *testing.B) *nats.Conn {
	b.Helper()
	nc, err := nats.Connect(s.url)
	kvslotstest.Must(b, err)
	b.Cleanup(nc.Close)
	return nc
}

// borrower is one client of a transport. borrow waits in line.
type borrower interface {
	borrow(ctx context.Context, pool uuid.UUID) (lease string, err error)
	giveBack(ctx context.Context, pool uuid.UUID, lease string) error
}

// dialled is a client of gateways over NATS.
type dialled struct{ client *client.Client }

func (d dialled) borrow(ctx context.Context, pool uuid.UUID) (string, error) {
	lease, err := d.client.Borrow(ctx, pool, time.Minute, time.Minute)
	if err != nil {
		return "", err
	}
	return lease.ID().String(), nil
}

func (d dialled) giveBack(ctx context.Context, pool uuid.UUID, lease string) error {
	_, err := d.client.Return(ctx, pool, uuid.MustParse(lease))
	return err
}

// asking sends requests itself and confirms nothing, as a client without package client.
type asking struct{ nc *nats.Conn }

func (a asking) borrow(ctx context.Context, pool uuid.UUID) (string, error) {
	m, err := a.nc.RequestWithContext(ctx, "kvslots.borrow", []byte(`{"id":"`+pool.String()+`","ttl":60,"wait":60}`))
	if err != nil {
		return "", err
	}
	return leaseIn(m.Data)
}

func (a asking) giveBack(ctx context.Context, pool uuid.UUID, lease string) error {
	_, err := a.nc.RequestWithContext(ctx, "kvslots.return", []byte(`{"id":"`+pool.String()+`","lease":"`+lease+`"}`))
	return err
}

// posting is a client over HTTP.
type posting struct {
	client *http.Client
	web    string
}

func (p posting) borrow(ctx context.Context, pool uuid.UUID) (string, error) {
	answer, err := p.post(ctx, pool, "borrow", `{"ttl":60,"wait":60}`)
	if err != nil {
		return "", err
	}
	return leaseIn(answer)
}

func (p posting) giveBack(ctx context.Context, pool uuid.UUID, lease string) error {
	_, err := p.post(ctx, pool, "return", `{"lease":"`+lease+`"}`)
	return err
}

func (p posting) post(ctx context.Context, pool uuid.UUID, op, body string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.web+"/l/"+pool.String()+"/"+op, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	var answer bytes.Buffer
	_, err = answer.ReadFrom(resp.Body)
	return answer.Bytes(), err
}

func leaseIn(answer []byte) (string, error) {
	var body struct {
		Lease string `json:"lease"`
	}
	if err := json.Unmarshal(answer, &body); err != nil || body.Lease == "" {
		return "", fmt.Errorf("answered %s, %v", answer, err)
	}
	return body.Lease, nil
}

// BenchmarkHandover measures, on one gateway and in turn, how long it takes from
// the sending of a return to the grant to the only waiter, as its client sees it.
func BenchmarkHandover(b *testing.B) {
	s := serveBoth(b, unchanged)
	transport := &http.Transport{MaxIdleConnsPerHost: 4}
	b.Cleanup(transport.CloseIdleConnections)
	web := posting{&http.Client{Transport: transport}, s.web}
	transports := []struct {
		name           string
		holder, waiter borrower
		pool           uuid.UUID
		took           []time.Duration
	}{
		{name: "http", holder: web, waiter: web},
		{name: "dial", holder: dialled{natsclient.New(s.connect(b), client.Config{})}, waiter: dialled{natsclient.New(s.connect(b), client.Config{})}},
		{name: "plain", holder: asking{s.connect(b)}, waiter: asking{s.connect(b)}},
	}
	for i := range transports {
		transports[i].pool = uuid.New()
		if _, err := s.store.Register(b.Context(), transports[i].pool, 1); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		for i := range transports {
			t := &transports[i]
			t.took = append(t.took, s.handOver(b, t.holder, t.waiter, t.pool))
		}
	}
	b.ReportMetric(0, "ns/op") // of all transports together
	for _, t := range transports {
		p50 := median(t.took)
		b.ReportMetric(float64(p50.Microseconds()), t.name+"-p50-µs")
		b.ReportMetric(float64(p50)/float64(median(transports[0].took)), t.name+"/http")
	}
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

func (s served) handOver(b *testing.B, holder, waiter borrower, pool uuid.UUID) time.Duration {
	b.Helper()
	ctx := b.Context()
	held, err := holder.borrow(ctx, pool)
	kvslotstest.Must(b, err)
	var got string
	var at time.Time
	var failed error
	var waits sync.WaitGroup
	waits.Go(func() {
		got, failed = waiter.borrow(ctx, pool)
		at = time.Now()
	})
	for state, err := s.store.Inspect(ctx, pool); state.Waiting == 0; state, err = s.store.Inspect(ctx, pool) {
		kvslotstest.Must(b, err)
		time.Sleep(2 * time.Millisecond) // the polling must not compete with what is measured
	}
	sent := time.Now()
	err = holder.giveBack(ctx, pool, held)
	waits.Wait()
	if err != nil || failed != nil {
		b.Fatal(err, failed)
	}
	kvslotstest.Must(b, waiter.giveBack(ctx, pool, got))
	return at.Sub(sent)
}

// sameLease is a store that takes no time, so that what is measured is the service
// and the client.
type sameLease struct {
	ops.Pools
	lease atomic.Pointer[kvslots.Lease]
}

func (s *sameLease) Borrow(ctx context.Context, pool uuid.UUID, ttl, wait time.Duration, opts ...kvslots.Option) (*kvslots.Lease, error) {
	if lease := s.lease.Load(); lease != nil {
		return lease, nil
	}
	lease, err := s.Pools.Borrow(ctx, pool, ttl, wait, opts...)
	s.lease.Store(lease)
	return lease, err
}

func (s *sameLease) Return(context.Context, uuid.UUID, uuid.UUID) (bool, error) { return true, nil }

// BenchmarkUncontended runs borrow and return with 64 in flight in a pool of 1,000,
// and $SRV.PING beside it in the same run. It reports requests a second as a part
// of the pings'; an operation is one request.
func BenchmarkUncontended(b *testing.B) {
	for _, c := range []struct {
		name string
		wrap func(ops.Pools) ops.Pools
		with func(nc *nats.Conn) borrower
	}{
		{"dial", unchanged, func(nc *nats.Conn) borrower { return dialled{natsclient.New(nc, client.Config{})} }},
		{"plain", unchanged, func(nc *nats.Conn) borrower { return asking{nc} }},
		{"dial/no-store", withoutStore, func(nc *nats.Conn) borrower { return dialled{natsclient.New(nc, client.Config{})} }},
		{"plain/no-store", withoutStore, func(nc *nats.Conn) borrower { return asking{nc} }},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := serveBoth(b, c.wrap)
			nc, pool := s.connect(b), uuid.New()
			if _, err := s.store.Register(b.Context(), pool, 1000); err != nil {
				b.Fatal(err)
			}
			client := c.with(nc)
			cycle := func() error {
				lease, err := client.borrow(b.Context(), pool)
				if err == nil {
					err = client.giveBack(b.Context(), pool, lease)
				}
				return err
			}
			ping := func() error {
				_, err := nc.Request("$SRV.PING.kvslots", nil, 10*time.Second)
				return err
			}
			inFlight(b, 1000, cycle)
			pings := 20_000
			before := inFlight(b, pings, ping)
			b.ReportAllocs()
			b.ResetTimer()
			took := inFlight(b, (b.N+1)/2, cycle)
			b.StopTimer()
			pinged := before + inFlight(b, pings, ping)
			perSecond := float64(b.N) / took.Seconds()
			b.ReportMetric(perSecond, "requests/s")
			b.ReportMetric(perSecond/(2*float64(pings)/pinged.Seconds()), "of-ping")
		})
	}
}

// BenchmarkPair runs a borrow and its return, one pair after the other, without a store. The
// allocations are those of the client, too.
func BenchmarkPair(b *testing.B) {
	s := serveBoth(b, withoutStore)
	transport := &http.Transport{}
	b.Cleanup(transport.CloseIdleConnections)
	pool := uuid.New()
	if _, err := s.store.Register(b.Context(), pool, 2); err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name string
		with borrower
	}{
		{"http", posting{&http.Client{Transport: transport}, s.web}},
		{"nats", asking{s.connect(b)}},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				lease, err := c.with.borrow(b.Context(), pool)
				if err == nil {
					err = c.with.giveBack(b.Context(), pool, lease)
				}
				kvslotstest.Must(b, err)
			}
		})
	}
}

func withoutStore(pools ops.Pools) ops.Pools { return &sameLease{Pools: pools} }

// inFlight does something n times, 64 at once.
func inFlight(b *testing.B, n int, do func() error) time.Duration {
	b.Helper()
	var left atomic.Int64
	left.Store(int64(n))
	var all sync.WaitGroup
	began := time.Now()
	for range 64 {
		all.Go(func() {
			for left.Add(-1) >= 0 {
				if err := do(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	return time.Since(began)
}
