package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/logtest"
	"github.com/kvslots/kvslots/kvslots/reads"
)

// topPools is a topReader.
type topPools struct {
	mu    sync.Mutex
	list  []kvslots.PoolStats
	fail  error
	asked []kvslots.PoolQuery
}

func (f *topPools) pools(_ context.Context, q kvslots.PoolQuery, _ int) ([]kvslots.PoolStats, string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, q)
	return f.list, "", f.fail
}

func (f *topPools) read(_ context.Context, pool kvslots.PoolRef, _ kvslots.DetailPage) (kvslots.PoolDetail, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.list {
		if p.Hash.String() == pool.Hash() {
			return kvslots.PoolDetail{
				Pool:    p,
				Holders: []kvslots.HolderStats{{Position: 0, Fence: 7, Age: reads.Duration(time.Minute), Label: "ci@b7 \x1b[2J"}},
				Waiters: []kvslots.WaiterStats{{Place: 1, Waited: reads.Duration(time.Second), Label: "next"}},
			}, f.fail
		}
	}
	return kvslots.PoolDetail{}, kvslots.ErrNoPool
}

func lockOf(name string) kvslots.PoolStats {
	p := kvslots.PoolStats{Type: reads.TypeLock, Key: name, State: kvslots.State{Count: 1, InUse: 1}}
	_ = p.Hash.UnmarshalText([]byte(kvslots.ByName(name).Hash()))
	return p
}

func newTop(names ...string) (*top, *topPools) {
	reader := &topPools{}
	for _, name := range names {
		reader.list = append(reader.list, lockOf(name))
	}
	m := &top{reader: reader, every: time.Second, ctx: context.Background(), width: 100, height: 8}
	m.follow = func(ctx context.Context, _ func()) { <-ctx.Done() }
	m.take(m.begin(m.ctx)().(topRead))
	return m, reader
}

// press sends keys, and what the commands that they cause return, except of those that wait.
func press(m *top, keys ...tea.KeyPressMsg) {
	for _, key := range keys {
		before := m.number
		if _, command := m.Update(key); command != nil && m.number != before {
			m.Update(command())
		}
	}
}

func letters(text string) (keys []tea.KeyPressMsg) {
	for _, r := range text {
		keys = append(keys, tea.KeyPressMsg{Code: r, Text: string(r)})
	}
	return keys
}

var (
	keyDown  = tea.KeyPressMsg{Code: tea.KeyDown}
	keyEnter = tea.KeyPressMsg{Code: tea.KeyEnter}
	keyEsc   = tea.KeyPressMsg{Code: tea.KeyEscape}
	keyBack  = tea.KeyPressMsg{Code: tea.KeyBackspace}
)

// chosenLine returns the line in reverse video.
func chosenLine(t *testing.T, m *top) string {
	t.Helper()
	_, after, _ := strings.Cut(m.View().Content, "\x1b[7m")
	line, _, ok := strings.Cut(after, "\x1b[m")
	if !ok {
		t.Errorf("no line is chosen:\n%s", m.View().Content)
	}
	return line
}

func wantShown(t *testing.T, m *top, texts ...string) {
	t.Helper()
	shown := m.View().Content
	if lines := strings.Count(shown, "\n") + 1; lines != m.height {
		t.Errorf("%d lines, want %d", lines, m.height)
	}
	for _, text := range texts {
		if !strings.Contains(shown, text) {
			t.Errorf("%q is not shown:\n%s", text, shown)
		}
	}
}

func TestTopKeys(t *testing.T) {
	m, reader := newTop("a", "b", "c", "d", "e", "f", "g")
	wantShown(t, m, "7 pools, locks and semaphores, order waiting", "HASH", "a ", "e ")
	press(m, keyDown, keyDown)
	if line := chosenLine(t, m); !strings.HasPrefix(line, "c ") {
		t.Errorf("chosen: %q", line)
	}
	reader.list = append(reader.list[2:], reader.list[:2]...) // c is the first now
	m.Update(topDue(m.number - 1))                            // out of date
	_, command := m.Update(topDue(m.number))
	m.Update(command())
	if line := chosenLine(t, m); !strings.HasPrefix(line, "c ") {
		t.Errorf("chosen after a change of the order: %q", line)
	}
	press(m, letters("G")...)
	if line := chosenLine(t, m); !strings.HasPrefix(line, "b ") {
		t.Errorf("chosen at the end: %q", line)
	}
	press(m, letters("gsc")...)
	wantShown(t, m, "order oldest_wait, only with borrowers in line", "c ")
	press(m, letters("/ab")...)
	wantShown(t, m, "filter: ab_")
	press(m, keyBack)
	press(m, letters("q")...) // is a letter of the filter
	press(m, keyEnter)
	wantShown(t, m, "filter: aq\n")
	last := reader.asked[len(reader.asked)-1]
	if want := (kvslots.PoolQuery{Order: kvslots.ByOldestWait, Waiting: true, Match: "aq"}); last != want {
		t.Errorf("asked for %+v, want %+v", last, want)
	}
	press(m, letters("/")...)
	press(m, keyEsc)
	if m.query.Match != "" || m.typing {
		t.Error("Esc does not remove the filter")
	}
}

func TestTopOpensARow(t *testing.T) {
	m, reader := newTop("a", "b")
	m.height = 14
	press(m, keyDown)
	_, command := m.Update(keyEnter)
	wantShown(t, m, "reading …")
	m.Update(command())
	wantShown(t, m, "lock "+kvslots.ByName("b").Hash()+" b", "POSITION", `"ci@b7 \x1b[2J"`, "PLACE", "next", "Esc: back")
	if strings.Contains(m.View().Content, "\x1b[2J") {
		t.Error("a label controls the terminal")
	}
	m.height = 6
	press(m, letters("G")...)
	wantShown(t, m, "next")
	reader.list = nil
	_, command = m.Update(topDue(m.number))
	m.Update(command())
	wantShown(t, m, "nothing is held, waited for or registered")
	press(m, keyEsc)
	wantShown(t, m, "0 pools")
	press(m, keyEnter, keyDown) // there is no row
	if !m.open.IsZero() {
		t.Error("opened nothing")
	}
}

// A reading that fails, or that is out of date, leaves what is shown.
func TestTopFailures(t *testing.T) {
	m, reader := newTop("a")
	stale := m.begin(m.ctx)
	reader.fail = errors.New("connection refused")
	m.Update(m.begin(m.ctx)())
	wantShown(t, m, " a", "cannot read: connection refused")
	reader.fail, reader.list = nil, nil
	m.Update(stale())
	wantShown(t, m, " a", "cannot read: connection refused")
	m.Update(m.begin(m.ctx)())
	wantShown(t, m, "0 pools", "q: end")
}

// The program ends with the context, and with q; readings go on meanwhile.
func TestTopProgram(t *testing.T) {
	for _, quits := range []bool{true, false} {
		m, reader := newTop("a")
		m.every = time.Millisecond
		input, keys := io.Pipe()
		ctx, cancel := context.WithCancel(t.Context())
		shown, ended := &logtest.Output{}, make(chan error, 1)
		go func() {
			ended <- runTop(ctx, m, tea.WithInput(input), tea.WithOutput(shown), tea.WithWindowSize(100, 8), tea.WithEnvironment([]string{"TERM=xterm-256color"}))
		}()
		waitFor(t, func() bool {
			reader.mu.Lock()
			defer reader.mu.Unlock()
			return len(reader.asked) > 3 && strings.Contains(shown.String(), "HASH")
		})
		if quits {
			_, _ = io.WriteString(keys, "q")
		} else {
			cancel()
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
		cancel()
		_ = keys.Close()
	}
	m, reader := newTop("a")
	reader.fail = errors.New("unauthorized")
	if err := runTop(t.Context(), m); !errors.Is(err, reader.fail) {
		t.Errorf("a first reading that fails: %v", err)
	}
}

// A change is read at once, and one that comes during a reading is read after it.
func TestTopReadsChanges(t *testing.T) {
	m, reader := newTop("a")
	reader.list = append(reader.list, lockOf("b"))
	_, due := m.Update(topChanged(true))
	_, read := m.Update(due())
	if _, again := m.Update(topChanged(true)); again == nil || !m.busy {
		t.Fatal("the reading does not run")
	} else if _, later := m.Update(again()); later == nil || m.number != 2 {
		t.Errorf("%d readings", m.number)
	}
	m.Update(read())
	wantShown(t, m, "2 pools, locks and semaphores", "b ")
}
