package natsembed

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

func TestRoomLack(t *testing.T) {
	const mb = 1 << 20
	for name, c := range map[string]struct {
		room         room
		lacks, still bool // of a store that did not lack room, and of one that did
	}{
		"large disk":                 {room{free: 1 << 40, size: 1 << 41}, false, false},
		"large disk at its reserve":  {room{free: 64 * mb, size: 1 << 40}, false, true},
		"large disk, nearly full":    {room{free: 64*mb - 1, size: 1 << 40}, true, true},
		"large disk, a quarter more": {room{free: 80 * mb, size: 1 << 40}, false, false},
		"medium disk":                {room{free: 10 * mb, size: 160 * mb}, false, true},
		"small disk":                 {room{free: mb, size: 4 * mb}, false, true},
		"small disk, nearly full":    {room{free: mb - 1, size: 4 * mb}, true, true},
		"unknown disk":               {room{free: math.MaxUint64}, false, false},
		"below the limit":            {room{free: 1 << 40, size: 1 << 41, used: 62 * mb, limit: 64 * mb}, false, false},
		"just below the limit":       {room{free: 1 << 40, size: 1 << 41, used: 64*mb - 1, limit: 64 * mb}, false, true},
		"at the limit":               {room{free: 1 << 40, size: 1 << 41, used: 64 * mb, limit: 64 * mb}, true, true},
	} {
		if err := c.room.lack(false); (err != nil) != c.lacks {
			t.Errorf("%s: %v", name, err)
		}
		if err := c.room.lack(true); (err != nil) != c.still {
			t.Errorf("%s, after a lack: %v", name, err)
		}
	}
}

// Above Config.MaxStore the server has no room, and still takes writes.
func TestMaxStore(t *testing.T) {
	srv := startServer(t, Config{DataDir: t.TempDir(), MaxStore: 100 << 10})
	put(t, srv, "one")
	kvslotstest.Must(t, srv.Room())
	js := connect(t, srv)
	for range 2 {
		kvslotstest.Must(t, kvslotstest.Err(js.Publish(t.Context(), "s", make([]byte, 60<<10))))
	}
	wantRoom(t, srv, "for new entries: raise its limit (MaxStore)")
	if _, err := js.Publish(t.Context(), "s", []byte("a return")); err != nil {
		t.Error(err)
	}
}

// wantRoom waits until Room returns nil, or an error with a text.
func wantRoom(t *testing.T, srv *Server, text string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		err := srv.Room()
		switch {
		case err == nil && text == "", err != nil && text != "" && strings.Contains(err.Error(), text):
			return
		case srv.Err() != nil:
			t.Fatal(srv.Err())
		case time.Now().After(deadline):
			t.Fatalf("Room returns %v, want %q", err, text)
		}
		pauseTest(t)
	}
}

func pauseTest(t *testing.T) {
	t.Helper()
	timer := time.NewTimer(10 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
	}
}
