package main

import (
	"path"
	"regexp"
	"strings"
	"testing"
)

var (
	printing   = regexp.MustCompile(`\bos\.(Stdout|Stderr)\b|\b(fmt|log)\.(Print|Fatal|Panic)|\bslog\.(Default|With|Debug|Info|Warn|Error|Log|LogAttrs)(Context)?\(|\bprintln?\(`)
	ownLogger  = regexp.MustCompile(`\b(zerolog|slog)\.(New|Nop|DiscardHandler)\b`)
	unsearched = regexp.MustCompile(`\b(Open|Start)\((t\.Context\(\)|ctx), .*\bConfig\{.*\}`)
)

// All output is searched for secrets (see package logtest): the tests of each package that
// logs do it, they log only to what is searched, and no package but main prints past the
// writers that it is given. Where tests start a server, they search its data directory.
func TestOutputIsSearched(t *testing.T) {
	mayPrint := map[string]bool{"cmd/kvslots/main.go": true, "bench/compare/main.go": true, "bench/compare/hold.go": true, "kvslots/logtest/secrets.go": true, "kvslots/internal/natstest/process_unix.go": true}
	logs, searches := map[string]bool{}, map[string]bool{}
	for _, name := range moduleFiles(t) {
		if path.Ext(name) != ".go" || strings.HasPrefix(name, "kvslots/logtest/") {
			continue
		}
		text, isTest := readDocument(t, name), strings.HasSuffix(name, "_test.go")
		if !isTest && !mayPrint[name] {
			if found := printing.FindString(text); found != "" {
				t.Errorf("%s uses %s", name, found)
			}
		}
		logs[path.Dir(name)] = logs[path.Dir(name)] || !isTest && strings.Contains(text, "*slog.Logger")
		searches[path.Dir(name)] = searches[path.Dir(name)] || isTest && strings.Contains(text, "logtest.NoSecrets(m)")
		exempt := strings.HasSuffix(name, "example_test.go") || name == "cmd/kvslots/output_test.go" || name == "kvslots/kvslotstest/kvslotstest.go"
		if exempt || !isTest && !strings.HasSuffix(path.Dir(name), "test") {
			continue
		}
		if starts := strings.Contains(text, "natsembed.Start(") || strings.Contains(text, "server.NewServer(") && strings.Contains(text, "JetStream: true"); starts && !strings.Contains(text, "logtest.SearchDir(") {
			t.Errorf("%s starts a server, and does not search its data directory", name)
		}
		for line := range strings.Lines(text) {
			if !strings.Contains(line, "log.") && !strings.Contains(line, "Config{") {
				continue
			}
			if ownLogger.MatchString(line) && !strings.Contains(line, "logtest.") || unsearched.MatchString(line) && !strings.Contains(line, "Logger") {
				t.Errorf("%s: the log is not searched: %s", name, line)
			}
		}
	}
	for dir := range logs {
		if logs[dir] && !searches[dir] && !strings.HasSuffix(dir, "test") {
			t.Errorf("the tests of %s do not use logtest.NoSecrets", dir)
		}
	}
}
