package bucket

import (
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"golang.org/x/mod/semver"
)

// minVersion is the first nats-server that has per-message TTLs and limit markers.
const minVersion = "2.11"

// ErrServerTooOld is returned by Open when the NATS server has no per-message
// TTLs or limit markers; the error's text names the server and its version.
var ErrServerTooOld = errors.New("NATS server is too old")

// CheckServer returns ErrServerTooOld if the connected server is too old. It accepts
// a version that cannot be parsed: if that server is too old, Open fails later.
func CheckServer(nc *nats.Conn) error {
	version := nc.ConnectedServerVersion()
	if isTooOld(version) {
		return fmt.Errorf("%w: %q has version %s, and kvslots needs %s or later",
			ErrServerTooOld, nc.ConnectedServerName(), version, minVersion)
	}
	return nil
}

// isTooOld compares major and minor version only: "2.11.4-beta.1" is 2.11.
func isTooOld(version string) bool {
	short := semver.MajorMinor("v" + strings.TrimPrefix(version, "v"))
	return short != "" && semver.Compare(short, "v"+minVersion) < 0
}
