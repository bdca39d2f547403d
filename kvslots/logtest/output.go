package logtest

import (
	"bytes"
	"sync"
	"testing"
	"time"
)

// outputTimeout bounds the time until a program prints what a test waits for.
const outputTimeout = 30 * time.Second

// Output collects what a program prints. The zero Output is ready for use, and safe for
// concurrent use.
type Output struct {
	mu      sync.Mutex
	text    bytes.Buffer
	changed chan struct{} // closed by the next Write, if Await waits for it
}

// Write implements io.Writer.
func (o *Output) Write(text []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.changed != nil {
		close(o.changed)
		o.changed = nil
	}
	return o.text.Write(text)
}

// String returns what was printed since the last Reset.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// Reset discards what was printed until now.
func (o *Output) Reset() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text.Reset()
}

// Await waits until the output satisfies a condition, and returns it.
func (o *Output) Await(t testing.TB, wanted func(text string) bool) string {
	t.Helper()
	timeout := time.After(outputTimeout)
	for {
		text, changed := o.next()
		if wanted(text) {
			return text
		}
		select {
		case <-changed:
		case <-timeout:
			t.Fatalf("never printed what was awaited, but:\n%s", text)
		}
	}
}

// next returns the output, and a channel that is closed when there is more.
func (o *Output) next() (text string, changed <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.changed == nil {
		o.changed = make(chan struct{})
	}
	return o.text.String(), o.changed
}
