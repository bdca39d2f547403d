package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/kvslots/kvslots/natsembed"
)

// Environment contains what workloads measure: gateways and limits. It starts
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

// gateways returns the gateways to measure: the one of Config.Server, or a testbed for each
// sync mode that is both in Config.Syncs and in syncs.
func (e *Environment) gateways(ctx context.Context, syncs ...natsembed.Sync) ([]*testbed, error) {
	if e.cfg.Server != "" {
		r, err := e.remote(ctx)
		return []*testbed{r}, err
	}
	var beds []*testbed
	for _, sync := range syncs {
		if !slices.Contains(e.cfg.Syncs, string(sync)) {
			continue
		}
		r, err := e.testbed(ctx, sync)
		if err != nil {
			return nil, err
		}
		beds = append(beds, r)
	}
	return beds, nil
}

// testbed returns the testbed with a sync mode, which it starts at the first call.
func (e *Environment) testbed(ctx context.Context, sync natsembed.Sync) (r *testbed, err error) {
	if e.testbeds[sync] == nil {
		e.testbeds[sync], err = e.start(ctx, sync, &e.ofRun)
	}
	return e.testbeds[sync], err
}

// freshGateway starts a testbed that stops at the end of the workload, or returns the gateway
// of Config.Server.
func (e *Environment) freshGateway(ctx context.Context) (*testbed, error) {
	if e.cfg.Server != "" {
		return e.remote(ctx)
	}
	return e.start(ctx, natsembed.SyncInterval, &e.ofWorkload)
}

// start starts a testbed with the selected transports, which until will close.
func (e *Environment) start(ctx context.Context, sync natsembed.Sync, until *closers) (*testbed, error) {
	r, err := startTestbed(ctx, e.cfg.Dir, sync, e.holder())
	if err != nil {
		return nil, err
	}
	until.add(r.close)
	r.transports = e.chosen(r.transports)
	return r, nil
}

func (e *Environment) holder() holder {
	if len(e.cfg.Holder) > 0 {
		return holdElsewhere(e.cfg.Holder)
	}
	return holdInProcess
}

func (e *Environment) chosen(transports []Transport) []Transport {
	return slices.DeleteFunc(slices.Clone(transports), func(d Transport) bool { return !slices.Contains(e.cfg.Transports, d.Name()) })
}

// remote returns the gateway of Config.Server.
func (e *Environment) remote(ctx context.Context) (*testbed, error) {
	to, err := parseEndpoint(e.cfg.Server, e.cfg.Token, e.cfg.TLS)
	if err != nil {
		return nil, err
	}
	conn := httpConn{to: to}
	defer conn.close()
	body, err := conn.do(ctx, to.request("GET", "/ready", "", nil))
	if err != nil {
		return nil, fmt.Errorf("bench: the server is not ready: %w", err)
	}
	var ready struct {
		Sync natsembed.Sync `json:"sync"`
	}
	if json.Unmarshal(body, &ready) != nil {
		return nil, errors.New("bench: the server is not a kvslots gateway")
	}
	if ready.Sync == natsembed.SyncGroup { // serve implements always by group
		ready.Sync = natsembed.SyncAlways
	}
	// The gateway is in another process, so this one can hold the connections of waiters.
	transports := []Transport{httpTransport{to, holdInProcess}, v1Transport{to, holdInProcess}}
	return &testbed{sync: ready.Sync, transports: e.chosen(transports)}, nil
}
