package bench

import (
	"encoding/json"
	"io"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

type Report struct {
	Machine     Machine   `json:"machine"`
	Begun       time.Time `json:"begun"`
	Duration    float64   `json:"duration_s"` // of a repetition
	Repetitions int       `json:"repetitions"`
	Rows        []*Row    `json:"rows"`
	Notes       []string  `json:"notes"` // what was not measured, and why
}

// Machine describes the machine and the program of a Report.
type Machine struct {
	OS         string `json:"os"`
	Arch       string `json:"arch"`
	Processor  string `json:"processor,omitempty"`
	Processors int    `json:"processors"` // that this process may use
	Go         string `json:"go"`
	Version    string `json:"version"` // of kvslots
}

type Row struct {
	Key
	Values      map[string]Stat         `json:"values"`      // by the name of a figure: see Sample.Values
	Repetitions []map[string]float64    `json:"repetitions"` // the figures of each repetition that succeeded
	Errors      int64                   `json:"errors"`
	FirstError  string                  `json:"first_error,omitempty"`
	Latency     *hdrhistogram.Histogram `json:"-"` // of all repetitions
}

// Stat is the distribution of a figure over the repetitions.
type Stat struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

func newReport(cfg Config) *Report {
	return &Report{
		Machine: thisMachine(), Begun: time.Now(), Duration: cfg.Duration.Seconds(), Repetitions: cfg.Repetitions,
		Rows: []*Row{}, Notes: []string{},
	}
}

func thisMachine() Machine {
	m := Machine{
		OS: runtime.GOOS, Arch: runtime.GOARCH, Processor: processorName(),
		Processors: runtime.GOMAXPROCS(0), Go: runtime.Version(), Version: "unknown",
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		m.Version = info.Main.Version
	}
	return m
}

func processorName() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func (r *Row) add(s Sample, failure error) {
	r.Errors += s.Errors
	if r.FirstError == "" && s.FirstError != nil {
		r.FirstError = s.FirstError.Error()
	}
	if failure != nil {
		r.Repetitions = append(r.Repetitions, map[string]float64{})
		return
	}
	r.Repetitions = append(r.Repetitions, s.Values())
	if s.Latency != nil {
		r.Latency.Merge(s.Latency)
	}
}

// finish computes the statistics. It reports whether any repetition succeeded.
func (r *Row) finish() bool {
	values := map[string][]float64{}
	for _, repetition := range r.Repetitions {
		for name, v := range repetition {
			values[name] = append(values[name], v)
		}
	}
	r.Values = map[string]Stat{}
	for name, v := range values {
		r.Values[name] = StatOf(v)
	}
	return len(values) > 0
}

// StatOf returns the Stat of at least one value. The median of an even number of values
// is the mean of the two in the middle.
func StatOf(values []float64) Stat {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return Stat{Median: (sorted[(n-1)/2] + sorted[n/2]) / 2, Min: sorted[0], Max: sorted[n-1]}
}

func (r *Report) Row(key Key) *Row {
	for _, row := range r.Rows {
		if row.Key == key {
			return row
		}
	}
	return nil
}

// WriteJSON writes the report as one JSON object.
func (r *Report) WriteJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
