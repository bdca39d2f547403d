package bench

import (
	"strings"
	"testing"
	"time"
)

func TestRuleJudges(t *testing.T) {
	key := Key{Workload: "pairs", Transport: "library"}
	other := Key{Workload: "pairs", Transport: "raw"}
	fast, slow := []int64{400, 100, 300}, []int64{200, 200, 200}
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
		{"a row that is missing", rule{name: "a", bound: 1, of: rate, to: figure{Key{Workload: "pairs", Transport: "redis", Clients: 64}, "per_second"}},
			"left out a: not measured: pairs, redis, 64 in flight"},
		{"a figure that is missing", rule{name: "a", bound: 1, of: figure{key, "kib_per_waiter"}}, "left out a: not measured: pairs, library"},
	} {
		t.Run(c.name, func(t *testing.T) {
			report := reportOf(rowOf(t, key, fast...), rowOf(t, other, slow...))
			if got := c.rule.judge(report).String(); got != c.want {
				t.Errorf("\n got %s\nwant %s", got, c.want)
			}
		})
	}
}

// A ratio is calculated within a repetition: one that failed is no divisor for the
// figure of another repetition.
func TestRuleKeepsRepetitionsApart(t *testing.T) {
	key, other := Key{Workload: "pairs", Transport: "library"}, Key{Workload: "pairs", Transport: "raw"}
	a := rowOf(t, key, 100, 1000)
	b := &Row{Key: other, Latency: newHistogram()}
	b.add(Sample{}, errNothingMeasured)
	b.add(sampleOf(500, time.Millisecond), nil)
	b.finish()
	got := rule{bound: 1, of: figure{key, "per_second"}, to: figure{other, "per_second"}}.judge(reportOf(a, b))
	if got.Value != (Stat{2, 2, 2}) {
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
			if !strings.Contains(strings.Join(WorkloadNames(), " "), f.key.Workload) {
				t.Errorf("%s: there is no workload %q", r.name, f.key.Workload)
			}
		}
	}
}

func TestJudgeOmitsTargetsOfOtherWorkloads(t *testing.T) {
	if got := judge(reportOf(), Config{Workloads: []string{"pairs"}}); len(got) != 0 {
		t.Errorf("got %v", got)
	}
	all := judge(reportOf(), Config{Workloads: WorkloadNames()})
	if len(all) != len(rules()) || all[0].LeftOut == "" {
		t.Errorf("got %v", all)
	}
}
