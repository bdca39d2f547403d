// Package logtest looks for secrets in what programs log while they are tested.
package logtest

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sync"

	"github.com/rs/zerolog"
)

// unlikeHash matches the beginning of a UUID, which names a pool or a lease; the seed of an
// nkey; a private key; and passwords, all of which have this word in them.
const unlikeHash = `[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}|\bS[A-Z][A-Z2-7]{56}\b|PRIVATE KEY|hunter[0-9]`

var (
	// secret matches each secret that a test uses: unlikeHash, tokens and ids of sessions.
	secret = regexp.MustCompile(unlikeHash + `|\b[0-9a-f]{32}\b`)

	// storedSecret matches those that do not look like the hashes in the bucket.
	storedSecret = regexp.MustCompile(unlikeHash)

	// storedPublic matches what may contain any UUID, and is no secret: names of locks,
	// owners of those of Forrst, and ids of Cosmo's messages.
	storedPublic = regexp.MustCompile(`"(name|owner)":"[^"]*"|Nats-Msg-Id: [^\r]*`)

	// public matches what only looks like a secret.
	public = regexp.MustCompile(`"(trace_id|key_hash)":"[0-9a-f]{32}"`)
)

// Log collects log lines, or a program's standard error, and looks for secrets in them.
// NoSecrets fails the tests of a package if there is one. The zero Log is ready for use, and
// safe for concurrent use.
type Log struct{ Output }

// Write implements io.Writer.
func (l *Log) Write(line []byte) (int, error) {
	Search("a log", line)
	return l.Output.Write(line)
}

// Logger returns a logger of all levels that writes to the log.
func (l *Log) Logger() zerolog.Logger { return zerolog.New(l) }

// Logger returns a logger for a test that does not read the log. The log is searched as any
// other one is.
func Logger() zerolog.Logger { return zerolog.New(searched{}) }

type searched struct{}

func (searched) Write(line []byte) (int, error) {
	Search("a log", line)
	return len(line), nil
}

// leaks are the texts with secrets that were found.
var leaks struct {
	sync.Mutex
	texts []string
}

// Search looks for secrets in a text that may be read by others than the secret's owner.
func Search(where string, text []byte) {
	if secret.Match(text) && secret.Match(public.ReplaceAll(text, nil)) {
		note(where, text, secret.FindIndex(text))
	}
}

// note keeps what a text has at and around a secret.
func note(where string, text []byte, at []int) {
	around := text[max(0, at[0]-200):min(len(text), at[1]+200)]
	leaks.Lock()
	defer leaks.Unlock()
	leaks.texts = append(leaks.texts, fmt.Sprintf("%s holds a secret: %q", where, around))
}

// SearchDir looks for secrets in the files below the data directory of a server that has
// stopped. It does not find tokens and ids of sessions there, since the bucket's keys are
// hashes that look like them; TestSecrets of cmd/kvslots does.
func SearchDir(dir string) {
	_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return nil // the test may have removed it
		}
		content, _ := os.ReadFile(path)
		content = storedPublic.ReplaceAll(content, nil)
		if at := storedSecret.FindIndex(content); at != nil {
			note("the data directory's "+entry.Name(), content, at)
		}
		return nil
	})
}

// Tests are the tests of a package: a testing.M.
type Tests interface{ Run() int }

// NoSecrets returns the tests of a package, for TestMain, that also fail if a Log or a text
// given to Search held a secret. go test itself prints the logs of failed tests alone.
func NoSecrets(m Tests) Tests { return searchedTests{m} }

type searchedTests struct{ Tests }

func (s searchedTests) Run() int {
	code := s.Tests.Run()
	leaks.Lock()
	defer leaks.Unlock()
	for _, text := range leaks.texts {
		fmt.Fprintln(os.Stderr, text)
		code = max(code, 1)
	}
	return code
}
