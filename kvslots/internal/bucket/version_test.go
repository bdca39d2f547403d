package bucket

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots/internal/natstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

func TestIsTooOld(t *testing.T) {
	for text, want := range map[string]bool{
		"2.15.2": false, "2.11.0": false, "2.11.0-beta.1": false, "v2.12.1": false, "3.0": false, "10.0.0": false,
		"2.10.29": true, "v2.10.29": true, "2.9.25": true, "2.10.0-preview.2": true, "1.4.1": true,
		"": false, "x.y.z": false, "2.x": false,
	} {
		if got := isTooOld(text); got != want {
			t.Errorf("%q is too old: %v", text, got)
		}
	}
}

// The error names the old server and its version, and sends it no request.
func TestOldServerIsRefused(t *testing.T) {
	nc, err := nats.Connect(oldServer(t, "2.10.29"), nats.NoReconnect())
	natstest.Must(t, err)
	defer nc.Close()
	_, err = Open(t.Context(), nc, Config{Logger: logtest.Logger()})
	if !errors.Is(err, ErrServerTooOld) || !strings.Contains(err.Error(), `"elder" has version 2.10.29`) {
		t.Errorf("got %v", err)
	}
}

// oldServer starts a listener that sends the greeting of a server of that version,
// and nothing else.
func oldServer(t *testing.T, version string) (url string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	natstest.Must(t, err)
	served := make(chan struct{})
	t.Cleanup(func() {
		ln.Close()
		<-served
	})
	go func() {
		defer close(served)
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		fmt.Fprintf(conn, "INFO {\"server_id\":\"x\",\"server_name\":\"elder\",\"version\":%q,\"headers\":true,\"max_payload\":1048576,\"proto\":1}\r\n", version)
		for lines := bufio.NewScanner(conn); lines.Scan(); {
			if lines.Text() == "PING" {
				fmt.Fprint(conn, "PONG\r\n")
			}
		}
	}()
	return "nats://" + ln.Addr().String()
}
