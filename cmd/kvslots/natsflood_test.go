package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// A client at --nats-addr is served beside a flood from another address. The figures are those of
// gateway/natsapi/FLOODS.md, "What a flood costs others".
func TestFloodOverNATSSoak(t *testing.T) {
	soak(t)
	p := startBinary(t, buildBinary(t), "--data-dir", t.TempDir(), "--nats-addr", "127.0.0.1:0")
	p.want(t, "PUT", "/l/"+pool, `{"count":1}`, 200, "")
	addr := strings.TrimPrefix(p.natsURL(t), "nats://")
	nc := connectNATS(t, p.natsURL(t))
	t.Logf("quiet: %s", measuredOverNATS(t, addr))
	for _, kind := range []string{"1 inspect", "50 inspect", "50 borrow"} {
		t.Run(kind, func(t *testing.T) {
			process := newLoad(t, "natsflood", kind, addr)
			stdin, err := process.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			var sent strings.Builder
			process.Stdout = &sent
			startProcess(t, process)
			got := measuredOverNATS(t, addr)
			stdin.Close()
			if err := process.Wait(); err != nil {
				t.Fatal(err)
			}
			t.Logf("beside the flood: %s; the flood: %s", got, sent.String())
			kvslotstest.Eventually(t, "a client is served after the flood", func() bool {
				m, err := nc.Request("kvslots.inspect", []byte(`{"id":"`+pool+`"}`), 5*time.Second)
				return err == nil && m.Header.Get(wire.ErrorHeader) == ""
			})
		})
	}
}

// natsOutcome is what a client got for its requests.
type natsOutcome struct {
	Served, Busy, NoResponders, Lost int // lost: no answer within 5 s
	Took                             []time.Duration
}

func (o natsOutcome) String() string {
	slices.Sort(o.Took)
	if len(o.Took) == 0 {
		o.Took = []time.Duration{0}
	}
	return fmt.Sprintf("%d served, %d busy, %d no responders, %d lost; answered within %s (median), %s (p99)",
		o.Served, o.Busy, o.NoResponders, o.Lost, o.Took[len(o.Took)/2].Round(time.Microsecond), p99(o.Took))
}

func measuredOverNATS(t *testing.T, addr string) (got natsOutcome) {
	t.Helper()
	out, err := newLoad(t, "natsmeasure", "inspections", addr).Output()
	if err == nil {
		err = json.Unmarshal(out, &got)
	}
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// natsMeasure inspects a pool ten times a second, for 15 s.
func natsMeasure(_, addr string) {
	nc, err := nats.Connect("nats://"+addr, nats.MaxReconnects(-1))
	if err != nil {
		panic(err)
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	var got natsOutcome
	for pace, n := time.NewTicker(100*time.Millisecond), 0; n < 150; n++ {
		<-pace.C
		all.Go(func() {
			began := time.Now()
			m, err := nc.Request("kvslots.inspect", []byte(`{"id":"`+pool+`"}`), 5*time.Second)
			took := time.Since(began)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case errors.Is(err, nats.ErrNoResponders):
				got.NoResponders++
				return
			case err != nil:
				got.Lost++
				return
			case m.Header.Get(wire.ErrorHeader) != "":
				got.Busy++
			default:
				got.Served++
			}
			got.Took = append(got.Took, took)
		})
	}
	all.Wait()
	_ = json.NewEncoder(os.Stdout).Encode(got)
}

// natsFlood sends requests as fast as it can over a number of connections from an address of its
// own, until standard input ends. It connects again when it is disconnected.
func natsFlood(kind, addr string) {
	var connections int
	var op string
	if _, err := fmt.Sscan(kind, &connections, &op); err != nil {
		panic(err)
	}
	var sent, connected atomic.Int64
	for i := range connections {
		go func() {
			for n := 0; ; {
				conn, err := natsFlooder(addr)
				if err != nil {
					time.Sleep(10 * time.Millisecond)
					continue
				}
				connected.Add(1)
				for err == nil {
					var text string
					text, n = natsRequests(op, i, n)
					_, err = io.WriteString(conn, text)
					sent.Add(1000)
				}
				conn.Close()
			}
		}()
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	fmt.Printf("%d requests, %d connections", sent.Load(), connected.Load())
}

func natsFlooder(addr string) (net.Conn, error) {
	from := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	conn, err := from.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	go func() { _, _ = io.Copy(io.Discard, conn) }()
	_, err = io.WriteString(conn, "CONNECT {\"verbose\":false,\"headers\":true,\"no_responders\":true}\r\nSUB _INBOX.x 1\r\n")
	return conn, err
}

// natsRequests returns 1,000 requests: inspections whose answers the client receives, or borrows
// that wait, each with a made-up inbox.
func natsRequests(op string, connection, n int) (text string, next int) {
	if op == "inspect" {
		body := `{"id":"` + pool + `"}`
		return strings.Repeat(fmt.Sprintf("PUB kvslots.inspect _INBOX.x %d\r\n%s\r\n", len(body), body), 1000), n
	}
	var all strings.Builder
	id := uuid.New()
	body := fmt.Sprintf(`{"id":"%s","ttl":600,"wait":600}`, id)
	register := fmt.Sprintf(`{"id":"%s","count":0}`, id)
	fmt.Fprintf(&all, "PUB kvslots.register %d\r\n%s\r\n", len(register), register)
	for range 999 {
		fmt.Fprintf(&all, "PUB kvslots.borrow _INBOX.made-up-%d.%d %d\r\n%s\r\n", connection, n, len(body), body)
		n++
	}
	return all.String(), n
}
