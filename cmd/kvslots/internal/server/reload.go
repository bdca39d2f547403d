package server

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// reloadPause is how often files are looked at for changes. Their contents are compared:
// a directory that is swapped by a symbolic link, as in Kubernetes, has no event of the
// file itself.
const reloadPause = 5 * time.Second

// startReloader reads the followed files again at SIGHUP and when they change, until stop is
// called. Without files it only keeps SIGHUP from ending the process.
func (s *server) startReloader() (stop func()) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	return Background(func(ctx context.Context) {
		defer signal.Stop(hangups)
		ticker := time.NewTicker(reloadPause)
		defer ticker.Stop()
		s.reload(ctx, hangups, ticker.C)
	})
}

func (s *server) reload(ctx context.Context, hangups <-chan os.Signal, ticks <-chan time.Time) {
	failed := map[string]string{} // the last error of each flag, which is logged once
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangups:
			s.log.Info("SIGHUP: reading files again")
			clear(failed) // the operator wants to know again
			s.reloadAll(failed)
		case <-ticks:
			s.reloadAll(failed)
		}
	}
}

func (s *server) reloadAll(failed map[string]string) {
	for _, files := range s.settings.Followed {
		changed, err := files.Reload()
		switch {
		case err == nil:
			delete(failed, files.Flag)
		case failed[files.Flag] != err.Error():
			failed[files.Flag] = err.Error()
			s.log.Error("cannot read a changed file; the previous content stays in force", "error", err, "flag", files.Flag)
		}
		if changed {
			s.log.Info("reloaded", "flag", files.Flag)
		}
	}
}
