package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/kvslots/kvslots/natsembed"
)

// Environment is what workloads measure: gateways, limits and peers. They are
// started when they are first asked for, and end with the run.
type Environment struct {
	cfg   Config
	rigs  map[natsembed.Sync]*rig
	stack closers
	brief closers  // what lasts for one workload
	notes []string // what was left out, and why
}

func newEnvironment(cfg Config) *Environment {
	return &Environment{cfg: cfg, rigs: map[natsembed.Sync]*rig{}}
}

func (e *Environment) close() error { return errors.Join(e.brief.close(), e.stack.close()) }

// note says once that something is left out.
func (e *Environment) note(format string, v ...any) {
	if text := fmt.Sprintf(format, v...); !slices.Contains(e.notes, text) {
		e.notes = append(e.notes, text)
		e.cfg.progress("%s", text)
	}
}

// front is a gateway's doors with the sync mode in force behind them.
type front struct {
	sync  string
	doors []Door
	rig   *rig // nil if the gateway is not our own
}

// fronts returns the gateways to measure: one for each sync mode of ours that
// the configuration asks for and that is one of syncs, or else the one that the
// configuration names. Only its doors that are asked for are there.
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
		fronts = append(fronts, front{string(sync), e.chosen(r.doors), r})
	}
	return fronts, nil
}

// rig returns our gateway of a sync mode.
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

// freshFront is a gateway without pools, which ends with the workload, or the one
// that the configuration names.
func (e *Environment) freshFront(ctx context.Context) (front, error) {
	if e.cfg.Server != "" {
		return e.remoteFront(ctx)
	}
	r, err := startRig(ctx, e.cfg.Dir, natsembed.SyncInterval, e.holder())
	if err != nil {
		return front{}, err
	}
	e.brief.add(r.close)
	return front{string(natsembed.SyncInterval), e.chosen(r.doors), r}, nil
}

func (e *Environment) holder() holder {
	if len(e.cfg.Holder) > 0 {
		return holdElsewhere(e.cfg.Holder)
	}
	return holdInProcess
}

// chosen are the doors that the configuration asks for.
func (e *Environment) chosen(doors []Door) []Door {
	return slices.DeleteFunc(slices.Clone(doors), func(d Door) bool { return !slices.Contains(e.cfg.Doors, d.Name()) })
}

// remoteFront is the gateway of Config.Server.
func (e *Environment) remoteFront(ctx context.Context) (front, error) {
	to, err := parseEndpoint(e.cfg.Server, e.cfg.Token)
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
		return front{}, errors.New("bench: the server is no kvslots gateway")
	}
	if ready.Sync == string(natsembed.SyncGroup) { // how serve keeps the promise of always
		ready.Sync = string(natsembed.SyncAlways)
	}
	return front{ready.Sync, e.chosen([]Door{httpDoor{to, e.holder()}, v1Door{to, e.holder()}}), nil}, nil
}
