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
	cfg        Config
	testbeds   map[natsembed.Sync]*testbed
	ofRun      closers  // closed at the end of the run
	ofWorkload closers  // closed at the end of a workload
	notes      []string // what was left out, and why
}

func newEnvironment(cfg Config) *Environment {
	return &Environment{cfg: cfg, testbeds: map[natsembed.Sync]*testbed{}}
}

func (e *Environment) close() error { return errors.Join(e.ofWorkload.close(), e.ofRun.close()) }

// note adds a note to the report, once.
func (e *Environment) note(format string, v ...any) {
	if text := fmt.Sprintf(format, v...); !slices.Contains(e.notes, text) {
		e.notes = append(e.notes, text)
		e.cfg.progress("%s", text)
	}
}

// instance is the selected transports of a gateway, with its sync mode.
type instance struct {
	sync       string
	transports []Transport
	testbed    *testbed // nil for the gateway of Config.Server
}

// instances returns the gateways to measure: the one of Config.Server, or a testbed for each
// sync mode that is both in Config.Syncs and in syncs.
func (e *Environment) instances(ctx context.Context, syncs ...natsembed.Sync) ([]instance, error) {
	if e.cfg.Server != "" {
		f, err := e.remoteInstance(ctx)
		return []instance{f}, err
	}
	var instances []instance
	for _, sync := range syncs {
		if !slices.Contains(e.cfg.Syncs, string(sync)) {
			continue
		}
		r, err := e.testbed(ctx, sync)
		if err != nil {
			return nil, err
		}
		instances = append(instances, instance{string(sync), e.chosen(r.transports), r})
	}
	return instances, nil
}

// testbed returns the testbed with a sync mode, which it starts at the first call.
func (e *Environment) testbed(ctx context.Context, sync natsembed.Sync) (*testbed, error) {
	if r := e.testbeds[sync]; r != nil {
		return r, nil
	}
	r, err := startTestbed(ctx, e.cfg.Dir, sync, e.holder())
	if err != nil {
		return nil, err
	}
	e.ofRun.add(r.close)
	e.testbeds[sync] = r
	return r, nil
}

// freshInstance starts a testbed that stops at the end of the workload, or returns the gateway
// of Config.Server.
func (e *Environment) freshInstance(ctx context.Context) (instance, error) {
	if e.cfg.Server != "" {
		return e.remoteInstance(ctx)
	}
	r, err := startTestbed(ctx, e.cfg.Dir, natsembed.SyncInterval, e.holder())
	if err != nil {
		return instance{}, err
	}
	e.ofWorkload.add(r.close)
	return instance{string(natsembed.SyncInterval), e.chosen(r.transports), r}, nil
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

// remoteInstance returns the gateway of Config.Server.
func (e *Environment) remoteInstance(ctx context.Context) (instance, error) {
	to, err := parseEndpoint(e.cfg.Server, e.cfg.Token, e.cfg.TLS)
	if err != nil {
		return instance{}, err
	}
	conn := httpConn{to: to}
	defer conn.close()
	body, err := conn.do(ctx, to.request("GET", "/ready", "", nil))
	if err != nil {
		return instance{}, fmt.Errorf("bench: the server is not ready: %w", err)
	}
	var ready struct {
		Sync string `json:"sync"`
	}
	if json.Unmarshal(body, &ready) != nil {
		return instance{}, errors.New("bench: the server is not a kvslots gateway")
	}
	if ready.Sync == string(natsembed.SyncGroup) { // serve implements always by group
		ready.Sync = string(natsembed.SyncAlways)
	}
	// The gateway is in another process, so this one can hold the connections of waiters.
	return instance{ready.Sync, e.chosen([]Transport{httpTransport{to, holdInProcess}, v1Transport{to, holdInProcess}}), nil}, nil
}
