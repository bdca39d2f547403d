package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
)

// readyCommand is for health checks of containers, whose image has no shell and no curl.
func readyCommand(env settings.Environment) *cobra.Command {
	from, timeout := settings.Gateway{}, 5*time.Second
	command := newCommand(env, &from, "ready", "Ask a gateway whether it is ready",
		"Ask the gateway at --server whether it is ready for borrowers, as load balancers do with /ready. No token is\n"+
			"needed. The exit code is 0 if it is ready, or one of several is, and 1 if not.",
		cobra.NoArgs,
		func(command *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(command.Context(), timeout)
			defer cancel()
			sync, err := askAnyReady(ctx, &from)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(command.OutOrStdout(), "ready, sync %s\n", sync)
			return err
		})
	from.AddReadyFlags(command.Flags())
	command.Flags().Var(settings.Duration(&timeout, timeout, time.Millisecond, time.Hour), "timeout", "how long to wait for the answer")
	return command
}

// askAnyReady asks servers in turn, until one is ready, and gives each an equal share of the time.
func askAnyReady(ctx context.Context, from *settings.Gateway) (sync string, err error) {
	var failed []error
	servers := from.Servers()
	for i, server := range servers {
		end, _ := ctx.Deadline()
		one, err := dial(&settings.Gateway{Server: server, TLS: from.TLS}, io.Discard)
		if err != nil {
			return "", err
		}
		within, cancel := context.WithTimeout(ctx, time.Until(end)/time.Duration(len(servers)-i))
		sync, err := askReady(within, one)
		cancel()
		one.Close()
		if err == nil {
			return sync, nil
		}
		failed = append(failed, err)
	}
	return "", errors.Join(failed...)
}

// askReady returns what a gateway that is ready says about its durability. Otherwise
// the error says why it is not ready.
func askReady(ctx context.Context, from *lender) (sync string, err error) {
	answer, err := from.Ready(ctx)
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("%s: no answer in time; --timeout may be too short", from.at.Shown())
	case err != nil:
		return "", from.explain(err)
	case answer.Ready:
		return answer.Sync, nil
	case answer.Status == "":
		answer.Status = answer.HTTP + from.notGateway(answer.Code)
	case answer.Reason != "":
		answer.Status += ": " + answer.Reason
	}
	return "", fmt.Errorf("%s: not ready: %s", from.at.Shown(), printable(answer.Status))
}

// notGateway returns what may be wrong if an answer to /ready is not that of a gateway.
func (l *lender) notGateway(status int) string {
	switch {
	case l.at.HasPath():
		return l.pathHint()
	case status == http.StatusUnauthorized:
		return "; a gateway requires no token for this: is --server right?"
	}
	return "; is --server a kvslots gateway?"
}
