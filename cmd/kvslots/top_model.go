package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/reads"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// top is what "kvslots top" shows. It is a tea.Model, whose methods Bubble Tea calls one after the
// other.
type top struct {
	reader topReader
	every  time.Duration
	follow func(ctx context.Context, tell func()) // calls tell after changes; returns if it cannot
	told   bool                                   // changes are told
	ctx    context.Context                        // of readings

	number int                // of the last reading that was begun
	cancel context.CancelFunc // of that reading
	busy   bool               // it runs

	query   kvslots.PoolQuery
	typing  bool // the user types query.Match
	pools   []kvslots.PoolStats
	more    bool
	chosen  reads.Hash          // of the chosen row; zero or one that is gone: the first
	open    reads.Hash          // of the open row; zero: the list is shown
	detail  *kvslots.PoolDetail // nil if nothing is known of it
	reading bool                // the open row was not read yet
	scroll  int                 // the first line of the table that is shown
	failure error               // of the last reading

	width, height int
}

func (m *top) Init() tea.Cmd { return m.later() }

func (m *top) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		if m.typing {
			return m, m.typed(msg)
		}
		return m, m.pressed(msg.String())
	case topChanged:
		if m.told = bool(msg); m.told {
			return m, m.dueAfter(shownAfter)
		}
		return m, m.later()
	case topDue:
		switch {
		case int(msg) != m.number:
		case m.busy:
			return m, m.dueAfter(shownAfter)
		default:
			return m, m.begin(m.ctx)
		}
	case topRead:
		if msg.number == m.number {
			m.take(msg)
			return m, m.later()
		}
	}
	return m, nil
}

// take shows the result of a reading. After a failed one the last result stays.
func (m *top) take(r topRead) {
	m.busy = false
	switch m.failure, m.reading = r.err, m.reading && r.err != nil; {
	case r.err != nil:
	case !m.open.IsZero():
		m.detail = r.detail
	default:
		m.pools, m.more = r.pools, r.more
	}
}

func (m *top) pressed(key string) tea.Cmd {
	switch key {
	case "q", "ctrl+c":
		return tea.Quit
	case "up", "k":
		m.move(-1)
	case "down", "j":
		m.move(1)
	case "pgup":
		m.move(-m.lines())
	case "pgdown":
		m.move(m.lines())
	case "home", "g":
		m.move(-maxShown * 2)
	case "end", "G":
		m.move(maxShown * 2)
	case "enter", "right":
		if i := m.row(); m.open.IsZero() && i < len(m.pools) {
			m.chosen, m.open, m.detail, m.reading, m.scroll = m.pools[i].Hash, m.pools[i].Hash, nil, true, 0
			return m.begin(m.ctx)
		}
	case "esc", "left", "backspace":
		if !m.open.IsZero() {
			m.open, m.scroll = reads.Hash{}, 0
			return m.begin(m.ctx)
		}
	case "s":
		if m.open.IsZero() {
			m.query.Order = orders[(slices.Index(orders, m.query.Order)+1)%len(orders)]
			return m.begin(m.ctx)
		}
	case "c":
		if m.open.IsZero() {
			m.query.Waiting = !m.query.Waiting
			return m.begin(m.ctx)
		}
	case "/":
		m.typing = m.open.IsZero()
	}
	return nil
}

func (m *top) typed(msg tea.KeyPressMsg) tea.Cmd {
	switch key := msg.String(); {
	case key == "ctrl+c":
		return tea.Quit
	case key == "enter":
		m.typing = false
		return nil
	case key == "esc":
		m.typing, m.query.Match = false, ""
	case key == "backspace":
		_, size := utf8.DecodeLastRuneInString(m.query.Match)
		m.query.Match = m.query.Match[:len(m.query.Match)-size]
	case msg.Text != "" && utf8.RuneCountInString(m.query.Match) < kvslots.MaxLabel:
		m.query.Match += msg.Text
	}
	return m.begin(m.ctx)
}

func (m *top) move(by int) {
	if !m.open.IsZero() {
		m.scroll = max(0, min(m.scroll+by, len(m.opened())-m.lines()))
		return
	}
	if len(m.pools) > 0 {
		m.chosen = m.pools[max(0, min(m.row()+by, len(m.pools)-1))].Hash
	}
}

func (m *top) row() int {
	return max(0, slices.IndexFunc(m.pools, func(p kvslots.PoolStats) bool { return p.Hash == m.chosen }))
}

// lines returns how many lines of a table fit between the head and the foot.
func (m *top) lines() int { return max(1, m.height-len(m.head())-1) }

func (m *top) View() tea.View {
	lines, foot := m.head(), "up down: choose   Enter: open   s: order   /: filter   c: contended only   q: end"
	if !m.open.IsZero() {
		foot = "up down: scroll   Esc: back   q: end"
		lines = append(lines, window(m.opened(), &m.scroll, m.lines())...)
	} else {
		rows := strings.Split(table(poolRows(m.pools, true)), "\n")[1:]
		if row := m.row(); row < len(rows) {
			rows[row] = "\x1b[7m" + rows[row] + "\x1b[m"
			m.scroll = max(min(m.scroll, row), row-m.lines()+1)
		}
		lines = append(lines, window(rows, &m.scroll, m.lines())...)
	}
	if m.failure != nil {
		foot = "cannot read: " + m.failure.Error()
	}
	for len(lines) < m.height-1 {
		lines = append(lines, "")
	}
	v := tea.NewView(strings.Join(append(lines, foot), "\n"))
	v.AltScreen = true
	return v
}

func window(lines []string, first *int, n int) []string {
	*first = max(0, min(*first, len(lines)-n))
	return lines[*first:min(*first+n, len(lines))]
}

// head returns the lines above the table, with the table's own head in the list.
func (m *top) head() []string {
	if !m.open.IsZero() {
		return []string{"kvslots top: who holds " + m.open.String() + ", and who waits"}
	}
	status := fmt.Sprintf("kvslots top: %d pools, locks and semaphores", len(m.pools))
	if m.more {
		status = fmt.Sprintf("kvslots top: the first %d pools, locks and semaphores", len(m.pools))
	}
	status += ", order " + wire.NameOf(m.query.Order)
	if m.query.Waiting {
		status += ", only with borrowers in line"
	}
	switch {
	case m.typing:
		status += ", filter: " + legible(m.query.Match) + "_"
	case m.query.Match != "":
		status += ", filter: " + legible(m.query.Match)
	}
	return []string{status, strings.Split(table(poolRows(m.pools, true)), "\n")[0]}
}

func (m *top) opened() []string {
	d := m.detail
	switch {
	case m.reading:
		return []string{"reading …"}
	case d == nil:
		return []string{"nothing is held, waited for or registered"}
	}
	text := poolHead(d) + "\n\n" + table(holderRows(d))
	if d.NextFrom > 0 {
		text += "\n…"
	}
	if len(d.Waiters) > 0 {
		text += "\n\n" + table(waiterRows(d))
		if d.NextAfter > 0 {
			text += "\n…"
		}
	}
	return strings.Split(text, "\n")
}
