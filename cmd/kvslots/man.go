package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"
)

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
	writeManual(root, *header, write)
	return errors.Join(found...)
}

func writeManual(command *cobra.Command, header doc.GenManHeader, write func(path string, generate func(path string) error)) {
	if command.Hidden {
		return
	}
	name := strings.ReplaceAll(command.CommandPath(), " ", "-")
	header.Title = strings.ToUpper(name)
	write("man/man1/"+name+".1", func(path string) error {
		var page bytes.Buffer
		if err := doc.GenMan(command, &header, &page); err != nil {
			return err
		}
		text := strings.Replace(page.String(), "\n.SH EXAMPLE\n", "\n.SH EXAMPLES\n", 1)
		text = strings.Replace(text, "\n.SH SEE ALSO\n", "\n"+exitStatusOf(command)+".SH SEE ALSO\n", 1)
		return os.WriteFile(path, []byte(text), 0o644)
	})
	for _, below := range command.Commands() {
		writeManual(below, header, write)
	}
}

// exitStatusOf returns the section of a man page.
func exitStatusOf(command *cobra.Command) string {
	text := ".SH EXIT STATUS\n"
	for _, status := range exitStatuses {
		if len(status.of) == 0 || slices.Contains(status.of, command.Name()) {
			text += ".TP\n" + status.code + "\n" + status.text + "\n"
		}
	}
	return text
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
