package server

import (
	"context"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/background"
	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
)

// serviceManager is what has started this process, such as systemd. It learns the state of
// the gateway over the socket in NOTIFY_SOCKET, see sd_notify(3).
type serviceManager struct {
	send     func(state string) error // nil without a service manager
	watchdog time.Duration            // it kills the process after this time without a notification; 0 means never
	log      *slog.Logger

	serving atomic.Bool // between READY=1 and STOPPING=1
}

func newServiceManager(env settings.Environment, log *slog.Logger) *serviceManager {
	m := &serviceManager{log: log}
	if socket := env["NOTIFY_SOCKET"]; socket != "" {
		m.send = func(state string) error { return sendTo(socket, state) }
	}
	// If WATCHDOG_PID is another process, such as the parent, the watchdog is not for this one.
	if pid, ok := env["WATCHDOG_PID"]; ok && pid != strconv.Itoa(os.Getpid()) {
		return m
	}
	if n, err := strconv.ParseInt(env["WATCHDOG_USEC"], 10, 64); err == nil && n > 1 && n < int64(settings.MaxDuration/time.Microsecond) {
		m.watchdog = time.Duration(n) * time.Microsecond
	}
	return m
}

func (m *serviceManager) ready(status string) {
	m.serving.Store(true)
	m.notify("READY=1", "STATUS="+status)
}

func (m *serviceManager) stopping(status string) {
	m.serving.Store(false)
	m.notify("STOPPING=1", "STATUS="+status)
}

// reloading reports that files are being read again, and done that they have been. While
// the gateway starts or stops, READY=1 would be wrong.
func (m *serviceManager) reloading() (done func()) {
	if !m.serving.Load() {
		return func() {}
	}
	m.notify("RELOADING=1")
	return func() {
		if m.serving.Load() {
			m.notify("READY=1")
		}
	}
}

// notify sends the state, in assignments such as READY=1.
func (m *serviceManager) notify(state ...string) {
	if m.send == nil {
		return
	}
	if err := m.send(strings.Join(state, "\n")); err != nil {
		m.log.Warn("service manager not notified", "error", err, "state", state)
	}
}

// sendTo sends a datagram to a Unix socket. A name that begins with @ is in the abstract
// namespace of Linux.
func sendTo(socket, text string) error {
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.Write([]byte(text))
	return err
}

// watch notifies the watchdog twice in its time, as long as alive returns nil in time. The
// caller must call stop.
func (m *serviceManager) watch(alive func(context.Context) error) (stop func()) {
	if m.send == nil || m.watchdog == 0 {
		return func() {}
	}
	return background.Run(func(ctx context.Context) {
		ticker := time.NewTicker(m.watchdog / 2)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				m.check(ctx, alive)
			}
		}
	})
}

// check calls alive once, and waits for it no longer than until the next call is due, since
// alive may never return.
func (m *serviceManager) check(ctx context.Context, alive func(context.Context) error) {
	ctx, cancel := context.WithTimeout(ctx, m.watchdog/2)
	defer cancel()
	result := make(chan error, 1)
	go func() { result <- alive(ctx) }()
	var err error
	select {
	case err = <-result:
	case <-ctx.Done():
		err = ctx.Err()
	}
	switch {
	case err == nil:
		m.notify("WATCHDOG=1")
	case ctx.Err() != context.Canceled:
		m.log.Error("watchdog not notified", "error", err)
	}
}
