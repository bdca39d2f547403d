package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/kvslots/kvslots/kvslots/wire"
)

// poolVariable is the environment variable of the pool, used if there is no argument.
const poolVariable = "KVSLOTS_POOL"

// poolHelp is part of the help of every command that takes a pool.
const poolHelp = `The pool's UUID is its only credential, and other users of the machine can see command lines. So <pool> may also be
@FILE, a file that contains the UUID (@- is standard input). Without <pool> the command takes it from KVSLOTS_POOL.`

// maxSecretFile bounds how much is read of a file, in bytes.
const maxSecretFile = 4096

// secretArgument parses an argument that is a UUID, or @ and the name of a file that
// contains a UUID.
func secretArgument(command *cobra.Command, name, text string) (uuid.UUID, error) {
	path, isFile := strings.CutPrefix(text, "@")
	if !isFile {
		return parseSecret(name, text)
	}
	content, err := readSecret(command.InOrStdin(), path)
	if err != nil {
		return uuid.UUID{}, exitError{exitFailed, fmt.Errorf("the file given as %s: %w", name, err)}
	}
	return parseSecret("the content of the file given as "+name, strings.TrimSpace(content))
}

// readSecret reads a file; - is stdin. Its error does not contain path.
func readSecret(stdin io.Reader, path string) (string, error) {
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return "", withoutPath(err)
		}
		defer file.Close()
		stdin = file
	}
	content, err := io.ReadAll(io.LimitReader(stdin, maxSecretFile))
	return string(content), withoutPath(err)
}

// parseSecret parses a UUID. Its error does not contain text.
func parseSecret(name, text string) (uuid.UUID, error) {
	id, err := wire.ParseID(name, text)
	if err != nil {
		return id, usageError{err}
	}
	return id, nil
}
