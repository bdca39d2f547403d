package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

// askedLender notes how long a borrow may take.
type askedLender struct{ within time.Duration }

func (l *askedLender) borrow(ctx context.Context, _ uuid.UUID, _, _ time.Duration) (leaseAnswer, error) {
	if deadline, ok := ctx.Deadline(); ok {
		l.within = time.Until(deadline)
	}
	return leaseAnswer{}, errors.New("refused")
}

// A try ends soon after the wait that it is part of, whatever the server does.
func TestWaitBoundsItsTries(t *testing.T) {
	for _, c := range []struct{ wait, most time.Duration }{{2 * time.Second, 7 * time.Second}, {0, 0}} {
		l := &askedLender{}
		_, err := newWaiting(leaseTimes{ttl: time.Minute, wait: c.wait}, io.Discard).borrow(t.Context(), l, uuid.New())
		if err == nil || l.within > c.most || (l.within == 0) != (c.most == 0) {
			t.Errorf("--wait %s: a try within %s, %v", c.wait, l.within, err)
		}
	}
}

// The error says that the server is not a gateway.
func TestHintsAtTheServer(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"closed": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://example.com/", http.StatusFound)
		},
	} {
		server := httptest.NewServer(handler)
		code, _, stderr := call(t, noEnv, "inspect", pool, "--server", server.URL)
		if code != exitFailed || !strings.Contains(stderr, "; is --server right?") {
			t.Errorf("%s: exit code %d, %s", name, code, stderr)
		}
		server.Close()
	}
}
