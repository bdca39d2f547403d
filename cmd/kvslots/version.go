package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/spf13/cobra"
)

var (
	version = ""
	commit  = ""
	date    = "" // of the commit, RFC 3339
)

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version, the commit and its date",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(command.OutOrStdout(), "kvslots version %s\n", command.Root().Version) // as --version does
			return err
		},
	}
}

func versionName() string { return buildOf(debug.ReadBuildInfo()).version }

// build is what the program was built from. commit and date are empty if unknown.
type build struct{ version, commit, date string }

// buildOf returns what the linker has set, and for the rest what the go command has
// recorded, if ok.
func buildOf(info *debug.BuildInfo, ok bool) build {
	if !ok {
		info = &debug.BuildInfo{}
	}
	b := build{cmp.Or(version, info.Main.Version, "unknown"), commit, date}
	recorded := map[string]string{}
	for _, setting := range info.Settings {
		recorded[setting.Key] = setting.Value
	}
	if b.commit == "" {
		b.commit, b.date = recorded["vcs.revision"], recorded["vcs.time"]
		if b.commit != "" && recorded["vcs.modified"] == "true" {
			b.commit += "-dirty"
		}
	}
	return b
}

func (b build) String() string {
	var about []string
	if b.commit != "" {
		about = append(about, "commit "+b.commit)
	}
	if b.date != "" {
		about = append(about, b.date)
	}
	about = append(about, "nats-server "+server.VERSION, fmt.Sprintf("%s %s/%s", runtime.Version(), runtime.GOOS, runtime.GOARCH))
	return fmt.Sprintf("%s (%s)", b.version, strings.Join(about, ", "))
}
