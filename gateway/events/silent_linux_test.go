package events_test

import (
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kvslots/kvslots/gateway/events"
	"github.com/kvslots/kvslots/gateway/internal/gatewaytest"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// A client that does not read is cut as well if its kernel would keep megabytes for it.
func TestSilentReaderWithALargeBuffer(t *testing.T) {
	s := openSites(t, 1, events.Config{WriteTimeout: time.Second})[0]
	dialer := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4<<20) })
	}}
	conn, err := dialer.Dial("tcp", s.Addr)
	kvslotstest.Must(t, err)
	defer conn.Close()
	kvslotstest.Must(t, kvslotstest.Err(fmt.Fprintf(conn, "GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")))
	gatewaytest.Eventually(t, "the stream is open", func() bool { return strings.Contains(scrape(t, s), "kvslots_event_streams 1") })
	pool := register(t, s, 1)
	label := strings.Repeat("\\", kvslots.MaxLabel)
	for pairs := 0; pairs%100 != 0 || !strings.Contains(scrape(t, s), "kvslots_event_streams_cut_total 1"); pairs++ {
		giveBack(t, borrow(t, s, pool, label))
	}
	kept, _ := io.Copy(io.Discard, conn)
	if kept > 2<<20 {
		t.Errorf("the stream had written %d bytes, of which none was read", kept)
	}
}
