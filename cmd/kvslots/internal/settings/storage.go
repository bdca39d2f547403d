package settings

import (
	"io"

	"github.com/spf13/pflag"
)

const (
	dataDirFlag    = "data-dir"
	defaultDataDir = "./kvslots-data"
)

// Storage has the flags of commands that use the bucket without a gateway.
type Storage struct {
	DataDir string
	NATS    NATS // in place of DataDir if it has a URL
}

func (s *Storage) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&s.DataDir, dataDirFlag, defaultDataDir, "data directory of a gateway, which may be running, with an embedded NATS server")
	s.NATS.AddFlags(flags, "", "use this NATS instead (comma-separated URLs)")
}

// check clears NATS if --data-dir was given on the command line, and --nats-url was not.
// Otherwise --nats-url overrides --data-dir, as for serve.
func (s *Storage) check(flags *pflag.FlagSet, _ io.Reader) error {
	dir, url := sourceOf(flags.Lookup(dataDirFlag)), sourceOf(flags.Lookup(natsURLFlag))
	if dir == fromCommandLine && url == fromCommandLine {
		return excluded(dataDirFlag, natsURLFlag)
	}
	if dir == fromCommandLine {
		s.NATS = NATS{}
	}
	if !s.Embedded() {
		return s.NATS.check(flags, nil)
	}
	if s.DataDir == "" {
		return Usagef("--%s must not be empty", dataDirFlag)
	}
	return nil
}

func (s *Storage) Embedded() bool { return s.NATS.URL == "" }
