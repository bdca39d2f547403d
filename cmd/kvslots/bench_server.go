package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/bench"
	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
	"github.com/kvslots/kvslots/kvslots/client"
	"github.com/kvslots/kvslots/kvslots/client/natsclient"
)

func measuredServer(ctx context.Context, at settings.Gateway) (*bench.Gateway, error) {
	config, err := at.TLS.Config()
	if err != nil {
		return nil, err
	}
	to, err := bench.ParseEndpoint(at.Server, at.Token.Value, config)
	if err != nil {
		return nil, settings.Usagef("%w", err)
	}
	return bench.Remote(ctx, to, nil)
}

// measuredProcess is kvslots serve in a process of its own, on loopback and a directory that
// only it uses.
type measuredProcess struct {
	command *exec.Cmd
	calls   *nats.Conn // nil before it listens
	remove  func() error
}

// startMeasured starts a gateway with a sync mode, with its data below dir. Its other settings
// are the defaults.
func startMeasured(ctx context.Context, dir, sync string) (*bench.Gateway, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	data, remove, err := bench.TempDir(dir)
	if err != nil {
		return nil, err
	}
	p := &measuredProcess{remove: remove, command: exec.Command(program, "serve", "--http-addr", "127.0.0.1:0",
		"--nats-addr", "127.0.0.1:0", "--data-dir", data, "--sync", sync)}
	p.command.Env = settings.WithoutSettings(os.Environ())
	g, err := p.start(ctx)
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	g.Close = p.close
	return g, nil
}

func (p *measuredProcess) start(ctx context.Context) (*bench.Gateway, error) {
	logs, err := p.command.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := p.command.Start(); err != nil {
		return nil, err
	}
	http, natsURL, err := awaitListening(logs)
	if err != nil {
		return nil, err
	}
	to, err := bench.ParseEndpoint("http://"+http, "", nil)
	if err != nil {
		return nil, err
	}
	if p.calls, err = nats.Connect(natsURL); err != nil {
		return nil, err
	}
	return bench.Remote(ctx, to, natsclient.New(p.calls, client.Config{}))
}

// awaitListening reads the logs of a gateway until it listens, and returns its addresses. It
// discards later lines.
func awaitListening(logs io.Reader) (http, nats string, err error) {
	lines := bufio.NewScanner(logs)
	last := "no log"
	for lines.Scan() {
		var line struct{ Message, HTTP, NATS string }
		last = lines.Text()
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Message == "listening" {
			go func() { _, _ = io.Copy(io.Discard, logs) }()
			return line.HTTP, line.NATS, nil
		}
	}
	return "", "", fmt.Errorf("the gateway to measure did not start: %s", last)
}

// close kills the process, which needs its data no longer.
func (p *measuredProcess) close() error {
	if p.calls != nil {
		p.calls.Close()
	}
	if p.command.Process != nil {
		_ = p.command.Process.Kill() // fails if it has ended
		_ = p.command.Wait()
	}
	return p.remove()
}
