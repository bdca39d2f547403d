package server

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/background"
	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
)

// reloadPause is how often files are looked at for changes. Their contents are compared:
// a directory that is swapped by a symbolic link, as in Kubernetes, has no event of the
// file itself.
const reloadPause = 5 * time.Second

// reloadable is a setting whose files can be read again while serve runs.
type reloadable struct {
	name    string                     // of the flag
	reading settings.PendingRead[bool] // whether they have changed since the read before
	known   atomic.Pointer[time.Time]  // when the files last had the content that is in force
}

func newReloadable(name string, load func() (changed bool, err error)) *reloadable {
	f := &reloadable{name: name, reading: settings.PendingRead[bool]{Read: load}}
	f.known.Store(new(time.Now()))
	return f
}

// age returns how many seconds ago the files had the content that is in force.
func (f *reloadable) age() float64 { return time.Since(*f.known.Load()).Seconds() }

type reloader struct {
	of      []*reloadable
	manager *serviceManager
	log     *slog.Logger

	failed map[string]string // the last error of each, which is logged once
}

// startReloader reads the files again at SIGHUP and when they change, until stop is
// called. Without files it only keeps SIGHUP from ending the process.
func startReloader(of []*reloadable, manager *serviceManager, log *slog.Logger) (stop func()) {
	r := &reloader{of: of, manager: manager, log: log, failed: map[string]string{}}
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	return background.Run(func(ctx context.Context) {
		defer signal.Stop(hangups)
		ticker := time.NewTicker(reloadPause)
		defer ticker.Stop()
		r.run(ctx, hangups, ticker.C)
	})
}

func (r *reloader) run(ctx context.Context, hangups <-chan os.Signal, ticks <-chan time.Time) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangups:
			r.log.Info("SIGHUP: reading files again")
			clear(r.failed) // the operator wants to know again
			reloaded := r.manager.reloading()
			r.reloadAll(ctx)
			reloaded()
		case <-ticks:
			r.reloadAll(ctx)
		}
	}
}

func (r *reloader) reloadAll(ctx context.Context) {
	for _, file := range r.of {
		r.reload(ctx, file)
	}
}

// reload reads a setting's files again. After an error the previous content stays in force:
// of files that belong together, the operator may not have replaced all yet.
func (r *reloader) reload(ctx context.Context, file *reloadable) {
	changed, err := file.reading.Await(ctx)
	switch {
	case ctx.Err() != nil:
		return
	case err != nil:
		if text := err.Error(); r.failed[file.name] != text {
			r.failed[file.name] = text
			r.log.Error("cannot read a changed file; the previous content stays in force", "error", err, "flag", file.name)
		}
		return
	}
	delete(r.failed, file.name)
	file.known.Store(new(time.Now()))
	if changed {
		r.log.Info("reloaded", "flag", file.name)
	}
}
