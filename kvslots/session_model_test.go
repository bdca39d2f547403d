package kvslots

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/anishathalye/porcupine"
)

// This is the sequential model of one key, a lock or a semaphore, and of the sessions that
// use it: the holders, the enqueued sessions in their order, and the ended sessions. The
// first enqueued session may get a free slot at any time. The model does not contain
// sessions that wait in a pending Acquire, so it does not check the order of grants; other
// tests do. Only opStand and opLeave tell the model about a wait that ended without a
// grant, and during which sessions with other terms may have been refused.

type keyOp int

const (
	opAcquire keyOp = iota
	opEnqueue
	opWait
	opRelease
	opExtend
	opEnd
	opPing
	opStand // a wait that will end without a grant joins the line
	opLeave // and leaves it
)

type keyInput struct {
	op      keyOp
	key     int
	session int
	lock    bool
	limit   int
	token   string // of release and extend
	lagging bool   // views skip entries: a free slot may seem taken for a moment, but not the reverse
}

type keyOutput struct {
	err   error // one of the sentinels, or nil
	token string
}

// keyHolder holds a slot. Its token is unknown until a client has received it.
type keyHolder struct {
	session int
	token   string
	unseen  bool
}

type keyState struct {
	lock    bool
	limit   int // 0: no terms are in force
	holders []keyHolder
	line    []int
	ended   []int
	vain    []keyInput // waits in line that will end without a grant
	text    string     // a description of the whole state
}

func (s keyState) clone() keyState {
	s.holders, s.line, s.ended = slices.Clone(s.holders), slices.Clone(s.line), slices.Clone(s.ended)
	s.vain = slices.Clone(s.vain)
	return s
}

func (s keyState) alive(session int) bool { return !slices.Contains(s.ended, session) }

// agrees reports whether the terms of in are those in force.
func (s keyState) agrees(in keyInput) bool {
	return s.limit == 0 || s.lock == in.lock && s.limit == in.limit
}

// keptAway reports whether a wait in vain has other terms than in.
func (s keyState) keptAway(in keyInput) bool {
	return slices.ContainsFunc(s.vain, func(other keyInput) bool { return other.lock != in.lock || other.limit != in.limit })
}

func (s keyState) full() bool { return s.limit != 0 && len(s.holders) >= s.limit }

// promotions returns the possible states after zero or more enqueued sessions were
// granted a slot.
func (s keyState) promotions() []keyState {
	all := []keyState{s}
	for len(s.line) > 0 && len(s.holders) < s.limit {
		s = s.clone()
		s.holders = append(s.holders, keyHolder{session: s.line[0], unseen: true})
		s.line = s.line[1:]
		s = s.settled()
		all = append(all, s)
	}
	return all
}

// settled drops the terms when no session holds the key or is enqueued for it.
func (s keyState) settled() keyState {
	if len(s.holders)+len(s.line) == 0 {
		s.lock, s.limit = false, 0
	}
	slices.SortFunc(s.holders, func(a, b keyHolder) int {
		return cmp.Or(cmp.Compare(a.session, b.session), cmp.Compare(a.token, b.token))
	})
	s.text = s.describe()
	return s
}

// describe returns a text that differs for different states. The check of a history
// spends most of its time here, so it does not use fmt.
func (s keyState) describe() string {
	text := make([]byte, 0, 256)
	number := func(n int) { text = append(strconv.AppendInt(text, int64(n), 10), ' ') }
	if number(s.limit); s.lock {
		text = append(text, "lock "...)
	}
	for _, h := range s.holders {
		number(h.session)
		if text = append(append(text, h.token...), ' '); h.unseen {
			text = append(text, "unseen "...)
		}
	}
	text = append(text, "line "...)
	for _, session := range s.line {
		number(session)
	}
	text = append(text, "ended "...)
	for _, session := range s.ended {
		number(session)
	}
	text = append(text, "vain "...)
	for _, in := range s.vain {
		text = append(append(text, in.token...), ' ')
	}
	return string(text)
}

// taken returns the state after the session of in was granted a slot.
func (s keyState) taken(in keyInput, token string, unseen bool) keyState {
	s = s.clone()
	s.lock, s.limit = in.lock, in.limit
	s.holders = append(s.holders, keyHolder{in.session, token, unseen})
	return s.settled()
}

func (s keyState) held(of func(keyHolder) bool) int { return slices.IndexFunc(s.holders, of) }

func (s keyState) without(holder int) keyState {
	s = s.clone()
	s.holders = slices.Delete(s.holders, holder, holder+1)
	return s.settled()
}

func (s keyState) unseenOf(session int) int {
	return s.held(func(h keyHolder) bool { return h.session == session && h.unseen })
}

// step returns the possible states after an operation; none if the operation cannot have
// had that outcome.
func (s keyState) step(in keyInput, out keyOutput) []keyState {
	switch in.op {
	case opEnd:
		return s.end(in, out)
	case opStand:
		after := s.clone()
		after.vain = append(after.vain, in)
		return []keyState{s, after.settled()}
	case opLeave:
		s = s.clone()
		s.vain = slices.DeleteFunc(s.vain, func(other keyInput) bool { return other.token == in.token })
		return when(true, s.settled())
	}
	alive := s.alive(in.session)
	if out.err == ErrSessionGone {
		next := []keyState{}
		if !alive {
			next = append(next, s)
		} else if (in.op == opAcquire || in.op == opEnqueue) && s.agrees(in) && !s.full() {
			next = append(next, s.taken(in, "", false)) // the session ended before the answer
		} else if in.op == opWait { // it had left the line when the session ended
			next = append(next, s.wait(in, keyOutput{err: ErrNoSlot})...)
		}
		if i := s.holderOf(in); in.op == opRelease && i >= 0 { // the session ended, perhaps at another peer, before the answer
			next = append(next, s.without(i))
		}
		return next
	}
	// Releasing needs only a token: a session that has just ended at another peer may
	// still do it.
	if !alive && in.op != opRelease && in.op != opExtend {
		return nil
	}
	switch in.op {
	case opPing:
		return when(out.err == nil, s)
	case opAcquire, opEnqueue:
		return s.come(in, out)
	case opWait:
		return s.wait(in, out)
	}
	i := s.holderOf(in)
	switch {
	case out.err == ErrUnavailable && i >= 0: // it cannot be known whether this call has released it
		return []keyState{s, s.without(i)}
	case out.err == ErrNotHeld || out.err == ErrUnavailable:
		return when(i < 0, s)
	case i < 0:
		return nil
	}
	if in.op == opExtend {
		return when(true, s)
	}
	return when(true, s.without(i))
}

// holderOf returns the index of the holder with the token that a session has sent, or -1.
func (s keyState) holderOf(in keyInput) int {
	if s.lock != in.lock {
		return -1
	}
	return s.held(func(h keyHolder) bool { return h.token == in.token && in.token != "" })
}

func when(ok bool, s keyState) []keyState {
	if ok {
		return []keyState{s}
	}
	return nil
}

// errEither is the outcome of not using a session: it ended because it was idle, or
// another call ended it.
var errEither = errors.New("ended, by whatever")

func (s keyState) end(in keyInput, out keyOutput) []keyState {
	if out.err == errEither && !s.alive(in.session) {
		return when(true, s)
	}
	if out.err == ErrSessionGone {
		return when(!s.alive(in.session), s)
	}
	if !s.alive(in.session) {
		return nil
	}
	s = s.clone()
	s.ended = append(s.ended, in.session)
	slices.Sort(s.ended)
	s.holders = slices.DeleteFunc(s.holders, func(h keyHolder) bool { return h.session == in.session })
	s.line = slices.DeleteFunc(s.line, func(other int) bool { return other == in.session })
	return when(true, s.settled())
}

func (s keyState) come(in keyInput, out keyOutput) []keyState {
	enqueued := slices.Contains(s.line, in.session) || s.unseenOf(in.session) >= 0
	switch {
	case out.err == ErrAlreadyEnqueued:
		return when(in.op == opEnqueue && enqueued, s)
	case out.err == ErrLimitMismatch:
		return when(!s.agrees(in) || s.keptAway(in) || in.lagging, s)
	case !s.agrees(in):
		return nil
	case out.err == ErrNoSlot:
		return when(s.full() || in.lagging, s)
	case in.op == opEnqueue && enqueued:
		return nil
	case out.token != "":
		return when(!s.full(), s.taken(in, out.token, in.op == opEnqueue))
	case in.op == opEnqueue && out.err == nil: // sessions that the model does not contain may wait
		s = s.clone()
		s.lock, s.limit = in.lock, in.limit
		s.line = append(s.line, in.session)
		return when(true, s.settled())
	}
	return nil
}

func (s keyState) wait(in keyInput, out keyOutput) []keyState {
	i, place := s.unseenOf(in.session), slices.Index(s.line, in.session)
	if s.limit != 0 && s.lock != in.lock {
		i, place = -1, -1
	}
	switch {
	case out.token != "":
		if i < 0 || s.holders[i].token != "" && s.holders[i].token != out.token {
			return nil
		}
		s = s.clone()
		s.holders[i].token, s.holders[i].unseen = out.token, false
		return when(true, s.settled())
	case out.err == ErrNotEnqueued:
		return when(i < 0 && place < 0, s)
	case out.err == ErrNoSlot && place >= 0:
		s = s.clone()
		s.line = slices.Delete(s.line, place, place+1)
		return when(true, s.settled())
	case out.err == ErrNoSlot && i >= 0 && s.holders[i].token == "":
		return when(true, s.without(i)) // it left before its claim was in the stream
	}
	return nil
}

var modelOfKeys = func() porcupine.Model {
	m := porcupine.NondeterministicModel{
		Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
			byKey := map[int][]porcupine.Operation{}
			for _, op := range history {
				key := op.Input.(keyInput).key
				byKey[key] = append(byKey[key], op)
			}
			var parts [][]porcupine.Operation
			for _, part := range byKey {
				parts = append(parts, part)
			}
			return parts
		},
		Init: func() []any { return []any{keyState{}.settled()} },
		Step: func(state, in, out any) []any {
			var next []any
			for _, s := range state.(keyState).promotions() {
				for _, after := range s.step(in.(keyInput), out.(keyOutput)) {
					next = append(next, after)
				}
			}
			return next
		},
		Equal: func(a, b any) bool { return a.(keyState).text == b.(keyState).text },
	}
	return m.ToModel()
}()

func (in keyInput) describe(out keyOutput) string {
	ops := [...]string{"acquire", "enqueue", "wait", "release", "extend", "end", "ping", "stand", "leave"}
	outcome := "ok " + out.token
	if out.err != nil {
		outcome = out.err.Error()
	}
	return fmt.Sprintf("session %d %s(lock %v, limit %d, token %s): %s", in.session, ops[in.op], in.lock, in.limit, in.token, outcome)
}

// explainKey prints the operations of the first key whose history is not linearizable,
// around the end of its longest linearizable part.
func explainKey(history []porcupine.Operation, check func(porcupine.Model, []porcupine.Operation) (porcupine.CheckResult, porcupine.LinearizationInfo)) string {
	for _, part := range modelOfKeys.Partition(history) {
		result, info := check(modelOfKeys, part)
		if result != porcupine.Illegal {
			continue
		}
		var longest []int
		for _, partial := range info.PartialLinearizations() {
			for _, chain := range partial {
				if len(chain) > len(longest) {
					longest = chain
				}
			}
		}
		explained, state := map[int]bool{}, modelOfKeys.Init()
		for _, i := range longest {
			explained[i] = true
			_, state = modelOfKeys.Step(state, part[i].Input, part[i].Output)
		}
		stuck := int64(1 << 62)
		order := make([]int, len(part))
		for i, op := range part {
			order[i] = i
			if !explained[i] {
				stuck = min(stuck, op.Return)
			}
		}
		sort.Slice(order, func(i, j int) bool { return part[order[i]].Call < part[order[j]].Call })
		var text strings.Builder
		fmt.Fprintf(&text, "%d operations, %d explained, then %v\n", len(part), len(longest), state)
		for _, i := range order {
			op := part[i]
			if op.Return < stuck-400e6 || op.Call > stuck+5e6 {
				continue
			}
			mark := " "
			if !explained[i] {
				mark = "?"
			}
			fmt.Fprintf(&text, "%s %10d %10d %s\n", mark, op.Call/1000, op.Return/1000, op.Input.(keyInput).describe(op.Output.(keyOutput)))
		}
		return text.String()
	}
	return ""
}
