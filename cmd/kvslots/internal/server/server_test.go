package server

import (
	"testing"

	"github.com/spf13/cobra"
	"go.uber.org/goleak"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(logtest.NoSecrets(m)) }

// settingsOf returns the settings of serve with these arguments.
func settingsOf(t *testing.T, args ...string) *settings.Serve {
	t.Helper()
	command := &cobra.Command{Use: "serve"}
	s := settings.NewServe(command.Flags())
	err := command.ParseFlags(args)
	if err == nil {
		err = settings.Load(command, nil, s)
	}
	kvslotstest.Must(t, err)
	return s
}

// storeless returns a server that has no store, for its routes.
func storeless(t *testing.T, args ...string) *server {
	t.Helper()
	s := newServer(Config{Settings: settingsOf(t, args...), Logger: logtest.Logger()})
	s.nats = &backend{sync: "always"}
	s.functions = s.newFunctions()
	return s
}
