package server

import (
	"log/slog"
	"net"
	"strings"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
)

// serviceManager is what has started this process, such as systemd. It learns over the socket in
// NOTIFY_SOCKET when the gateway is ready, and when it stops: see sd_notify(3).
type serviceManager struct {
	socket string // "" without a service manager
	log    *slog.Logger
}

func newServiceManager(env settings.Environment, log *slog.Logger) *serviceManager {
	return &serviceManager{socket: env["NOTIFY_SOCKET"], log: log}
}

// notify sends the state, in assignments such as READY=1.
func (m *serviceManager) notify(state ...string) {
	if m.socket == "" {
		return
	}
	if err := m.send(strings.Join(state, "\n")); err != nil {
		m.log.Warn("service manager not notified", "error", err, "state", state)
	}
}

// send sends a datagram to a Unix socket. A name that begins with @ is in the abstract
// namespace of Linux.
func (m *serviceManager) send(text string) error {
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: m.socket, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.Write([]byte(text))
	return err
}
