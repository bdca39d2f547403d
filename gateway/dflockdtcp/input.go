package dflockdtcp

import (
	"bytes"
	"errors"
	"io"
	"sync"
	"time"
)

const (
	// lineTime is how long a line may take to arrive.
	lineTime = 23 * time.Second

	// maxLine is the longest line in bytes, without its end; maxToken that of a token.
	maxLine, maxToken = 256, 64 << 10

	// maxBehind is how many bytes a client may send behind a request that is being
	// served. More of them are not read before the request is answered. If that waits in
	// line, and they have been there for behindTime, the connection is closed: its end
	// could not be noticed otherwise.
	maxBehind  = 4 << 10
	behindTime = 25 * time.Millisecond

	chunk = 1 << 10
)

var (
	errLineTooLong = errors.New("a line is too long")
	errLineTooLate = errors.New("a line has not arrived in time")
	errBehind      = errors.New("too much was sent behind a request that waits")
	errStopped     = errors.New("the server stops")
	errForeign     = errors.New("the client speaks another protocol")
)

// input is what a connection has received and no request has taken yet. One goroutine calls
// fill, and another line and wait.
type input struct {
	mu      sync.Mutex
	data    bytes.Buffer
	err     error // why nothing more arrives; nil as long as it may
	waiting bool  // the request being served waits in line
	discard bool

	arrived, taken chan struct{} // of capacity 1, to wake line and fill
	stopping       chan struct{} // closed by stop
	stopOnce       sync.Once

	// line and receive use these alone.
	begun   bool // the first command has arrived
	partial []byte
	timer   *time.Timer
}

func newInput() *input {
	in := &input{arrived: make(chan struct{}, 1), taken: make(chan struct{}, 1), stopping: make(chan struct{})}
	in.timer = time.NewTimer(lineTime)
	in.timer.Stop()
	return in
}

// stop makes line return errStopped when no whole line has arrived. It may be called more
// than once.
func (in *input) stop() { in.stopOnce.Do(func() { close(in.stopping) }) }

func wake(waiting chan struct{}) {
	select {
	case waiting <- struct{}{}:
	default:
	}
}

// fill reads until the connection ends or too much is behind a request that waits, and
// returns why.
func (in *input) fill(from io.Reader) error {
	buffer := make([]byte, chunk)
	for {
		n, err := from.Read(buffer)
		if n > 0 && !in.add(buffer[:n]) {
			err = errBehind
		}
		if err != nil {
			in.mu.Lock()
			in.err = err
			in.mu.Unlock()
			wake(in.arrived)
			return err
		}
	}
}

// add adds what was read when there is room for it. It returns false if there will be none
// because of a request that waits.
func (in *input) add(read []byte) bool {
	var late <-chan time.Time // since a request waits with too much behind it
	for {
		in.mu.Lock()
		room := in.data.Len()+len(read) <= maxBehind
		if room && !in.discard {
			in.data.Write(read)
		}
		discard, waiting := in.discard, in.waiting
		in.mu.Unlock()
		switch {
		case room || discard:
			wake(in.arrived)
			return true
		case !waiting:
			late = nil
		case late == nil:
			timer := time.NewTimer(behindTime)
			defer timer.Stop()
			late = timer.C
		}
		select {
		case <-in.taken:
			late = nil
		case <-late:
			if in.isWaiting() {
				return false
			}
			late = nil
		}
	}
}

func (in *input) wait(waiting bool) {
	in.mu.Lock()
	in.waiting = waiting
	in.mu.Unlock()
	if waiting {
		wake(in.taken)
	}
}

func (in *input) isWaiting() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.waiting
}

// ignore drops everything that has arrived and will.
func (in *input) ignore() {
	in.mu.Lock()
	in.discard = true
	in.data = bytes.Buffer{}
	in.mu.Unlock()
	wake(in.taken)
}

// line returns the next line without its end, \n or \r\n. The errors are errLineTooLong,
// errLineTooLate, errStopped, errForeign, and that of fill when all lines before have been returned.
func (in *input) line(most int) (string, error) {
	timed := false
	defer func() {
		if timed {
			in.timer.Stop()
		}
	}()
	for {
		text, complete, err := in.take(most)
		switch {
		case complete && isForeign(text):
			return "", errForeign
		case complete || err != nil:
			return text, err
		}
		if !timed {
			timed = true
			in.timer.Reset(lineTime)
		}
		select {
		case <-in.arrived:
		case <-in.timer.C:
			return "", errLineTooLate
		case <-in.stopping:
			return "", errStopped
		}
	}
}

// take takes a line, or its part that has arrived.
func (in *input) take(most int) (text string, complete bool, err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	data := in.data.Bytes()
	end := bytes.IndexByte(data, '\n')
	complete = end >= 0
	if !complete {
		end = len(data)
	}
	in.partial = append(in.partial, data[:min(end, most+2)]...) // 2: one for \r, and one that is too long
	in.data.Next(end)
	if complete {
		in.data.Next(1)
	}
	wake(in.taken)
	line := in.partial
	if complete && bytes.HasSuffix(line, []byte("\r")) {
		line = line[:len(line)-1]
	}
	switch {
	case len(line) > most && (complete || len(line) > most+1 || line[most] != '\r'):
		return "", false, errLineTooLong
	case complete:
		text = string(line)
		if in.partial = in.partial[:0]; cap(in.partial) > maxBehind {
			in.partial = nil
		}
		return text, true, nil
	}
	return "", false, in.err
}
