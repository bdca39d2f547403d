package observability

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	promstorage "github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// scrapes are the metrics of a gateway as Prometheus would store them, at times of the
// test's choice.
type scrapes struct {
	t      *testing.T
	series map[string]*scraped // by labels
	last   time.Time
}

type scraped struct {
	labels  labels.Labels
	samples []chunks.Sample
}

func newScrapes(t *testing.T) *scrapes { return &scrapes{t: t, series: map[string]*scraped{}} }

// scrape asks a gateway for its metrics, and stores them as of an instant.
func (s *scrapes) scrape(url string, at time.Time) (text string) {
	s.t.Helper()
	resp, err := http.Get(url + "/metrics")
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	metrics, err := textparse.New(body, resp.Header.Get("Content-Type"), "", false, false, labels.NewSymbolTable())
	if err != nil {
		s.t.Fatal(err)
	}
	for {
		entry, err := metrics.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			s.t.Fatal(err)
		}
		if entry != textparse.EntrySeries {
			continue
		}
		var of labels.Labels
		metrics.Labels(&of)
		_, _, value := metrics.Series()
		s.add(labels.NewBuilder(of).Set("job", "kvslots").Set("instance", "gateway:8080").Labels(), at, value)
	}
	s.last = at
	return string(body)
}

func (s *scrapes) add(of labels.Labels, at time.Time, value float64) {
	series := s.series[of.String()]
	if series == nil {
		series = &scraped{labels: of}
		s.series[of.String()] = series
	}
	series.samples = append(series.samples, sample{at.UnixMilli(), value})
}

// with returns a copy in which every series of a metric ends with another value. Without
// a value, the copy lacks the metric.
func (s *scrapes) with(metric string, value *float64) *scrapes {
	changed := newScrapes(s.t)
	changed.last = s.last
	for text, series := range s.series {
		if series.labels.Get(labels.MetricName) != metric {
			changed.series[text] = series
		} else if value != nil {
			last := len(series.samples) - 1
			changed.series[text] = &scraped{series.labels, append(slices.Clone(series.samples[:last]), sample{series.samples[last].T(), *value})}
		}
	}
	return changed
}

// always returns a copy in which a metric has had one value all the time.
func (s *scrapes) always(metric string, value float64) *scrapes {
	changed := s.with(metric, nil)
	for text, series := range s.series {
		if series.labels.Get(labels.MetricName) != metric {
			continue
		}
		same := &scraped{labels: series.labels}
		for _, x := range series.samples {
			same.samples = append(same.samples, sample{x.T(), value})
		}
		changed.series[text] = same
	}
	return changed
}

// withGateways returns a copy with n more gateways, which were last scraped a while before the end.
func (s *scrapes) withGateways(n int, before time.Duration) *scrapes {
	changed := s.with("", nil)
	for i := range n {
		of := labels.FromStrings(labels.MetricName, "kvslots_build_info", "job", "kvslots", "instance", fmt.Sprint("gone:", i))
		changed.add(of, s.last.Add(before), 1)
	}
	return changed
}

// query evaluates an expression as of the last scrape.
func (s *scrapes) query(expression string) promql.Vector {
	s.t.Helper()
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute, LookbackDelta: 5 * time.Minute})
	defer engine.Close()
	query, err := engine.NewInstantQuery(s.t.Context(), s, nil, expression, s.last)
	if err != nil {
		s.t.Fatalf("%s: %v", expression, err)
	}
	defer query.Close()
	result := query.Exec(s.t.Context())
	vector, err := result.Vector()
	if err != nil {
		s.t.Fatalf("%s: %v", expression, err)
	}
	if len(result.Warnings) > 0 {
		s.t.Errorf("%s: %v", expression, result.Warnings)
	}
	return slices.Clone(vector)
}

// wantSelectors checks that every selector of an expression finds a series.
func (s *scrapes) wantSelectors(expression string) {
	s.t.Helper()
	tree, err := parser.ParseExpr(expression)
	if err != nil {
		s.t.Fatalf("%s: %v", expression, err)
	}
	parser.Inspect(tree, func(node parser.Node, _ []parser.Node) error {
		if selector, ok := node.(*parser.VectorSelector); ok && len(s.find(selector.LabelMatchers)) == 0 {
			s.t.Errorf("%s: no series is %s", expression, selector)
		}
		return nil
	})
}

func (s *scrapes) find(matchers []*labels.Matcher) (found []*scraped) {
	for _, series := range s.series {
		if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(series.labels.Get(m.Name)) }) {
			found = append(found, series)
		}
	}
	slices.SortFunc(found, func(x, y *scraped) int { return labels.Compare(x.labels, y.labels) })
	return found
}

// Querier and the methods below make a promstorage.Queryable of scrapes.
func (s *scrapes) Querier(int64, int64) (promstorage.Querier, error) { return s, nil }

func (s *scrapes) Select(_ context.Context, _ bool, _ *promstorage.SelectHints, matchers ...*labels.Matcher) promstorage.SeriesSet {
	return &found{list: s.find(matchers), at: -1}
}

func (s *scrapes) LabelValues(context.Context, string, *promstorage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

func (s *scrapes) LabelNames(context.Context, *promstorage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

func (s *scrapes) Close() error { return nil }

// found is a promstorage.SeriesSet.
type found struct {
	list []*scraped
	at   int
}

func (f *found) Next() bool { f.at++; return f.at < len(f.list) }

func (f *found) At() promstorage.Series {
	return promstorage.NewListSeries(f.list[f.at].labels, f.list[f.at].samples)
}

func (f *found) Err() error                        { return nil }
func (f *found) Warnings() annotations.Annotations { return nil }

// sample is a chunks.Sample of a float.
type sample struct {
	at    int64 // milliseconds
	value float64
}

func (s sample) T() int64                      { return s.at }
func (s sample) F() float64                    { return s.value }
func (s sample) H() *histogram.Histogram       { return nil }
func (s sample) FH() *histogram.FloatHistogram { return nil }
func (s sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample           { return s }
