//go:build unix

package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

// firstBlock returns the commands of the README's first block, without their comments.
func firstBlock(t *testing.T) (commands []string) {
	t.Helper()
	block := regexp.MustCompile("(?s)```sh\n(.*?)```").FindStringSubmatch(readDocument(t, "README.md"))
	for line := range strings.Lines(block[1]) {
		command, _, _ := strings.Cut(line, "#")
		commands = append(commands, strings.TrimSpace(command))
	}
	return commands
}

// inClone returns a command at the top of the repository, in a process group of its own, and not under the make that runs the tests.
func inClone(t *testing.T, command string, env ...string) *exec.Cmd {
	t.Helper()
	process := exec.CommandContext(t.Context(), "sh", "-c", command)
	process.Dir = moduleRoot
	process.Env = append(append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=0"), env...)
	process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return process
}

// The README's first block has three commands. The first one starts a gateway, and prints a page and two lines that work.
func TestReadmeFirstBlock(t *testing.T) {
	commands := firstBlock(t)
	if !slices.Equal(commands, []string{"make run", "make test", "make cluster"}) {
		t.Fatalf("the first block has %q", commands)
	}
	if out, err := inClone(t, "make build").CombinedOutput(); err != nil { // takes longer than what is waited for below
		t.Fatalf("%v\n%s", err, out)
	}
	for range 5 { // another process may take the port before the gateway does
		if runFirst(t, commands[0]) {
			return
		}
	}
	t.Error("no port was free")
}

// runFirst reports false if the port was taken.
func runFirst(t *testing.T, command string) (served bool) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	kvslotstest.Must(t, err)
	address := ln.Addr().String()
	ln.Close()
	out, ended := &logtest.Output{}, make(chan struct{})
	process := inClone(t, "exec "+command, "KVSLOTS_HTTP_ADDR="+address, "KVSLOTS_DATA_DIR="+t.TempDir())
	process.Stdout, process.Stderr = out, out
	kvslotstest.Must(t, process.Start())
	go func() { _ = process.Wait(); close(ended) }()
	defer func() { _ = syscall.Kill(-process.Process.Pid, syscall.SIGTERM); <-ended }()
	const inUse = "address already in use"
	printed := out.Await(t, func(text string) bool { return strings.Contains(text, "sleep 5'\n") || strings.Contains(text, inUse) })
	if strings.Contains(printed, inUse) {
		return false
	}
	tries := regexp.MustCompile(`(?m)^  (.*)$`).FindAllStringSubmatch(printed, -1)
	if len(tries) != 2 || !strings.Contains(printed, "http://"+address+"/. ") {
		t.Fatalf("it prints\n%s", printed)
	}
	if answer, err := curl((&session{}).words(strings.TrimPrefix(tries[0][1], "curl "))); err != nil || !strings.Contains(answer, `"available":5`) {
		t.Errorf("%s: %s, %v", tries[0][1], answer, err)
	}
	lock := strings.Replace(tries[1][1], "; sleep 5", "", 1)
	if answer, err := inClone(t, lock).CombinedOutput(); err != nil || string(answer) != "the job runs\n" {
		t.Errorf("%s: %s, %v", lock, answer, err)
	}
	return true
}

// What the README's first block needs is checked before anything is built or tested.
func TestMakeNeedsGo(t *testing.T) {
	old := filepath.Join(t.TempDir(), "go")
	kvslotstest.Must(t, os.WriteFile(old, []byte("#!/bin/sh\necho 'go.mod requires go >= 1.26.0 (running go 1.22.1)' >&2\nexit 1\n"), 0o700))
	for _, command := range firstBlock(t) {
		out, err := inClone(t, command+" GO="+old).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "kvslots needs Go 1.26 or later") || strings.Contains(string(out), "build") {
			t.Errorf("%s with an older Go: %v\n%s", command, err, out)
		}
	}
}
