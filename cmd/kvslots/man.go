package main

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"
)

// manCommand is for packagers: "make man" calls it.
func manCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "man <directory>",
		Short:  "Write man pages and completions below a directory, such as /usr/share",
		Hidden: true,
		Args:   arguments("<directory>"),
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
	write("bash-completion/completions/kvslots", func(path string) error { return root.GenBashCompletionFileV2(path, true) })
	write("zsh/site-functions/_kvslots", root.GenZshCompletionFile)
	write("fish/vendor_completions.d/kvslots.fish", func(path string) error { return root.GenFishCompletionFile(path, true) })
	escapeMarkdown(root) // last, since the completions have the texts as they are
	write("man/man1/kvslots.1", func(path string) error { return doc.GenManTree(root, header, filepath.Dir(path)) })
	return errors.Join(found...)
}

// escapeMarkdown escapes the texts of a command and those below it for cobra, which takes
// them for Markdown: <pool> would be a tag of HTML, and left out.
func escapeMarkdown(command *cobra.Command) {
	command.Use, command.Short, command.Long = escaped(command.Use), escaped(command.Short), escaped(command.Long)
	command.Flags().VisitAll(func(flag *pflag.Flag) { flag.Usage = escaped(flag.Usage) })
	for _, below := range command.Commands() {
		escapeMarkdown(below)
	}
}

var markdown = regexp.MustCompile("[\\\\`*_<]")

// escaped escapes what is special in Markdown, except in blocks of code, which are indented.
func escaped(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if !strings.HasPrefix(line, "    ") {
			lines[i] = markdown.ReplaceAllString(line, `\$0`)
		}
	}
	return strings.Join(lines, "\n")
}
