package logtest

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"sync"
)

// unlikeHash matches the secrets that do not look like the hashes in the bucket: the
// beginning of a UUID, which names a pool or a lease; the seed of an nkey; a private key; and
// passwords, all of which have this word in them.
const unlikeHash = `[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}|\bS[A-Z][A-Z2-7]{56}\b|PRIVATE KEY|hunter[0-9]`

var (
	// secret matches each secret that a test uses: unlikeHash, tokens and ids of sessions.
	secret = regexp.MustCompile(unlikeHash + `|\b[0-9a-f]{32}\b`)

	// public matches what only looks like a secret.
	public = regexp.MustCompile(`"(trace_id|key_hash|pool_hash)":"[0-9a-f]{32}"`)
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
func (l *Log) Logger() *slog.Logger { return LoggerTo(&l.Output) }

// Logger returns a logger for a test that does not read the log. The log is searched as any
// other one is.
func Logger() *slog.Logger { return LoggerTo(io.Discard) }

// LoggerTo returns a logger of all levels whose log is searched, and written to w. Its lines
// look as those of kvslots, but have no time, and their message is the second field.
func LoggerTo(w io.Writer) *slog.Logger {
	return slog.New(slog.NewJSONHandler(searched{w}, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: asKvslots}))
}

// asKvslots returns an attribute of a line as kvslots would write it.
func asKvslots(groups []string, a slog.Attr) slog.Attr {
	switch {
	case len(groups) > 0:
	case a.Key == slog.TimeKey:
		return slog.Attr{}
	case a.Key == slog.LevelKey:
		return slog.String("level", strings.ToLower(a.Value.String()))
	case a.Key == slog.MessageKey:
		return slog.Attr{Key: "message", Value: a.Value}
	}
	return a
}

type searched struct{ io.Writer }

func (s searched) Write(line []byte) (int, error) {
	Search("a log", line)
	return s.Writer.Write(line)
}

// leaks are the texts with secrets that were found.
var leaks struct {
	sync.Mutex
	texts []string
}

// Search looks for secrets in a text that may be read by others than the secret's owner.
func Search(where string, text []byte) {
	if secret.Match(text) && secret.Match(public.ReplaceAll(text, nil)) {
		noteAll([]string{excerpt(where, text, span(secret.FindIndex(text)))})
	}
}

func noteAll(found []string) {
	leaks.Lock()
	defer leaks.Unlock()
	leaks.texts = append(leaks.texts, found...)
}

// excerpt returns what a text has at and around a secret.
func excerpt(where string, text []byte, at span) string {
	return fmt.Sprintf("%s holds a secret: %q", where, text[max(0, at[0]-200):min(len(text), at[1]+200)])
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
