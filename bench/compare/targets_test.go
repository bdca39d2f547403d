package main

import (
	"strings"
	"testing"

	"github.com/kvslots/kvslots/bench"
)

// ratesOf returns a row with the rate of each repetition; 0 is a repetition that failed.
func ratesOf(key bench.Key, rates ...float64) *bench.Row {
	r := &bench.Row{Key: key, Values: map[string]bench.Stat{"per_second": bench.StatOf(rates)}}
	for _, rate := range rates {
		repetition := map[string]float64{}
		if rate > 0 {
			repetition["per_second"] = rate
		}
		r.Repetitions = append(r.Repetitions, repetition)
	}
	return r
}

func TestRuleJudges(t *testing.T) {
	key := bench.Key{Workload: "pairs", Transport: "library"}
	other := bench.Key{Workload: "pairs", Transport: "raw"}
	fast, slow := []float64{400, 100, 300}, []float64{200, 200, 200}
	rate, against := figure{key, "per_second"}, figure{other, "per_second"}
	for _, c := range []struct {
		name string
		rule rule
		want string
	}{
		{"a ratio that is met", rule{name: "a", bound: 1.5, of: rate, to: against}, "met    a: 1.5 (0.5 … 2), wanted at least 1.5"},
		{"a ratio that is missed", rule{name: "a", bound: 1.6, of: rate, to: against}, "missed a: 1.5 (0.5 … 2), wanted at least 1.6"},
		{"at most", rule{name: "a", bound: 1.6, atMost: true, of: rate, to: against}, "met    a: 1.5 (0.5 … 2), wanted at most 1.6"},
		{"a figure with a unit", rule{name: "a", bound: 0.1, atMost: true, unit: " s", scale: 1e-3, of: rate},
			"missed a: 0.3 (0.1 … 0.4) s, wanted at most 0.1 s, ratio 3.00"},
		{"no bound", rule{name: "a", of: rate, to: against}, "ratio  a: 1.5 (0.5 … 2)"},
		{"a row that is missing", rule{name: "a", bound: 1, of: rate, to: figure{bench.Key{Workload: "pairs", Transport: "redis", Clients: 64}, "per_second"}},
			"left out a: not measured: pairs, redis, 64 in flight"},
		{"a figure that is missing", rule{name: "a", bound: 1, of: figure{key, "kib_per_waiter"}}, "left out a: not measured: pairs, library"},
	} {
		t.Run(c.name, func(t *testing.T) {
			report := &bench.Report{Rows: []*bench.Row{ratesOf(key, fast...), ratesOf(other, slow...)}}
			if got := c.rule.judge(report).String(); got != c.want {
				t.Errorf("\n got %s\nwant %s", got, c.want)
			}
		})
	}
}

// A ratio is calculated within a repetition: one that failed is no divisor for the
// figure of another repetition.
func TestRuleKeepsRepetitionsApart(t *testing.T) {
	key, other := bench.Key{Workload: "pairs", Transport: "library"}, bench.Key{Workload: "pairs", Transport: "raw"}
	rows := []*bench.Row{ratesOf(key, 100, 1000), ratesOf(other, 0, 500)}
	got := rule{bound: 1, of: figure{key, "per_second"}, to: figure{other, "per_second"}}.judge(&bench.Report{Rows: rows})
	if got.Value != (bench.Stat{Median: 2, Min: 2, Max: 2}) {
		t.Errorf("got %v, want 2", got.Value)
	}
}

// Every target refers to rows of the workloads, so that a full run leaves out none.
func TestRulesNameExistingRows(t *testing.T) {
	names := map[string]bool{}
	for _, r := range rules() {
		if names[r.name] {
			t.Errorf("two targets are called %q", r.name)
		}
		names[r.name] = true
		for _, f := range r.figures() {
			if !strings.Contains(strings.Join(bench.WorkloadNames(), " "), f.key.Workload) {
				t.Errorf("%s: there is no workload %q", r.name, f.key.Workload)
			}
		}
	}
}

func TestJudgeOmitsTargetsOfOtherWorkloads(t *testing.T) {
	if got := judge(&bench.Report{}, bench.Config{Workloads: []string{"pairs"}}); len(got) != 0 {
		t.Errorf("got %v", got)
	}
	all := judge(&bench.Report{}, bench.Config{Workloads: bench.WorkloadNames()})
	if len(all) != len(rules()) || all[0].LeftOut == "" {
		t.Errorf("got %v", all)
	}
}
