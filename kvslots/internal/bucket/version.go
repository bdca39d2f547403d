package bucket

import (
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/mod/semver"
)

// minVersion is the first nats-server that has per-message TTLs and limit markers.
const minVersion = "2.11"

var ErrServerTooOld = errors.New("NATS server is too old")

// JetStream returns the JetStream API of the connected server, or ErrServerTooOld. It accepts
// a version that cannot be parsed: if that server is too old, Open fails later.
func JetStream(nc *nats.Conn) (jetstream.JetStream, error) {
	version := nc.ConnectedServerVersion()
	if isTooOld(version) {
		return nil, fmt.Errorf("%w: %q has version %s, and kvslots needs %s or later",
			ErrServerTooOld, nc.ConnectedServerName(), version, minVersion)
	}
	return jetstream.New(nc)
}

// isTooOld compares major and minor version only: "2.11.4-beta.1" is 2.11.
func isTooOld(version string) bool {
	short := semver.MajorMinor("v" + strings.TrimPrefix(version, "v"))
	return short != "" && semver.Compare(short, "v"+minVersion) < 0
}
