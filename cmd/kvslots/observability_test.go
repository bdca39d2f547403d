package main

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	natsclient "github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"go.yaml.in/yaml/v3"

	"github.com/kvslots/kvslots/kvslots/wire/subjects"
)

const (
	alertsFile    = "gateway/observability/alerts.yml"
	dashboardFile = "gateway/observability/dashboard.json"
)

// alert is a rule of alertsFile.
type alert struct {
	Alert       string
	Expr        string
	For         string
	Labels      map[string]string
	Annotations map[string]string
}

func alerts(t *testing.T) (all []alert) {
	t.Helper()
	var file struct{ Groups []struct{ Rules []alert } }
	if err := yaml.Unmarshal([]byte(readDocument(t, alertsFile)), &file); err != nil {
		t.Fatal(err)
	}
	for _, group := range file.Groups {
		all = append(all, group.Rules...)
	}
	return all
}

// panel is a panel of dashboardFile.
type panel struct {
	Title   string
	Targets []struct{ Expr string }
}

func panels(t *testing.T) []panel {
	t.Helper()
	var file struct{ Panels []panel }
	if err := json.Unmarshal([]byte(readDocument(t, dashboardFile)), &file); err != nil {
		t.Fatal(err)
	}
	return file.Panels
}

// Every expression of the dashboard has a result for a gateway under load. No alert fires
// for it, if the machine is not busy, and each one does for a scrape in which one metric is
// bad. The engine is
// Prometheus's own.
func TestObservability(t *testing.T) {
	p := startServe(t, noEnv, "--data-dir", t.TempDir(), "--nats-addr", "127.0.0.1:0")
	now, s := time.Now(), newScrapes(t)
	s.scrape(p.url, now.Add(-2*time.Minute))
	p.load(t)
	s.scrape(p.url, now.Add(-time.Minute)) // the first scrape with errors that clients have made
	p.load(t)
	text := s.scrape(p.url, now)

	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range problems {
		t.Errorf("%s: %s", problem.Metric, problem.Text)
	}
	t.Run("dashboard", func(t *testing.T) { checkDashboard(t, s) })
	t.Run("alerts", func(t *testing.T) { checkAlerts(t, s) })
}

func checkDashboard(t *testing.T, s *scrapes) {
	checked := ""
	for _, panel := range panels(t) {
		for _, target := range panel.Targets {
			expression := strings.NewReplacer("$__rate_interval", "5m", "$job", "kvslots").Replace(target.Expr)
			s.wantSelectors(expression)
			if len(s.query(expression)) == 0 {
				t.Errorf("%s: %s has no result", panel.Title, expression)
			}
			checked += expression
		}
	}
	for _, match := range regexp.MustCompile("(?m)^\\| `(kvslots_\\w+)` \\|").FindAllStringSubmatch(readDocument(t, httpManual), -1) {
		if !strings.Contains(checked, match[1]) {
			t.Errorf("the dashboard does not show %s", match[1])
		}
	}
}

// bad are values of a metric for which an alert fires; nil: the metric is missing.
var bad = map[string]struct {
	metric string
	value  *float64
}{
	"KvslotsMissing":          {"kvslots_build_info", nil},
	"KvslotsNotReady":         {"kvslots_ready", new(0.0)},
	"KvslotsNATSDisconnected": {"kvslots_nats_connected", new(0.0)},
	"KvslotsNATSReconnects":   {"kvslots_nats_reconnects_total", new(1e3)},
	"KvslotsStoreUnavailable": {"kvslots_errors_total", new(1e3)},
	"KvslotsInternalErrors":   {"kvslots_errors_total", new(1e3)},
	"KvslotsViewLag":          {"kvslots_view_lag_seconds", new(6.0)},
	"KvslotsViewRebuilt":      {"kvslots_view_rebuilds_total", new(1.0)},
	"KvslotsWritesSlow":       {"kvslots_write_duration_seconds_bucket", nil}, // see slow
	"KvslotsWritesResent":     {"kvslots_resent_writes_total", new(1e3)},
	"KvslotsFlushSlow":        {"kvslots_flush_duration_seconds_bucket", nil},
	"KvslotsWaitsLong":        {"kvslots_oldest_waiter_age_seconds", new(601.0)},
	"KvslotsContention":       {"kvslots_claims_total", new(1e4)},
	"KvslotsForeignEntries":   {"kvslots_foreign_entries_total", new(1.0)},
	"KvslotsFileDescriptors":  {"process_open_fds", new(1e9)},
	"KvslotsFileNotRead":      {"kvslots_file_age_seconds", new(61.0)},
}

func checkAlerts(t *testing.T, s *scrapes) {
	all := alerts(t)
	s = s.calm()
	if len(all) != len(bad) {
		t.Errorf("%d alerts, of which the test knows %d", len(all), len(bad))
	}
	for _, a := range all {
		s.wantSelectors(a.Expr)
		if firing := s.query(a.Expr); len(firing) > 0 {
			t.Errorf("%s fires for a gateway in order: %v", a.Alert, firing)
		}
		doctored := s.with(bad[a.Alert].metric, bad[a.Alert].value)
		if strings.HasSuffix(bad[a.Alert].metric, "_bucket") {
			doctored = s.slow(bad[a.Alert].metric)
		}
		if len(doctored.query(a.Expr)) == 0 {
			t.Errorf("%s does not fire when %s is bad", a.Alert, bad[a.Alert].metric)
		}
		if a.Labels["severity"] == "" || a.Annotations["summary"] == "" || a.Annotations["action"] == "" {
			t.Errorf("%s has no severity, summary or action", a.Alert)
		}
	}
}

// calm returns a copy without what a busy machine does to the gateway.
func (s *scrapes) calm() *scrapes {
	for metric, value := range map[string]float64{
		"kvslots_ready": 1, "kvslots_nats_connected": 1, "kvslots_view_lag_seconds": 0,
		"kvslots_resent_writes_total": 0, "kvslots_view_rebuilds_total": 0,
	} {
		s = s.with(metric, &value)
	}
	for _, buckets := range []string{"kvslots_write_duration_seconds_bucket", "kvslots_flush_duration_seconds_bucket"} {
		s = s.plus(buckets, 1e6, func(string) bool { return true })
	}
	return s
}

// slow returns a copy in which most of the last durations were longer than a second.
func (s *scrapes) slow(buckets string) *scrapes {
	return s.plus(buckets, 1e9, func(bound string) bool { return len(bound) > 1 && !strings.HasPrefix(bound, "0.") })
}

// plus returns a copy in which the last values of some buckets of a histogram are higher.
func (s *scrapes) plus(buckets string, more float64, which func(bound string) bool) *scrapes {
	changed := s.with(buckets, nil)
	for text, series := range s.series {
		if series.labels.Get("__name__") != buckets {
			continue
		}
		last := len(series.samples) - 1
		value := series.samples[last].F()
		if which(series.labels.Get("le")) {
			value += more
		}
		changed.series[text] = &scraped{series.labels, append(series.samples[:last:last], sample{series.samples[last].T(), value})}
	}
	return changed
}

// load uses every API of a gateway, so that each has grants, refusals, waits with and
// without a grant, renewals, returns, expiries and errors.
func (p *program) load(t *testing.T) {
	t.Helper()
	const pool = "/l/5f6f3a44-7d0c-4b5e-8a55-2d4a5f7f9b10"
	ok := func(method, path, body string) (answer struct {
		Lease   string
		Token   string
		Session string `json:"session_id"`
	}) {
		t.Helper()
		code, text := p.ask(t, method, path, body)
		if code >= http.StatusBadRequest || text != "" && json.Unmarshal([]byte(text), &answer) != nil {
			t.Fatalf("%s %s: %d %s", method, path, code, text)
		}
		return answer
	}
	ok("PUT", pool, `{"count":1}`)
	lease := ok("POST", pool+"/borrow", `{"ttl":60}`).Lease
	ok("POST", pool+"/renew", `{"ttl":60,"lease":"`+lease+`"}`)
	p.want(t, "POST", pool+"/borrow", `{"ttl":60}`, http.StatusConflict, "no resource")
	p.want(t, "POST", pool+"/borrow", `{"ttl":60,"wait":1}`, http.StatusConflict, "no resource")
	waited := make(chan string, 1)
	go func() {
		_, text := p.ask(t, "POST", pool+"/borrow", `{"ttl":1,"wait":60}`)
		waited <- text
	}()
	p.eventually(t, pool, `"waiting":1`)
	ok("POST", pool+"/return", `{"lease":"`+lease+`"}`)
	if text := <-waited; !strings.Contains(text, "lease") {
		t.Fatal(text)
	}
	p.eventually(t, pool, `"in_use":0`) // the lease has expired

	header := http.Header{"X-Dflockd-Session": {ok("POST", "/v1/sessions", "").Session}}
	if code, _, text := p.askWith(t, header, "POST", "/v1/locks/deploy", `{"acquire_timeout_s":0}`); code != http.StatusOK {
		t.Fatal(text)
	}
	p.want(t, "POST", "/rpc", rpc("none", "{}", lock30), http.StatusNotFound, "FUNCTION_NOT_FOUND")
	nc, err := natsclient.Connect(p.natsURL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if _, err := nc.Request(subjects.PoolBorrow, []byte(`{"id":"`+strings.TrimPrefix(pool, "/l/")+`","ttl":1}`), time.Minute); err != nil {
		t.Fatal(err)
	}
	ok("DELETE", pool, "")
	p.want(t, "GET", "/none", "", http.StatusNotFound, "")
}

// Expired leases are counted by the API of what they held, also if they were taken over NATS.
func TestExpiriesByAPI(t *testing.T) {
	p := startServe(t, noEnv, "--data-dir", t.TempDir(), "--nats-addr", "127.0.0.1:0")
	nc := connectNATS(t, p.natsURL(t))
	serveFunction(t, p.natsURL(t), "f", done)
	const (
		pool    = "5f6f3a44-7d0c-4b5e-8a55-2d4a5f7f9b10"
		acquire = `{"acquire_timeout_s":0,"lease_ttl_s":1}`
		keep    = `{"key":"k","ttl":{"value":1,"unit":"second"},"auto_release":false}`
	)
	want := func(header http.Header, path, body string) (answer string) {
		t.Helper()
		code, _, answer := p.askWith(t, header, "POST", path, body)
		if code >= http.StatusBadRequest {
			t.Fatalf("%s: %d %s", path, code, answer)
		}
		return answer
	}
	p.want(t, "PUT", "/l/"+pool, `{"count":2}`, http.StatusOK, "")
	want(nil, "/l/"+pool+"/borrow", `{"ttl":1}`)
	session := secretText.FindString(want(nil, "/v1/sessions", ""))
	want(http.Header{"X-Dflockd-Session": {session}}, "/v1/locks/a", acquire)
	want(nil, "/rpc", rpc("f", "{}", keep))
	for subject, body := range map[string]string{
		subjects.PoolBorrow:                          `{"id":"` + pool + `","ttl":1}`,
		subjects.Of(subjects.Lock, subjects.Acquire): `{"session":"` + session + `","key":"b",` + acquire[1:],
		subjects.RPC:                                 rpc("f", "{}", strings.Replace(keep, `"k"`, `"l"`, 1)),
	} {
		if answer, err := nc.Request(subject, []byte(body), time.Minute); err != nil || answer.Header.Get("Nats-Service-Error") != "" {
			t.Fatal(subject, answer, err)
		}
	}
	for _, api := range []string{"library", "dflockd", "forrst"} {
		p.eventually(t, "/metrics", `kvslots_expiries_total{api="`+api+`"} 2`)
	}
}
