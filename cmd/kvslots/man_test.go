package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// man writes a page for each command, with all of its flags, and a completion for each
// shell.
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
		if !strings.Contains(page, command.Short) {
			t.Errorf("%s: %s", name, page)
		}
		command.Flags().VisitAll(func(flag *pflag.Flag) {
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
