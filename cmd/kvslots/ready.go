package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
)

// maxReadiness bounds how much is read of the answer of /ready, in bytes.
const maxReadiness = 4 << 10

// readyCommand is for health checks of containers, whose image has no shell and no curl.
func readyCommand(env settings.Environment) *cobra.Command {
	from, timeout := settings.Gateway{}, 5*time.Second
	command := &cobra.Command{
		Use:   "ready",
		Short: "Ask a gateway whether it is ready",
		Long: "Ask the gateway at --server whether it is ready for borrowers, as load balancers do with /ready. No token is\n" +
			"needed. The exit code is 0 if it is ready, or one of several is, and 1 if not.",
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := load(command, env, &from); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(command.Context(), timeout)
			defer cancel()
			config, err := from.TLS.Config()
			if err != nil {
				return err
			}
			sync, err := askAnyReady(ctx, from.Servers(), config)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(command.OutOrStdout(), "ready, sync %s\n", sync)
			return err
		},
	}
	from.AddReadyFlags(command.Flags())
	command.Flags().Var(settings.Duration(&timeout, time.Millisecond, time.Hour), "timeout", "how long to wait for the answer")
	return command
}

// askAnyReady asks servers in turn, until one is ready, and gives each an equal share of the time.
func askAnyReady(ctx context.Context, servers []string, config *tls.Config) (sync string, err error) {
	var failed []error
	for i, server := range servers {
		end, _ := ctx.Deadline()
		within, cancel := context.WithTimeout(ctx, time.Until(end)/time.Duration(len(servers)-i))
		sync, err := askReady(within, server, config)
		cancel()
		if err == nil {
			return sync, nil
		}
		failed = append(failed, err)
	}
	return "", errors.Join(failed...)
}

// askReady returns what a gateway that is ready says about its durability. Otherwise
// the error says why it is not ready.
func askReady(ctx context.Context, server string, config *tls.Config) (sync string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(server, "/")+"/ready", nil)
	if err != nil {
		return "", err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: config}}
	answer, err := client.Do(r)
	if err != nil {
		if failed, ok := errors.AsType[*url.Error](err); ok { // the URL may contain a password
			err = failed.Err
		}
		return "", fmt.Errorf("no answer: %w", err)
	}
	defer answer.Body.Close()
	var body struct{ Status, Sync, Reason string }
	err = json.NewDecoder(io.LimitReader(answer.Body, maxReadiness)).Decode(&body)
	reason := body.Status
	switch {
	case err == nil && answer.StatusCode == http.StatusOK && body.Status == "ready":
		return body.Sync, nil
	case err != nil || body.Status == "":
		reason = answer.Status
	case body.Reason != "":
		reason += ": " + body.Reason
	}
	return "", fmt.Errorf("not ready: %s", reason)
}
