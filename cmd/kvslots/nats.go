package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
	"github.com/kvslots/kvslots/kvslots/client"
)

func dialNATS(at *settings.NATS, more ...nats.Option) (*nats.Conn, error) {
	options, err := at.Options()
	if err != nil {
		return nil, err
	}
	dialer := &dialer{Dialer: net.Dialer{Timeout: settings.DialTimeout}}
	options = append(options, nats.SetCustomDialer(dialer), nats.SkipHostLookup()) // the timeout is for all addresses of a name
	nc, err := nats.Connect(at.URL, append(options, more...)...)
	if err == nil {
		return nc, nil
	}
	failed := func(why error) error { return fmt.Errorf("NATS: %s: %w", at.Shown(), settings.WithoutPath(why)) }
	if unreachable(err) {
		return nil, &client.Unanswered{Err: fmt.Errorf("%w; is --nats-url right, and a server running there?", failed(dialer.why(err)))}
	}
	if hint := certificateHint(err, "--nats-url", "--nats-tls-ca"); hint != "" {
		return nil, fmt.Errorf("%w; %s", failed(err), hint)
	}
	return nil, failed(err)
}

// unreachable reports whether a connection failed before a server answered.
func unreachable(err error) bool {
	known := []error{nats.ErrNoServers, nats.ErrTimeout, nats.ErrConnectionClosed, io.EOF}
	_, ok := errors.AsType[net.Error](err)
	return ok || slices.ContainsFunc(known, func(e error) bool { return errors.Is(err, e) })
}

// dialer keeps why it could not reach servers, which nats.Connect does not say of each of them.
type dialer struct {
	net.Dialer
	failed []string
}

// maxFailed bounds how many failures are kept: a connection is made anew as often as it is lost.
const maxFailed = 8

func (d *dialer) Dial(network, address string) (net.Conn, error) {
	conn, err := d.Dialer.Dial(network, address)
	if err != nil && len(d.failed) < maxFailed {
		why := err
		if dial, ok := errors.AsType[*net.OpError](err); ok {
			why = dial.Err // without the address, which may be another form of this one
		}
		d.failed = append(d.failed, fmt.Sprintf("%s: %s", address, why))
	}
	return conn, err
}

// why returns the failures, or err if there are none. It must not be called after a success.
func (d *dialer) why(err error) error {
	switch len(d.failed) {
	case 0:
		return err
	case 1:
		_, why, _ := strings.Cut(d.failed[0], ": ") // the URL has the address
		return errors.New(why)
	}
	return errors.New(strings.Join(d.failed, "; "))
}
