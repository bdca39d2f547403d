package events_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"github.com/kvslots/kvslots/gateway/events"
	"github.com/kvslots/kvslots/gateway/internal/gatewaytest"
	"github.com/kvslots/kvslots/gateway/openapitest"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/subjects"
	"github.com/kvslots/kvslots/kvslots/wire"
	"github.com/kvslots/kvslots/natsembed"
)

func register(t testing.TB, s *site, count int, opts ...kvslots.Option) uuid.UUID {
	t.Helper()
	pool := uuid.New()
	kvslotstest.Must(t, kvslotstest.Err(s.store.Register(t.Context(), pool, count, opts...)))
	return pool
}

func borrow(t testing.TB, s *site, pool uuid.UUID, label string) *kvslots.Lease {
	t.Helper()
	lease, err := s.store.Borrow(t.Context(), pool, kvslots.WithFixedTTL(time.Minute), kvslots.WithWait(0), kvslots.WithLabel(label))
	kvslotstest.Must(t, err)
	return lease
}

func giveBack(t testing.TB, lease *kvslots.Lease) {
	t.Helper()
	kvslotstest.Must(t, kvslotstest.Err(lease.Return(t.Context())))
}

// Each filter shows what it names and nothing else.
func TestFilters(t *testing.T) {
	s := openSites(t, 1, events.Config{})[0]
	pool, other := register(t, s, 2, kvslots.WithName("screens")), register(t, s, 2)
	hash := kvslots.ByID(pool).Hash()
	session, _, err := s.store.CreateSession(t.Context())
	kvslotstest.Must(t, err)
	all := []string{
		"granted pool 0 a", "granted pool 0 b", "granted lock 0 c", "returned pool 0 b", "returned lock 0 c", "returned pool 0 a",
	}
	only := func(is func(i int) bool) (want []string) {
		for i, e := range all {
			if is(i) {
				want = append(want, e)
			}
		}
		return want
	}
	first := only(func(i int) bool { return i == 0 || i == 5 })
	streams := map[string]*reader{}
	want := map[string][]string{}
	for _, c := range []struct {
		path string
		want []string
		more []string
	}{
		{"/v1/events", all, nil},
		{"/v1/events?pool=" + hash, first, nil},
		{"/v1/events?pool=" + hash[:8], first, nil},
		{"/v1/events?pool=screens", first, nil},
		{"/v1/events?key=build", only(func(i int) bool { return i == 2 || i == 4 }), nil},
		{"/v1/events?key=build&pool=" + hash, only(func(i int) bool { return i%2 == 0 || i == 5 }), nil},
		{"/v1/events?type=returned", all[3:], nil},
		{"/v1/events?type=granted,expired&pool=" + hash, all[:1], nil},
		{"/v1/events?type=", first, []string{wire.PoolHeader, pool.String()}},
		{"/l/" + pool.String() + "/events", first, nil},
		{"/l/self/events?type=returned", all[5:], []string{wire.PoolHeader, pool.String()}},
	} {
		path := strings.TrimSuffix(c.path, "?type=")
		streams[c.path], want[c.path] = s.read(t, path, c.more...), c.want
		if e := streams[c.path].want(kvslots.EventStartsOver); e.ID == 0 {
			t.Errorf("%+v", e)
		}
	}
	a := borrow(t, s, pool, "a")
	b := borrow(t, s, other, "b")
	c, err := s.store.Acquire(t.Context(), session, kvslots.Lock("build"), kvslots.WithTTL(time.Minute), kvslots.WithWait(0), kvslots.WithLabel("c"))
	kvslotstest.Must(t, err)
	giveBack(t, b)
	kvslotstest.Must(t, s.store.Release(t.Context(), session, kvslots.Lock("build"), c.Token))
	giveBack(t, a)
	for path, r := range streams {
		for _, want := range want[path] {
			e, _, _ := r.next()
			if e.Position == nil || e.Label == nil {
				t.Fatalf("%s: %+v, want %s", path, e, want)
			}
			if got := fmt.Sprintln(e.Type, e.Kind, *e.Position, *e.Label); got != want+"\n" {
				t.Errorf("%s: got %s, want %s", path, got, want)
			}
			if e.Hash == hash && e.Name != "screens" || e.Kind == "lock" && e.Key != "build" || (e.Held != nil) != (e.Type == "returned") {
				t.Errorf("%s: %+v", path, e)
			}
		}
	}
}

func TestRefusals(t *testing.T) {
	s := openSites(t, 1, events.Config{})[0]
	pool := uuid.NewString()
	for path, want := range map[string]int{
		"/v1/events?types=granted":                    400,
		"/v1/events?type=granted,":                    400,
		"/v1/events?type=%zz":                         400,
		"/v1/events?pool=" + pool:                     400,
		"/v1/events?key=":                             400,
		"/v1/events?key=a%20b":                        400,
		"/v1/events?pool=%3Cimg%3E":                   400,
		"/l/self/events":                              400,
		"/l/x/events":                                 400,
		"/l/" + pool + "/events":                      404,
		"/l/" + pool + "/events?key=x":                400,
		"/v1/events?" + strings.Repeat("key=x&", 101): 400,
	} {
		code, body, header := s.Do(t, "GET", path, "")
		if code != want || strings.Contains(body, pool) || strings.Contains(body, "img") || header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	if code, _, header := s.Do(t, "HEAD", "/v1/events", ""); code != 200 || header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("HEAD: %d %v", code, header)
	}
	if code, _, header := s.Do(t, "POST", "/v1/events", ""); code != 405 || header.Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: %d %v", code, header)
	}
}

// Text of clients stays within the data of its own event.
func TestHostileTexts(t *testing.T) {
	s := openSites(t, 1, events.Config{})[0]
	r := s.read(t, "/v1/events")
	r.want(kvslots.EventStartsOver)
	const label = "\"}<img src=x onerror=alert(1)>\\ data: id: 1"
	pool := register(t, s, 1, kvslots.WithName("<script>"))
	if e := r.want(kvslots.EventRegistered); e.Name != "<script>" {
		t.Errorf("%+v", e)
	}
	borrow(t, s, pool, label)
	if e := r.want(kvslots.EventGranted); e.Label == nil || *e.Label != label {
		t.Errorf("%+v", e)
	}
	if line := r.lines.Text(); strings.Contains(line, `\u00`) {
		t.Errorf("escapes for HTML: %s", line)
	}
}

// A client that changes between two gateways, as often as it likes, misses nothing and sees nothing
// twice, while others borrow.
func TestResumeAtAnotherGateway(t *testing.T) {
	sites := openSites(t, 2, events.Config{})
	for _, s := range sites { // so that both remember
		s.read(t, "/v1/events").want(kvslots.EventStartsOver)
	}
	pool := register(t, sites[0], 1000)
	const path = "/v1/events?type=granted,returned,registered"
	whole := sites[0].read(t, path)
	first := whole.want(kvslots.EventStartsOver)
	var borrowing sync.WaitGroup
	for i := range 4 {
		borrowing.Go(func() {
			for range 25 {
				lease, err := sites[i%2].store.Borrow(t.Context(), pool, kvslots.WithFixedTTL(time.Minute), kvslots.WithWait(0))
				if err == nil {
					_, err = lease.Return(t.Context())
				}
				if err != nil && !errors.Is(err, kvslots.ErrUnavailable) { // a busy machine
					t.Error(err)
				}
			}
		})
	}
	borrowed := make(chan error, 1)
	go func() {
		borrowing.Wait()
		_, err := sites[0].store.Register(t.Context(), uuid.New(), 1) // the end
		borrowed <- err
	}()
	last, ended := fmt.Sprint(first.ID), false
	var wanted, got []string
	take := func(r *reader) string {
		e, _, ok := r.next()
		if !ok || e.Type == "starts_over" {
			t.Fatalf("%+v, %v", e, r.lines.Err())
		}
		ended = e.Type == "registered"
		return fmt.Sprint(e.Type, e.Fence)
	}
	for turn := 1; !ended; turn++ {
		r := sites[turn%2].read(t, path, wire.LastEventIDHeader, last)
		for range 7 {
			if got = append(got, take(r)); ended {
				break
			}
		}
		last = r.last
		r.close()
	}
	kvslotstest.Must(t, <-borrowed)
	for ended = false; !ended; {
		wanted = append(wanted, take(whole))
	}
	if !slices.Equal(got, wanted) {
		t.Errorf("got  %s\nwant %s", got, wanted)
	}
}

// The ends of all leases of a session have one id, which only the last one has.
func TestIDsEndWhatHappenedAtOnce(t *testing.T) {
	s := openSites(t, 1, events.Config{})[0]
	r := s.read(t, "/v1/events?type=session_ended")
	r.want(kvslots.EventStartsOver)
	session, _, err := s.store.CreateSession(t.Context())
	kvslotstest.Must(t, err)
	const n = 5
	for i := range n {
		kvslotstest.Must(t, kvslotstest.Err(s.store.Acquire(t.Context(), session, kvslots.Lock(fmt.Sprint("k", i)), kvslots.WithTTL(time.Minute), kvslots.WithWait(0))))
	}
	kvslotstest.Must(t, s.store.EndSession(t.Context(), session))
	for i := range n {
		e, withID, _ := r.next()
		if e.Type != "session_ended" || e.Position == nil || withID != (i == n-1) {
			t.Errorf("%+v, id %v", e, withID)
		}
	}
}

func TestStreamsEndAtDrain(t *testing.T) {
	s := openSites(t, 1, events.Config{})[0]
	r := s.read(t, "/v1/events")
	r.want(kvslots.EventStartsOver)
	s.Lending.Stop()
	if e, _, ok := r.next(); ok || r.lines.Err() != nil {
		t.Errorf("%+v, %v", e, r.lines.Err())
	}
	if r.retry == "" {
		t.Error("the client was not told when to come back")
	}
	if code, body, header := s.Do(t, "GET", "/v1/events", ""); code != 503 || header.Get(wire.ErrorHeader) != "draining" {
		t.Errorf("%d %s", code, body)
	}
	gatewaytest.Eventually(t, "the stream is gone", func() bool { return strings.Contains(scrape(t, s), "kvslots_event_streams 0") })
}

func scrape(t testing.TB, s *site) string {
	t.Helper()
	_, body, _ := s.Do(t, "GET", "/metrics", "")
	return body
}

func TestLimits(t *testing.T) {
	s := openSites(t, 1, events.Config{MaxStreams: 3, MaxStreamsPerIP: 2})[0]
	open := []*reader{s.read(t, "/v1/events"), s.read(t, "/v1/events")}
	code, body, header := s.Do(t, "GET", "/v1/events", "")
	if code != 429 || header.Get(wire.ErrorHeader) != "max_event_streams_per_ip" || header.Get("Retry-After") == "" {
		t.Errorf("%d %s", code, body)
	}
	for _, path := range []string{"/v1/events", "/v1/events?pool=screens"} { // no look-up beyond the limit
		if code, _, _ := s.Do(t, "HEAD", path, ""); code != 429 {
			t.Errorf("HEAD %s: %d", path, code)
		}
	}
	elsewhere := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}).DialContext}}
	resp, err := elsewhere.Get("http://" + s.Addr + "/v1/events")
	if err != nil {
		t.Skip(err) // systems where 127.0.0.2 is no address of this machine
	}
	defer resp.Body.Close()
	if resp.StatusCode != 200 {
		t.Fatal(resp.Status)
	}
	pool := register(t, s, 1)
	code, body, header = s.Do(t, "GET", "/l/"+pool.String()+"/events", "")
	if code != 503 || header.Get(wire.ErrorHeader) != "max_event_streams" {
		t.Errorf("%d %s", code, body)
	}
	text := scrape(t, s)
	for _, want := range []string{
		`kvslots_event_streams 3`, `kvslots_limit_refusals_total{limit="max_event_streams"} 1`,
		`kvslots_limit_refusals_total{limit="max_event_streams_per_ip"} 3`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in the metrics", want)
		}
	}
	open[0].close()
	resp.Body.Close()
	gatewaytest.Eventually(t, "there is room again", func() bool { return strings.Contains(scrape(t, s), "kvslots_event_streams 1") })
	s.read(t, "/v1/events").want(kvslots.EventStartsOver)
}

// A client that does not read is cut, and costs the others nothing.
func TestStalledReader(t *testing.T) {
	s := openSites(t, 1, events.Config{WriteTimeout: time.Second})[0]
	other := s.read(t, "/v1/events?type=registered")
	other.want(kvslots.EventStartsOver)
	conn, err := net.Dial("tcp", s.Addr)
	kvslotstest.Must(t, err)
	defer conn.Close()
	kvslotstest.Must(t, conn.(*net.TCPConn).SetReadBuffer(4<<10))
	kvslotstest.Must(t, kvslotstest.Err(fmt.Fprintf(conn, "GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")))
	gatewaytest.Eventually(t, "the stream is open", func() bool { return strings.Contains(scrape(t, s), "kvslots_event_streams 2") })
	pool := register(t, s, 1)
	label := strings.Repeat("\\", kvslots.MaxLabel)
	for range 1000 { // less than a megabyte of events, which the kernel would keep by itself
		giveBack(t, borrow(t, s, pool, label))
	}
	gatewaytest.Eventually(t, "the stream is cut", func() bool { return strings.Contains(scrape(t, s), "kvslots_event_streams_cut_total 1") })
	register(t, s, 1)
	other.want(kvslots.EventRegistered)
	other.want(kvslots.EventRegistered)
	if !strings.Contains(s.Logs.String(), "reads too slowly") {
		t.Error("no line in the log")
	}
}

// serve serves the streams of a site over HTTP/2, until the test ends.
func serve(t *testing.T, s *site) *httptest.Server {
	t.Helper()
	router := chi.NewRouter()
	s.streams.Mount(router)
	srv := httptest.NewUnstartedServer(router)
	srv.EnableHTTP2 = true
	srv.StartTLS()
	t.Cleanup(func() {
		s.Lending.Stop()
		srv.Close()
	})
	return srv
}

// One of two gateways publishes, and the other one goes on when it has gone.
func TestPublisher(t *testing.T) {
	srv := gatewaytest.StartServer(t, natsembed.Config{})
	nc, err := srv.Connect()
	kvslotstest.Must(t, err)
	defer nc.Close()
	var stores []*kvslots.Store
	var closers []func()
	for range 2 {
		store, closeStore := gatewaytest.OpenStore(t, srv.Connect, kvslots.Config{})
		publisher := events.Publish(store, nc)
		end := sync.OnceFunc(func() {
			publisher.Close()
			closeStore()
		})
		defer end()
		stores, closers = append(stores, store), append(closers, end)
	}
	gatewaytest.Eventually(t, "one is the first", func() bool { return stores[0].First() != stores[1].First() })
	sub, err := nc.SubscribeSync(subjects.Events + "*.registered")
	kvslotstest.Must(t, err)
	want := func(s *kvslots.Store) {
		t.Helper()
		var e wire.Event
		gatewaytest.Eventually(t, "an event is published", func() bool { // none is, for a moment after the first store has ended
			pool := uuid.New()
			kvslotstest.Must(t, kvslotstest.Err(s.Register(t.Context(), pool, 1)))
			hash := kvslots.ByID(pool).Hash()
			for {
				m, err := sub.NextMsg(time.Second)
				if err != nil {
					return false
				}
				openapitest.CheckSchema(t, "Event", m.Data)
				kvslotstest.Must(t, json.Unmarshal(m.Data, &e))
				if e.Hash == hash { // otherwise it is of an attempt before, and late
					return m.Subject == subjects.Events+hash+".registered"
				}
			}
		})
	}
	want(stores[0])
	first := 0
	if stores[1].First() {
		first = 1
	}
	closers[first]()
	want(stores[1-first])
}

// A stream over HTTP/2 and TLS outlives its deadlines of writing.
func TestHTTP2(t *testing.T) {
	s := openSites(t, 1, events.Config{WriteTimeout: 2 * time.Second})[0]
	srv := serve(t, s)
	resp, err := srv.Client().Get(srv.URL + "/v1/events")
	kvslotstest.Must(t, err)
	defer resp.Body.Close()
	if resp.ProtoMajor != 2 {
		t.Error(resp.Proto)
	}
	r := &reader{t: t, lines: bufio.NewScanner(resp.Body)}
	r.want(kvslots.EventStartsOver)
	opened := time.Now()
	gatewaytest.Eventually(t, "the deadline of the first write has passed", func() bool { return time.Since(opened) > 2100*time.Millisecond })
	register(t, s, 1)
	r.want(kvslots.EventRegistered)
	s.Lending.Stop()
	if _, _, ok := r.next(); ok || r.lines.Err() != nil {
		t.Error(ok, r.lines.Err())
	}
}

// A stream without events sends comments, with an id from which a client goes on.
func TestKeepAlive(t *testing.T) {
	s := openSites(t, 1, events.Config{KeepAlive: 200 * time.Millisecond})[0]
	r := s.read(t, "/v1/events?key=x")
	e := r.want(kvslots.EventStartsOver)
	id := strconv.FormatUint(e.ID, 10)
	register(t, s, 1) // of another pool
	var before string // the line before
	for r.lines.Scan() && (r.lines.Text() == "" || r.lines.Text() == ":" || r.lines.Text() == "id: "+id) {
		before = r.lines.Text()
	}
	if before != ":" || !strings.HasPrefix(r.lines.Text(), "id: ") {
		t.Errorf("got %q after %q", r.lines.Text(), before)
	}
}
