package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"

	"github.com/kvslots/kvslots/bench"
)

const (
	plotWidth  = 18 * vg.Centimeter
	plotHeight = 11 * vg.Centimeter
)

// series is one line of a plot.
type series struct {
	name   string
	points plotter.XYs
}

type chart struct {
	file    string
	title   string
	x, y    string // with units
	logX    bool
	logY    bool
	topLeft bool // position of the legend
	series  []series
}

// writePlots writes the report's plots as SVG files into a directory, which it creates,
// and returns their names: latency.svg, the share of pairs by latency; throughput.svg,
// pairs over operations in flight; pools.svg and waiters.svg, the cost over the number
// of pools and of waiters. It does not write plots without data.
func writePlots(r *bench.Report, dir string) (files []string, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	for _, c := range charts(r) {
		if len(c.series) == 0 {
			continue
		}
		file := filepath.Join(dir, c.file)
		if err := c.write(file); err != nil {
			return files, fmt.Errorf("%s: %w", c.file, err)
		}
		files = append(files, file)
	}
	return files, nil
}

func (c chart) write(file string) error {
	p := plot.New()
	p.Title.Text = c.title
	p.X.Label.Text, p.Y.Label.Text = c.x, c.y
	p.Legend.Top, p.Legend.Left = c.topLeft, c.topLeft
	if c.logX {
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	}
	if c.logY {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	}
	p.Add(plotter.NewGrid())
	for i, s := range c.series {
		line, points, err := plotter.NewLinePoints(s.points)
		if err != nil {
			return err
		}
		line.Color, line.Dashes, line.Width = plotutil.Color(i), plotutil.Dashes(i/len(plotutil.DefaultColors)), vg.Points(1.5)
		points.Color, points.Shape = plotutil.Color(i), plotutil.Shape(i)
		p.Add(line)
		if len(s.points) < 20 {
			p.Add(points)
		}
		p.Legend.Add(s.name, line)
	}
	return p.Save(plotWidth, plotHeight, file)
}

func label(k bench.Key) string {
	if k.Sync == "" {
		return k.Transport
	}
	return k.Transport + ", " + k.Sync
}

const plottedClients = 64

func charts(r *bench.Report) []chart {
	clients := func(k bench.Key) int { return k.Clients }
	size := func(k bench.Key) int { return k.Size }
	return []chart{
		{
			file: "latency.svg", title: fmt.Sprintf("Borrow and return, %d in flight", plottedClients),
			x: "microseconds", y: "share that took no longer", logX: true, topLeft: true,
			series: distributions(r),
		}, {
			file: "throughput.svg", title: "Borrow and return, each client in a pool of its own",
			x: "operations in flight", y: "pairs a second", logX: true, logY: true, topLeft: true,
			series: lines(r, "pairs", "per_second", clients),
		}, {
			file: "pools.svg", title: "Cost over the number of pools, 64 in flight",
			x: "pools", y: "microseconds of p50", logX: true,
			series: lines(r, "many-pools", "p50_us", size),
		}, {
			file: "waiters.svg", title: "Cost of a hand-over over the number of waiters",
			x: "waiters", y: "microseconds of p50", logX: true, logY: true, topLeft: true,
			series: lines(r, "handover", "p50_us", size),
		},
	}
}

func distributions(r *bench.Report) (all []series) {
	for _, row := range r.Rows {
		if row.Workload == "pairs" && row.Clients == plottedClients && row.Sync != "interval" && row.Latency.TotalCount() > 0 {
			all = append(all, series{label(row.Key), cumulative(row.Latency)})
		}
	}
	return all
}

// cumulative reduces a distribution to points that differ visibly.
func cumulative(h *hdrhistogram.Histogram) (points plotter.XYs) {
	const step = 1.0 / 250
	last, seen := -1.0, int64(0)
	for _, bar := range h.Distribution() {
		seen += bar.Count
		share := float64(seen) / float64(h.TotalCount())
		if bar.Count == 0 || share-last < step && share < 1 || bar.To <= 0 {
			continue
		}
		last = share
		points = append(points, plotter.XY{X: float64(bar.To) / float64(time.Microsecond), Y: share})
		if share > 0.999 { // the last thousandth would compress the rest of the plot
			break
		}
	}
	return points
}

// lines returns the lines of a workload: a figure over x, with one line for all rows
// whose keys differ only in x. Lines with fewer than two points are left out.
func lines(r *bench.Report, workload, name string, x func(bench.Key) int) (all []series) {
	at := map[string]int{}
	for _, row := range r.Rows {
		v, ok := row.Values[name]
		if row.Workload != workload || !ok || v.Median <= 0 {
			continue
		}
		label := label(row.Key)
		if _, known := at[label]; !known {
			at[label] = len(all)
			all = append(all, series{name: label})
		}
		s := &all[at[label]]
		s.points = append(s.points, plotter.XY{X: float64(x(row.Key)), Y: v.Median})
	}
	return slices.DeleteFunc(all, func(s series) bool { return len(s.points) < 2 })
}
