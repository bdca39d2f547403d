package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// sampleOf returns a sample with a rate per second, in which all latencies are equal.
func sampleOf(perSecond int64, latency time.Duration) Sample {
	s := Sample{Operations: perSecond, Elapsed: time.Second, Latency: newHistogram()}
	record(s.Latency, latency)
	return s
}

// rowOf returns a row with a repetition for each rate.
func rowOf(t *testing.T, key Key, rates ...int64) *Row {
	t.Helper()
	r := &Row{Key: key, Latency: newHistogram()}
	for _, rate := range rates {
		r.add(sampleOf(rate, time.Second/time.Duration(rate)), nil)
	}
	if !r.finish() {
		t.Fatal("nothing was measured")
	}
	return r
}

func reportOf(rows ...*Row) *Report {
	r := newReport(Config{Duration: time.Second, Repetitions: 3})
	r.Rows = rows
	return r
}

func TestStat(t *testing.T) {
	for _, c := range []struct {
		name   string
		values []float64
		want   Stat
	}{
		{"one", []float64{7}, Stat{7, 7, 7}},
		{"an odd number", []float64{9, 1, 5}, Stat{5, 1, 9}},
		{"an even number", []float64{4, 1, 2, 9}, Stat{3, 1, 9}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := StatOf(c.values); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestRow(t *testing.T) {
	r := &Row{Latency: newHistogram()}
	r.add(sampleOf(100, time.Millisecond), nil)
	r.add(Sample{Errors: 3, FirstError: errors.New("refused")}, errNothingMeasured)
	r.add(sampleOf(300, time.Millisecond), nil)
	if !r.finish() || r.Values["per_second"] != (Stat{200, 100, 300}) || r.Errors != 3 || r.FirstError != "refused" {
		t.Errorf("%+v", r)
	}
	failed := &Row{Latency: newHistogram()}
	failed.add(Sample{}, errNothingMeasured)
	if failed.finish() {
		t.Error("a row of which every repetition failed counts as measured")
	}
}

func TestReportTable(t *testing.T) {
	r := reportOf(
		rowOf(t, Key{Workload: "pairs", Transport: "library", Sync: "always", Clients: 64}, 1000, 3000, 2000),
		rowOf(t, Key{Workload: "pairs", Transport: "net/http", Clients: 64}, 5),
	)
	r.Rows[0].add(Sample{Extra: map[string]float64{"claims_per_grant": 1.234}}, nil)
	r.Rows[0].finish()
	r.Notes = []string{"left out: redis-server is not installed"}
	var out strings.Builder
	kvslotstest.Must(t, r.WriteTable(&out))
	for _, want := range []string{
		"library  always         64     –        2000  (1000 … 3000)", "claims_per_grant 1.23", "500µs", "net/http",
		"\nleft out: redis-server is not installed\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
}

func TestReportJSON(t *testing.T) {
	r := reportOf(rowOf(t, Key{Workload: "pairs", Transport: "http", Sync: "always", Clients: 1}, 10))
	var out bytes.Buffer
	kvslotstest.Must(t, r.WriteJSON(&out))
	var read struct {
		Rows []struct {
			Workload  string
			Transport string `json:"transport"`
			Values    map[string]struct{ Median float64 }
		}
	}
	kvslotstest.Must(t, json.Unmarshal(out.Bytes(), &read))
	if len(read.Rows) != 1 || read.Rows[0].Transport != "http" || read.Rows[0].Values["per_second"].Median != 10 {
		t.Errorf("%+v", read)
	}
}
