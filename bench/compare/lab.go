package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/kvslots/kvslots/bench"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/natsembed"
)

// lab has the gateways of this process, the limits of the machine and the other lock servers.
type lab struct {
	hold           bench.Holder // of the connections of waiters
	measuresLimits bool
	testbeds       map[*kvslots.Store]*testbed
	servers
}

// start is bench.Config.Start.
func (l *lab) start(ctx context.Context, sync string) (*bench.Gateway, error) {
	r, err := startTestbed(ctx, l.dir, natsembed.Sync(sync), l.hold)
	if err != nil {
		return nil, err
	}
	l.testbeds[r.store] = r
	return &bench.Gateway{Sync: sync, Transports: r.transports, Store: r.store, Close: func() error {
		delete(l.testbeds, r.store)
		return r.close()
	}}, nil
}

func (l *lab) baselines(ctx context.Context, gateways []*bench.Gateway) (all []bench.Baseline, err error) {
	if l.measuresLimits {
		all, err = l.limits(ctx, gateways)
	}
	return append(all, l.servers.baselines...), err
}

type result struct {
	*bench.Report
	Targets []Target `json:"targets"`
}

// measure is bench.Run beside the lock servers that are installed.
func (l *lab) measure(ctx context.Context, cfg bench.Config) (r result, err error) {
	defer func() { err = errors.Join(err, l.close()) }()
	l.servers.start(ctx)
	cfg.Baselines = l.baselines
	if r.Report, err = bench.Run(ctx, cfg); r.Report != nil {
		r.Notes = append(l.notes, r.Notes...)
		r.Targets = judge(r.Report, cfg)
	}
	return r, err
}

func (r result) writeJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}

func (r result) writeTable(w io.Writer) error {
	if err := r.WriteTable(w); err != nil {
		return err
	}
	for _, t := range r.Targets {
		if _, err := fmt.Fprintln(w, t); err != nil {
			return err
		}
	}
	return nil
}
