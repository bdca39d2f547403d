package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/kvslots/kvslots/bench"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// rowOf returns a row with a rate per second, in which all latencies are equal.
func rowOf(t *testing.T, key bench.Key, rate float64) *bench.Row {
	t.Helper()
	latency := 1e6 / rate // in microseconds
	r := &bench.Row{Key: key, Latency: hdrhistogram.New(1, int64(time.Minute), 3), Values: map[string]bench.Stat{
		"per_second": {Median: rate, Min: rate, Max: rate}, "p50_us": {Median: latency, Min: latency, Max: latency},
	}}
	kvslotstest.Must(t, r.Latency.RecordValue(int64(latency)*1000))
	return r
}

func TestCumulative(t *testing.T) {
	h := hdrhistogram.New(1, int64(time.Minute), 3)
	for i := range 10 {
		kvslotstest.Must(t, h.RecordValue(int64(time.Duration(i+1)*time.Millisecond)))
	}
	points := cumulative(h)
	if len(points) != 10 || points[9].Y != 1 || points[0].Y != 0.1 {
		t.Fatalf("%v", points)
	}
	for i := 1; i < len(points); i++ {
		if points[i].X <= points[i-1].X || points[i].Y <= points[i-1].Y {
			t.Errorf("%v does not ascend", points)
		}
	}
}

func TestPlots(t *testing.T) {
	var rows []*bench.Row
	for _, n := range []int{1, 64} {
		rows = append(rows,
			rowOf(t, bench.Key{Workload: "pairs", Transport: "library", Sync: "always", Clients: n}, 1000),
			rowOf(t, bench.Key{Workload: "pairs", Transport: "redis", Sync: "appendfsync always", Clients: n}, 1500),
			rowOf(t, bench.Key{Workload: "many-pools", Transport: "library", Sync: "interval", Clients: 64, Size: n}, 1000),
			rowOf(t, bench.Key{Workload: "handover", Transport: "http", Sync: "interval", Size: n}, 1000))
	}
	dir := filepath.Join(t.TempDir(), "plots")
	files, err := writePlots(&bench.Report{Rows: rows}, dir)
	if err != nil || len(files) != 4 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		wantSVG(t, file)
	}
	files, err = writePlots(&bench.Report{}, dir)
	if err != nil || len(files) != 0 {
		t.Errorf("of nothing: %v, %v", files, err)
	}
}

// wantSVG fails unless a file is well-formed XML with a root element svg.
func wantSVG(t *testing.T, name string) {
	t.Helper()
	file, err := os.Open(name)
	kvslotstest.Must(t, err)
	defer file.Close()
	root := ""
	for d := xml.NewDecoder(file); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if start, ok := token.(xml.StartElement); ok && root == "" {
			root = start.Name.Local
		}
	}
	if root != "svg" {
		t.Errorf("%s has the root %q", name, root)
	}
}
