package main

import (
	"errors"
	"io"
	"os"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
)

// poolVariable is where a command finds the pool's id when it is not given.
const poolVariable = "KVSLOTS_POOL"

// poolHelp is part of every command's help that takes a pool.
const poolHelp = "The pool's UUID is its only credential, and other users of the machine can see command lines.\n" +
	"So <pool> may also be @FILE, a file that holds the UUID (@- is standard input), or be left out,\n" +
	"and is then taken from " + poolVariable + ". "

// maxSecretFile is far more than a UUID takes.
const maxSecretFile = 1024

// poolArgument is the pool that was given in args, or else in the environment.
func poolArgument(command *cobra.Command, env lookupEnv, args []string) (uuid.UUID, error) {
	if len(args) > 0 {
		return secretArgument(command, "<pool>", args[0])
	}
	value, _ := env(poolVariable)
	if value == "" {
		return uuid.UUID{}, usagef("no <pool>, and no %s", poolVariable)
	}
	return parseSecret(poolVariable, value)
}

// secretArgument is a UUID, or @ and the name of a file that has it.
func secretArgument(command *cobra.Command, name, text string) (uuid.UUID, error) {
	path, isFile := strings.CutPrefix(text, "@")
	if !isFile {
		return parseSecret(name, text)
	}
	content, err := readSecret(command.InOrStdin(), path)
	if err != nil {
		return uuid.UUID{}, exitError{exitFailed, err}
	}
	return parseSecret("what "+name+" names", strings.TrimSpace(content))
}

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

var errNoUUID = errors.New("must be a canonical UUID of 36 characters")

// parseSecret reads a UUID. Its error does not repeat it.
func parseSecret(name, text string) (uuid.UUID, error) {
	// uuid.Parse would also take a urn, braces, and 32 digits without dashes.
	if len(text) == 36 {
		if id, err := uuid.Parse(text); err == nil {
			return id, nil
		}
	}
	return uuid.UUID{}, usagef("%s %w", name, errNoUUID)
}
