// Package observability holds the alert rules and the dashboard, and their tests, which
// evaluate all expressions with Prometheus's own engine for the metrics of a gateway. It is a
// module of its own, so that programs that use kvslots do not depend on Prometheus.
package observability

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"go.yaml.in/yaml/v3"
)

const (
	alertsFile    = "alerts.yml"
	dashboardFile = "dashboard.json"
	httpManual    = "../README.md"
)

func read(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

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
	if err := yaml.Unmarshal(read(t, alertsFile), &file); err != nil {
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
	if err := json.Unmarshal(read(t, dashboardFile), &file); err != nil {
		t.Fatal(err)
	}
	return file.Panels
}

// Every expression of the dashboard has a result for a gateway under load. No alert fires
// for it, if the machine is not busy, and each one does for a scrape in which one metric is
// bad.
func TestObservability(t *testing.T) {
	g := startGateway(t)
	now, s := time.Now(), newScrapes(t)
	s.scrape(g.url, now.Add(-2*time.Minute))
	g.load(t)
	s.scrape(g.url, now.Add(-time.Minute)) // the first scrape with errors that clients have made
	g.load(t)
	text := s.scrape(g.url, now)

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
	for _, match := range regexp.MustCompile("(?m)^\\| `(kvslots_\\w+)` \\|").FindAllStringSubmatch(string(read(t, httpManual)), -1) {
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
	"KvslotsWaitsLong":        {"kvslots_timeouts_total", new(1e3)},
	"KvslotsStuck":            {"kvslots_waiters", nil}, // see checkAlerts
	"KvslotsExpiries":         {"kvslots_expiries_total", new(1e3)},
	"KvslotsGatewayMissing":   {"kvslots_build_info", nil}, // likewise
	"KvslotsDiskFills":        {"kvslots_disk_free_bytes", new(1.0)},
	"KvslotsNodeMissing":      {"kvslots_missing_nodes", new(1.0)},
	"KvslotsCertificateEnds":  {"kvslots_certificate_expiry_timestamp_seconds", new(1e9)},
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
		switch {
		case a.Alert == "KvslotsStuck":
			doctored = s.always("kvslots_waiters", 1).always("kvslots_store_grants_total", 7).always("kvslots_renewals_total", 7)
		case a.Alert == "KvslotsGatewayMissing":
			doctored = s.withGateways(2, -10*time.Minute)
		case strings.HasSuffix(bad[a.Alert].metric, "_bucket"):
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
		"kvslots_resent_writes_total": 0, "kvslots_view_rebuilds_total": 0, "kvslots_disk_free_bytes": 1e15,
	} {
		s = s.with(metric, &value)
	}
	for _, buckets := range []string{"kvslots_write_duration_seconds_bucket", "kvslots_flush_duration_seconds_bucket"} {
		s = s.plus(buckets, 1e6, func(string) bool { return true })
	}
	return s.always("kvslots_expiries_total", 0).always("kvslots_timeouts_total", 0) // the load has both
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
