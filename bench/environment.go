package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/kvslots/kvslots/natsembed"
)

// Environment contains what workloads measure: gateways, limits and peers. It starts
// them when a workload first needs them, and stops them at the end of the run.
type Environment struct {
	cfg   Config
	rigs  map[natsembed.Sync]*rig
	stack closers
	brief closers  // closed at the end of a workload
	notes []string // what was left out, and why
}

func newEnvironment(cfg Config) *Environment {
	return &Environment{cfg: cfg, rigs: map[natsembed.Sync]*rig{}}
}

func (e *Environment) close() error { return errors.Join(e.brief.close(), e.stack.close()) }

// note adds a note to the report, once.
func (e *Environment) note(format string, v ...any) {
	if text := fmt.Sprintf(format, v...); !slices.Contains(e.notes, text) {
		e.notes = append(e.notes, text)
		e.cfg.progress("%s", text)
	}
}

// front is the selected transports of a gateway, with its sync mode.
type front struct {
	sync       string
	transports []Transport
	rig        *rig // nil for the gateway of Config.Server
}

// fronts returns the gateways to measure: the one of Config.Server, or a rig for each
// sync mode that is both in Config.Syncs and in syncs.
func (e *Environment) fronts(ctx context.Context, syncs ...natsembed.Sync) ([]front, error) {
	if e.cfg.Server != "" {
		f, err := e.remoteFront(ctx)
		return []front{f}, err
	}
	var fronts []front
	for _, sync := range syncs {
		if !slices.Contains(e.cfg.Syncs, string(sync)) {
			continue
		}
		r, err := e.rig(ctx, sync)
		if err != nil {
			return nil, err
		}
		fronts = append(fronts, front{string(sync), e.chosen(r.transports), r})
	}
	return fronts, nil
}

// rig returns the rig with a sync mode, which it starts at the first call.
func (e *Environment) rig(ctx context.Context, sync natsembed.Sync) (*rig, error) {
	if r := e.rigs[sync]; r != nil {
		return r, nil
	}
	r, err := startRig(ctx, e.cfg.Dir, sync, e.holder())
	if err != nil {
		return nil, err
	}
	e.stack.add(r.close)
	e.rigs[sync] = r
	return r, nil
}

// freshFront starts a rig that stops at the end of the workload, or returns the gateway
// of Config.Server.
func (e *Environment) freshFront(ctx context.Context) (front, error) {
	if e.cfg.Server != "" {
		return e.remoteFront(ctx)
	}
	r, err := startRig(ctx, e.cfg.Dir, natsembed.SyncInterval, e.holder())
	if err != nil {
		return front{}, err
	}
	e.brief.add(r.close)
	return front{string(natsembed.SyncInterval), e.chosen(r.transports), r}, nil
}

func (e *Environment) holder() holder {
	if len(e.cfg.Holder) > 0 {
		return holdElsewhere(e.cfg.Holder)
	}
	return holdInProcess
}

// chosen returns the transports that are in Config.Transports.
func (e *Environment) chosen(transports []Transport) []Transport {
	return slices.DeleteFunc(slices.Clone(transports), func(d Transport) bool { return !slices.Contains(e.cfg.Transports, d.Name()) })
}

// remoteFront returns the gateway of Config.Server.
func (e *Environment) remoteFront(ctx context.Context) (front, error) {
	to, err := parseEndpoint(e.cfg.Server, e.cfg.Token, e.cfg.TLS)
	if err != nil {
		return front{}, err
	}
	conn := httpConn{to: to}
	defer conn.close()
	body, err := conn.do(ctx, to.request("GET", "/ready", "", nil))
	if err != nil {
		return front{}, fmt.Errorf("bench: the server is not ready: %w", err)
	}
	var ready struct {
		Sync string `json:"sync"`
	}
	if json.Unmarshal(body, &ready) != nil {
		return front{}, errors.New("bench: the server is not a kvslots gateway")
	}
	if ready.Sync == string(natsembed.SyncGroup) { // serve implements always by group
		ready.Sync = string(natsembed.SyncAlways)
	}
	// The gateway is in another process, so this one can hold the connections of waiters.
	return front{ready.Sync, e.chosen([]Transport{httpTransport{to, holdInProcess}, v1Transport{to, holdInProcess}}), nil}, nil
}
