package main

import (
	"errors"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// manCommand is for packagers: "make man" calls it.
func manCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "man <directory>",
		Short:  "Write man pages and completions below a directory, such as /usr/share",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			b := buildOf(debug.ReadBuildInfo())
			header := &doc.GenManHeader{Section: "1", Source: "kvslots " + b.version, Manual: "kvslots"}
			if date, err := time.Parse(time.RFC3339, b.date); err == nil {
				header.Date = &date // the same pages from the same commit
			}
			return writeShare(command.Root(), args[0], header)
		},
	}
}

// writeShare writes what packages put below /usr/share.
func writeShare(root *cobra.Command, dir string, header *doc.GenManHeader) error {
	var found []error
	write := func(path string, generate func(path string) error) {
		path = filepath.Join(dir, filepath.FromSlash(path))
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err == nil {
			err = generate(path)
		}
		found = append(found, err)
	}
	root.DisableAutoGenTag = true // it has the date of today
	write("man/man1/kvslots.1", func(path string) error { return doc.GenManTree(root, header, filepath.Dir(path)) })
	write("bash-completion/completions/kvslots", func(path string) error { return root.GenBashCompletionFileV2(path, true) })
	write("zsh/site-functions/_kvslots", root.GenZshCompletionFile)
	write("fish/vendor_completions.d/kvslots.fish", func(path string) error { return root.GenFishCompletionFile(path, true) })
	return errors.Join(found...)
}
