package server

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/pprof"
	"syscall"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/background"
)

// exitQuit is the exit code after SIGQUIT, as of every Go program.
const exitQuit = 2

// dumpOnQuit makes SIGQUIT write the functions and lines of all goroutines to w, and end
// the process. The dump of Go's runtime contains arguments of functions, too: bytes of
// the ids of pools and leases.
func dumpOnQuit(w io.Writer) (release func()) {
	quit := make(chan os.Signal, 1)
	signal.Notify(quit, syscall.SIGQUIT)
	return background.Run(func(ctx context.Context) {
		defer signal.Stop(quit)
		select {
		case <-quit:
			_, _ = fmt.Fprintln(w, "SIGQUIT: quit")
			_ = pprof.Lookup("goroutine").WriteTo(w, 1) // 1: without arguments
			os.Exit(exitQuit)
		case <-ctx.Done():
		}
	})
}
