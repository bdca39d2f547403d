package main

import (
	"io"
	"os"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
)

// poolVariable is the environment variable of a pool that is not given as an
// argument.
const poolVariable = "KVSLOTS_POOL"

// poolHelp is part of the help of every command that takes a pool.
const poolHelp = `The pool's UUID is its only credential, and other users of the machine can see command lines. So <pool> may also be
@FILE, a file that holds the UUID (@- is standard input), or be left out: then it is taken from KVSLOTS_POOL.`

// maxSecretFile is the most that is read of a file, in bytes.
const maxSecretFile = 1024

// secretArgument reads an argument that is a UUID, or @ and the name of a file
// that holds one.
func secretArgument(command *cobra.Command, name, text string) (uuid.UUID, error) {
	path, isFile := strings.CutPrefix(text, "@")
	if !isFile {
		return parseSecret(name, text)
	}
	content, err := readSecret(command.InOrStdin(), path)
	if err != nil {
		return uuid.UUID{}, exitError{exitFailed, err}
	}
	return parseSecret("the content of the file given as "+name, strings.TrimSpace(content))
}

// readSecret reads a file; - is stdin.
func readSecret(stdin io.Reader, path string) (string, error) {
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return "", err
		}
		defer file.Close()
		stdin = file
	}
	content, err := io.ReadAll(io.LimitReader(stdin, maxSecretFile))
	return string(content), err
}

// parseSecret reads a UUID. Its error does not repeat it.
func parseSecret(name, text string) (uuid.UUID, error) {
	// uuid.Parse also accepts a urn, braces, and 32 digits without dashes.
	if len(text) == 36 {
		if id, err := uuid.Parse(text); err == nil {
			return id, nil
		}
	}
	return uuid.UUID{}, usagef("%s must be a canonical UUID of 36 characters", name)
}
