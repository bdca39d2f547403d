package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
	"github.com/kvslots/kvslots/kvslots/natsstore"
)

const backupHelp = `Write the pools, leases and sessions to FILE, which is replaced when the backup is complete; it must be
yours. - is standard output. Gateways may be running. Like the bucket, FILE has hashes in place of the ids of pools, leases and sessions.

Gateways give no access to the whole bucket, so the command uses the NATS at --nats-url, or the data directory of a gateway with
an embedded NATS server. If that gateway is running, the command connects to its NATS server through a socket in the directory,
which only the gateway's user can open. Otherwise the command runs a server on the directory itself.`

func backupCommand(env settings.Environment) *cobra.Command {
	s := &storage{}
	command := storageCommand(env, s, "backup FILE", "Write the pools, leases and sessions to a file", backupHelp,
		func(ctx context.Context, command *cobra.Command, file string) error {
			if s.Embedded() { // a server would create the directory
				if _, err := os.Stat(s.DataDir); err != nil {
					return fmt.Errorf("--data-dir must name the data directory of a gateway, or --nats-url the NATS of one: %w", err)
				}
			}
			var content bytes.Buffer
			err := s.with(ctx, true, func(nc *nats.Conn, _ func(context.Context) error) error { return natsstore.Backup(ctx, nc, &content) })
			if err != nil {
				return err
			}
			if file == "-" {
				_, err := content.WriteTo(command.OutOrStdout())
				return err
			}
			return writeBackup(file, content.Bytes())
		})
	s.AddFlags(command.Flags())
	return command
}

// writeBackup replaces a file of this user, or the one that a symbolic link of this user names, or creates it. It does
// not write to what others have put there: a link to another file, a pipe, or a file that they can read.
func writeBackup(path string, content []byte) error {
	for range maxLinks {
		info, err := os.Lstat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return replaceFile(path, content)
		case err != nil:
			return err
		case isOfAnother(info):
			return fmt.Errorf("%s belongs to another user", path)
		case info.Mode().IsRegular():
			return replaceFile(path, content)
		case info.Mode()&fs.ModeSymlink == 0:
			return fmt.Errorf("%s is not a regular file; - is standard output", path)
		}
		target, err := os.Readlink(path)
		if err != nil {
			return err
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		path = target
	}
	return fmt.Errorf("%s: too many symbolic links", path)
}

// maxLinks is as in Linux.
const maxLinks = 40

// replaceFile writes a file that only its owner can read. Other processes see the file as
// it was before, or all of content; so do those after a power cut.
func replaceFile(path string, content []byte) (err error) {
	dir := filepath.Dir(path)
	file, err := os.CreateTemp(dir, filepath.Base(path)+".*.tmp") // with mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(file.Name())
		}
	}()
	_, err = file.Write(content)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err == nil && runtime.GOOS != "windows" { // which cannot flush a directory
		err = syncDirectory(dir)
	}
	return err
}

func syncDirectory(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}
