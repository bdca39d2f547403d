package main

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	natsclient "github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots/logtest"
)

// TestManualSessions runs the console blocks of all documents and compares the output. It emulates the shell and curl, so that tests need Go alone.
func TestManualSessions(t *testing.T) {
	played := 0
	for _, d := range documents(t) {
		steps := stepsOf(d.text)
		if played += len(steps); len(steps) == 0 {
			continue
		}
		t.Run(d.name, func(t *testing.T) {
			t.Parallel() // sessions wait for seconds
			playManual(t, d, steps)
		})
	}
	if played < 40 {
		t.Errorf("found only %d commands in the documents", played)
	}
}

func playManual(t *testing.T, d document, steps []step) {
	t.Helper()
	p := startServe(t, noEnv, "--data-dir", t.TempDir(), "--nats-addr", "127.0.0.1:0", "--log-level", "debug")
	serveManualFunctions(t, p.natsURL(t), d.text)
	s := &session{t: t, server: strings.TrimPrefix(p.url, "http://"), vars: map[string]string{}}
	for _, step := range steps {
		got, err := s.run(step.command)
		if err != nil {
			t.Fatalf("$ %s\n%v", step.command, err)
		}
		s.learn(step.output, got)
		if want := s.translate(step.output); anyTime(got) != anyTime(want) {
			t.Errorf("$ %s\n got %s\nwant %s", step.command, got, want)
		}
	}
}

// serveManualFunctions answers in place of "nats reply" in a document.
func serveManualFunctions(t *testing.T, url, text string) {
	t.Helper()
	for _, reply := range regexp.MustCompile(`(?m)^nats reply forrst\.fn\.(\S+) '(.*)'$`).FindAllStringSubmatch(text, -1) {
		serveFunction(t, url, reply[1], func(m *natsclient.Msg) { _ = m.Respond([]byte(reply[2])) })
	}
}

// step is a command and its output.
type step struct{ command, output string }

func stepsOf(text string) []step {
	var steps []step
	for _, block := range regexp.MustCompile("(?s)```console\n(.*?)```").FindAllStringSubmatch(text, -1) {
		for line := range strings.Lines(block[1]) {
			line = strings.TrimSuffix(line, "\n")
			if command, ok := strings.CutPrefix(line, "$ "); ok {
				steps = append(steps, step{command: command})
			} else {
				steps[len(steps)-1].output += line
			}
		}
	}
	return steps
}

// session emulates a shell with variables, curl and kvslots.
type session struct {
	t      *testing.T
	server string
	nats   string // the URL of a NATS server with JetStream, started on demand
	code   int    // of the last command
	vars   map[string]string

	started  chan struct{} // closed when the command in the background has ended
	terminal *logtest.Output

	leases []string // leases, fences, sessions and tokens: pairs of the document's and the real one, for strings.NewReplacer
}

var assignment = regexp.MustCompile(`^(?:export )?([A-Z_]+)=(\S+)$`)

func (s *session) run(command string) (string, error) {
	command = s.translate(command)
	if match := assignment.FindStringSubmatch(command); match != nil {
		s.vars["$"+match[1]] = match[2]
		return "", nil
	}
	words := s.words(command)
	if words[len(words)-1] == "&" {
		return "", s.start(words[1 : len(words)-1])
	}
	switch words[0] {
	case "wait":
		<-s.started
		return strings.ReplaceAll(s.terminal.String(), "\n", ""), nil
	case "curl":
		return curl(words[1:])
	case "kvslots":
		return s.kvslots(words[1:]), nil
	case "echo":
		return strings.ReplaceAll(words[1], "$?", strconv.Itoa(s.code)), nil
	}
	return "", fmt.Errorf("only curl, kvslots and echo are known here, not %s", words[0])
}

// kvslots runs the program. The documents use the default addresses, so the environment
// has the real ones.
func (s *session) kvslots(args []string) string {
	env := map[string]string{"KVSLOTS_SERVER": "http://" + s.server}
	if args[0] == "cosmo" {
		if s.nats == "" {
			_, s.nats = runNATS(s.t, jetStreamOptions(s.t))
		}
		env = map[string]string{"KVSLOTS_NATS_URL": s.nats}
	}
	for name, value := range s.vars {
		env[strings.TrimPrefix(name, "$")] = value
	}
	terminal := &logtest.Output{}
	s.code = run(s.t.Context(), args, strings.NewReader(""), terminal, searched(terminal), env)
	return strings.ReplaceAll(terminal.String(), "\n", "")
}

// start runs kvslots in the background, and returns when it has printed something, or waits for a slot.
func (s *session) start(args []string) error {
	s.started, s.terminal = make(chan struct{}), &logtest.Output{}
	env, terminal := map[string]string{"KVSLOTS_SERVER": "http://" + s.server}, s.terminal
	for name, value := range s.vars {
		env[strings.TrimPrefix(name, "$")] = value
	}
	go func() {
		defer close(s.started)
		run(s.t.Context(), args, strings.NewReader(""), terminal, searched(terminal), env)
	}()
	waitFor(s.t, func() bool {
		answer, err := curl([]string{s.server + "/v1/pools?contended=true"})
		return terminal.String() != "" || err == nil && !strings.Contains(answer, `"pools":[]`)
	})
	return nil
}

// words splits a command as a shell would, with single quotes and variables.
func (s *session) words(command string) []string {
	var words []string
	for _, match := range regexp.MustCompile(`'([^']*)'|(\S+)`).FindAllStringSubmatch(command, -1) {
		word := match[2]
		for name, value := range s.vars {
			word = strings.ReplaceAll(word, name, value)
		}
		words = append(words, match[1]+word)
	}
	return words
}

// curl emulates curl with the options -sw, -X, -H and -d.
func curl(args []string) (string, error) {
	method, url, body := http.MethodGet, "", ""
	header := http.Header{}
	for i := 0; i < len(args); i++ {
		switch args[i] {
		case "-sw":
			i++
		case "-X":
			i++
			method = args[i]
		case "-H":
			i++
			name, value, _ := strings.Cut(args[i], ":")
			header.Set(name, value)
		case "-d":
			i++
			body = args[i]
			if method == http.MethodGet {
				method = http.MethodPost
			}
		default:
			url = "http://" + strings.TrimPrefix(args[i], "http://")
		}
	}
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	r.Header = header
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	return string(answer), err
}

var lease = regexp.MustCompile(`(?:"(?:lease|session_id|token|owner)":"|KVSLOTS_LEASE=)([-0-9a-f]{36}|[0-9a-f]{32}\b)`)

var printedFence = regexp.MustCompile(`KVSLOTS_FENCE=(\d+)`)

// learn remembers which real lease, session, token or owner corresponds to one of the
// document's.
func (s *session) learn(theirs, ours string) {
	from, to := lease.FindStringSubmatch(theirs), lease.FindStringSubmatch(ours)
	if from != nil && to != nil {
		s.leases = append(s.leases, from[1], to[1])
	}
	from, to = printedFence.FindStringSubmatch(theirs), printedFence.FindStringSubmatch(ours)
	if from != nil && to != nil {
		s.leases = append(s.leases, from[1], to[1])
	}
}

// translate replaces the document's server and leases by the real ones.
func (s *session) translate(text string) string {
	return strings.NewReplacer(append(s.leases, "127.0.0.1:8080", s.server)...).Replace(text)
}

// anyTime replaces values that differ between runs.
func anyTime(answer string) string {
	answer = regexp.MustCompile(`"expires_at":"[-0-9]+T[:0-9]+Z"`).ReplaceAllString(answer, `"expires_at":"…"`)
	answer = regexp.MustCompile(`"(expires_at_unix|fence)":\d+`).ReplaceAllString(answer, `"$1":…`)
	answer = regexp.MustCompile(`"(age_s|expires_in_s|waited_s|oldest_wait_s|held_s)":[\d.]+`).ReplaceAllString(answer, `"$1":…`)
	answer = regexp.MustCompile(`(HELD FOR|ENDS IN|LABEL|WAITED|OLDEST WAIT|held for).*`).ReplaceAllStringFunc(answer, func(table string) string {
		return regexp.MustCompile(`\b(\d+[dhms])+\b`).ReplaceAllString(table, `…`)
	})
	answer = regexp.MustCompile(`taken by [^;]+`).ReplaceAllString(answer, `taken by …`)
	answer = regexp.MustCompile(` {2,}`).ReplaceAllString(answer, ` `)
	answer = regexp.MustCompile(`\bage \d+s`).ReplaceAllString(answer, `age …`)
	answer = regexp.MustCompile(`\d\d:\d\d:\d\d\.\d{3} `).ReplaceAllString(answer, `… `)
	answer = regexp.MustCompile(` (fence|after) [\dms.]+`).ReplaceAllString(answer, ` $1 …`)
	return regexp.MustCompile(`(KVSLOTS_FENCE|fence)=\d+`).ReplaceAllString(answer, `$1=…`)
}
