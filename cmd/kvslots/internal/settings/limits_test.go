package settings

import (
	"math"
	"testing"

	"github.com/spf13/pflag"

	"github.com/kvslots/kvslots/natsembed"
)

// The store keeps files for itself, however few the process may open.
func TestConnectionsByFiles(t *testing.T) {
	for files, want := range map[uint64]int{64: 16, 128: 32, 512: 128, 1024: 384, 1 << 20: maxConnectionsByFiles, 1 << 63: maxConnectionsByFiles} {
		if got := connectionsFor(files); got != want {
			t.Errorf("%d files: %d connections, want %d", files, got, want)
		}
	}
	var s Serve
	if got := s.HTTP().MaxConnections; got < 1 {
		t.Errorf("%d connections by default", got)
	}
	s.http.MaxConnections = 7
	if got := s.HTTP().MaxConnections; got != 7 {
		t.Errorf("got %d connections, and not those of the flag", got)
	}
}

// A flood of NATS clients without credentials must leave files for HTTP and the store.
func TestNATSConnectionsByFiles(t *testing.T) {
	var s Serve
	if got, want := s.Embedded().MaxConnections, min(natsembed.DefaultMaxConnections, connectionsFor(openFilesLimit()))+ownConnections; got != want {
		t.Errorf("%d connections by default, want %d", got, want)
	}
	s.embedded.MaxConnections = 5000
	if got := s.Embedded().MaxConnections; got != 5000+ownConnections {
		t.Errorf("got %d connections, and not those of the flag", got)
	}
}

func TestShares(t *testing.T) {
	var s share
	flag := shareOf(&s, share{})
	for _, c := range []struct {
		text    string
		of, got int
	}{
		{"0", 1024, 0}, {"7", 1024, 7}, {"7", 0, 7}, {"25%", 1024, 256}, {"100%", 3, 3}, {"1%", 3, 1}, {"50%", 0, 0},
		{"2147483647", 5, math.MaxInt32}, {"100%", math.MaxInt32, math.MaxInt32},
	} {
		if err := flag.Set(c.text); err != nil || s.of(c.of) != c.got || flag.String() != c.text {
			t.Errorf("%s of %d: %d, printed as %s; %v", c.text, c.of, s.of(c.of), flag, err)
		}
	}
	for _, wrong := range []string{"", "%", "-1", "0%", "101%", "-5%", "1.5%", "25 %", "x", "2147483648"} {
		if flag.Set(wrong) == nil {
			t.Errorf("%q is accepted", wrong)
		}
	}
	if d := NewServe(&pflag.FlagSet{}); d.Store().MaxLocksPerSession != 1024 || d.Store().MaxLocksPerOrigin != 16384 {
		t.Errorf("%+v", d.Store())
	}
}
