package bucket

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
)

// The first nats-server that has per-message TTLs and limit markers.
const (
	leastMajor = 2
	leastMinor = 11
)

// ErrServerTooOld is returned by Open when the NATS server has no per-message
// TTLs or limit markers; the error's text names the server and its version.
var ErrServerTooOld = errors.New("NATS server is too old")

// CheckServer refuses a server that is too old. A version that cannot be read is
// somebody's own build; what it lacks will show when the bucket is opened.
func CheckServer(nc *nats.Conn) error {
	version := nc.ConnectedServerVersion()
	if major, minor, ok := parseVersion(version); ok && (major < leastMajor || major == leastMajor && minor < leastMinor) {
		return fmt.Errorf("%w: %q has version %s, and kvslots needs %d.%d or later",
			ErrServerTooOld, nc.ConnectedServerName(), version, leastMajor, leastMinor)
	}
	return nil
}

// parseVersion reads the beginning of "2.11.4-beta.1".
func parseVersion(text string) (major, minor int, ok bool) {
	parts := strings.SplitN(strings.TrimPrefix(text, "v"), ".", 3)
	if len(parts) < 2 {
		return 0, 0, false
	}
	minorDigits, _, _ := strings.Cut(parts[1], "-")
	major, err := strconv.Atoi(parts[0])
	if err != nil {
		return 0, 0, false
	}
	minor, err = strconv.Atoi(minorDigits)
	return major, minor, err == nil
}
