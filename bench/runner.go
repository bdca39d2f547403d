package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"
)

// Run measures what cfg selects and returns the report. If ctx ends, Run returns the
// report so far together with the cause of ctx. An invalid cfg is an error without a
// report. Everything that Run has started has stopped when it returns.
func Run(ctx context.Context, cfg Config) (report *Report, err error) {
	cfg, err = cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	env := newEnvironment(cfg)
	defer func() { err = errors.Join(err, env.close()) }()
	report = newReport(cfg)
	for _, w := range workloads() {
		if !cfg.measures(w.name) {
			continue
		}
		cases, err := w.cases(ctx, env)
		if err != nil {
			return report, fmt.Errorf("%s: %w", w.name, err)
		}
		rows := measureInTurns(ctx, env, cases)
		report.Rows = append(report.Rows, rows...)
		if err := env.endWorkload(); err != nil {
			return report, fmt.Errorf("%s: %w", w.name, err)
		}
		if ctx.Err() != nil {
			return report, context.Cause(ctx)
		}
	}
	report.Notes = append(report.Notes, env.notes...)
	if len(report.Rows) == 0 {
		return report, fmt.Errorf("bench: nothing could be measured over the transports %v", cfg.Transports)
	}
	return report, nil
}

// measureInTurns measures each case once, then each case for the second time, and so
// on. It leaves out repetitions that fail, and cases of which all repetitions fail.
func measureInTurns(ctx context.Context, env *environment, cases []Case) []*Row {
	rows := make([]*Row, len(cases))
	for i, c := range cases {
		rows[i] = &Row{Key: c.Key, Latency: newHistogram()}
	}
	for repetition := range env.cfg.Repetitions {
		for i, c := range cases {
			if ctx.Err() != nil || c.Once && repetition > 0 {
				continue
			}
			runtime.GC() // so that no case collects the garbage of an earlier one
			sample, err := c.Measure(ctx, env.cfg.Duration)
			rows[i].add(sample, err)
			text := summary(sample)
			if err != nil {
				env.note("left out: %s, repetition %d: %v", c.Key, repetition+1, err)
				text = "failed"
			}
			env.cfg.progress("%s  repetition %d/%d, case %d/%d  %s: %s", time.Now().Format(time.TimeOnly),
				repetition+1, env.cfg.Repetitions, i+1, len(cases), c.Key, text)
		}
	}
	return slices.DeleteFunc(rows, func(r *Row) bool { return !r.finish() })
}

func summary(s Sample) string {
	text := ""
	if s.Operations > 0 {
		text = fmt.Sprintf("%.0f/s, p50 %v, p99 %v", s.PerSecond(), round(percentile(s.Latency, 50)), round(percentile(s.Latency, 99)))
	}
	for _, name := range sortedKeys(s.Extra) {
		text += fmt.Sprintf(" %s %s", name, number(s.Extra[name]))
	}
	if s.Errors > 0 {
		text += fmt.Sprintf(" (%d errors, the first: %v)", s.Errors, s.FirstError)
	}
	return text
}

func round(d time.Duration) time.Duration {
	switch {
	case d > time.Second:
		return d.Round(10 * time.Millisecond)
	case d > 10*time.Millisecond:
		return d.Round(100 * time.Microsecond)
	case d > 100*time.Microsecond:
		return d.Round(time.Microsecond)
	}
	return d.Round(100 * time.Nanosecond)
}

func number(v float64) string {
	if v >= 100 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}
