package main

import (
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
	"github.com/kvslots/kvslots/kvslots/wire"
)

const poolHelp = `The pool's UUID is its only credential, and other users of the machine can see command lines. So <pool> may also be
@FILE, a file that contains the UUID (@- is standard input). Without <pool> the command takes it from KVSLOTS_POOL.`

const leaseHelp = `<lease> may also be @FILE. Without it the command takes it from KVSLOTS_LEASE, which "kvslots borrow" sets.`

// arguments checks the number of arguments, and names the one that is missing. names are those of
// the usage; the optional ones are in brackets.
func arguments(names ...string) cobra.PositionalArgs {
	var required []string
	for _, name := range names {
		if !strings.HasPrefix(name, "[") {
			required = append(required, name)
		}
	}
	return func(_ *cobra.Command, args []string) error {
		switch given := len(args); {
		case given < len(required):
			return settings.Usagef("%s is missing", required[given])
		case given > len(names):
			return settings.Usagef("too many arguments: only %s may be given", strings.Join(names, " "))
		}
		return nil
	}
}

// secretArgument parses an argument that is a UUID, or @ and the name of a file that
// contains a UUID.
func secretArgument(command *cobra.Command, name, text string) (uuid.UUID, error) {
	path, isFile := strings.CutPrefix(text, "@")
	if !isFile {
		return parseSecret(name, text)
	}
	content, err := settings.ReadSecret(command.InOrStdin(), path)
	if err != nil {
		return uuid.UUID{}, fmt.Errorf("the file given as %s: %w", name, err)
	}
	return parseSecret("the content of the file given as "+name, strings.TrimSpace(string(content)))
}

// parseSecret parses a UUID. Its error does not contain text.
func parseSecret(name, text string) (uuid.UUID, error) {
	id, err := wire.ParseID(name, text)
	if err != nil {
		return id, settings.Usagef("%w", err)
	}
	return id, nil
}
