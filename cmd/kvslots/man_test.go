package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// man writes a page for each command, with all of its flags and its whole help, and a
// completion for each shell.
func TestMan(t *testing.T) {
	dir := t.TempDir()
	wantCall(t, exitDone, "", "", "man", dir)
	read := func(name string) string {
		content, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil {
			t.Error(err)
		}
		return string(content)
	}
	var visit func(command *cobra.Command)
	visit = func(command *cobra.Command) {
		name := strings.ReplaceAll(command.CommandPath(), " ", "-")
		if command.Hidden {
			return
		}
		page := read("man/man1/" + name + ".1")
		shown := textOfPage(page)
		want := func(text string) {
			if !strings.Contains(shown, inOneLine(text)) {
				t.Errorf("%q is not in the page of %s:\n%s", text, name, page)
			}
		}
		want(command.UseLine())
		want(command.Short)
		want(command.Long)
		if !strings.Contains(page, "\n.SH EXIT STATUS\n.TP\n0\n") || command.Example != "" && !strings.Contains(page, "\n.SH EXAMPLES\n") {
			t.Errorf("the page of %s has no examples, or no exit status:\n%s", name, page)
		}
		command.Flags().VisitAll(func(flag *pflag.Flag) {
			if flag.Name != "help" {
				want(flag.Usage)
			}
			if !strings.Contains(page, `\fB--`+flag.Name+`\fP`) {
				t.Errorf("--%s is not in the page of %s", flag.Name, name)
			}
		})
		for _, sub := range command.Commands() {
			visit(sub)
		}
	}
	visit(rootCommand(noEnv))
	for _, name := range []string{"bash-completion/completions/kvslots", "zsh/site-functions/_kvslots", "fish/vendor_completions.d/kvslots.fish"} {
		if !strings.Contains(read(name), "kvslots") {
			t.Errorf("%s is empty", name)
		}
	}
	wantCall(t, exitFailed, "", "kvslots: mkdir .*\n", "man", filepath.Join(dir, "man", "man1", "kvslots.1"))
}

// roff matches what a man page has besides the text of its source: macros, and changes of the
// font.
var roff = regexp.MustCompile(`(?m)^\.[A-Za-z].*$|\\f[A-Z]|\\&`)

// textOfPage returns what a reader sees of a man page, in one line.
func textOfPage(page string) string {
	return inOneLine(strings.NewReplacer(`\-`, "-", `\e`, `\`, `\\`, `\`).Replace(roff.ReplaceAllString(page, "")))
}

func inOneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// Each command has an example, with arguments and flags that it takes.
func TestExamples(t *testing.T) {
	var visit func(command *cobra.Command)
	visit = func(command *cobra.Command) {
		if !command.Hidden && !command.HasSubCommands() && command.Example == "" && command.Name() != "version" {
			t.Errorf("%s has no example", command.CommandPath())
		}
		for line := range strings.Lines(command.Example) {
			_, line, _ = strings.Cut(line, "kvslots ")
			line = strings.TrimRight(line, ")\"| exit\n")
			found, args, err := rootCommand(noEnv).Find(strings.Fields(line))
			if err == nil {
				err = found.ParseFlags(args)
			}
			if err != nil || found.CommandPath() != command.CommandPath() {
				t.Errorf("%s: %v of %s", line, err, found.CommandPath())
			}
		}
		for _, sub := range command.Commands() {
			visit(sub)
		}
	}
	visit(rootCommand(noEnv))
}
