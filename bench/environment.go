package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// environment has the gateways that workloads measure. It starts them when a workload first
// needs them, and stops them at the end of the run.
type environment struct {
	cfg      Config
	gateways map[string]*Gateway // by sync mode
	fresh    []*Gateway          // of one workload
	notes    []string            // what was left out, and why
}

func newEnvironment(cfg Config) *environment {
	return &environment{cfg: cfg, gateways: map[string]*Gateway{}}
}

func (e *environment) close() error {
	err := e.endWorkload()
	for _, g := range e.gateways {
		err = errors.Join(err, g.close())
	}
	return err
}

func (e *environment) endWorkload() (err error) {
	for _, g := range e.fresh {
		err = errors.Join(err, g.close())
	}
	e.fresh = nil
	return err
}

func (g *Gateway) close() error {
	if g.Close == nil {
		return nil
	}
	return g.Close()
}

func (e *environment) note(format string, v ...any) {
	if text := fmt.Sprintf(format, v...); !slices.Contains(e.notes, text) {
		e.notes = append(e.notes, text)
		e.cfg.progress("%s", text)
	}
}

// measured returns the gateways to measure: Config.Server, or a gateway for each sync mode
// that is both in Config.Syncs and in syncs.
func (e *environment) measured(ctx context.Context, syncs ...string) (gateways []*Gateway, err error) {
	if e.cfg.Server != nil {
		g, err := e.start(ctx, "")
		return []*Gateway{g}, err
	}
	for _, sync := range syncs {
		if !slices.Contains(e.cfg.Syncs, sync) {
			continue
		}
		if e.gateways[sync] == nil {
			g, err := e.start(ctx, sync)
			if err != nil {
				return nil, err
			}
			e.gateways[sync] = g
		}
		gateways = append(gateways, e.gateways[sync])
	}
	return gateways, nil
}

// freshGateway starts a gateway that stops at the end of the workload, or returns
// Config.Server.
func (e *environment) freshGateway(ctx context.Context) (*Gateway, error) {
	g, err := e.start(ctx, syncInterval)
	if err == nil {
		e.fresh = append(e.fresh, g)
	}
	return g, err
}

func (e *environment) start(ctx context.Context, sync string) (*Gateway, error) {
	var g Gateway
	if e.cfg.Server != nil {
		g = *e.cfg.Server
	} else {
		started, err := e.cfg.Start(ctx, sync)
		if err != nil {
			return nil, err
		}
		g = *started
	}
	g.Transports = slices.DeleteFunc(slices.Clone(g.Transports), func(d Transport) bool {
		return !slices.Contains(e.cfg.Transports, d.Name())
	})
	return &g, nil
}
