//go:build unix

package dflockdtcp_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// soak reports whether tests run at their full length.
func soak() bool { return os.Getenv("KVSLOTS_SOAK") != "" }

const (
	childAddr = "KVSLOTS_TEST_TCP_ADDR" // makes TestChild a client of this gateway
	childFrom = "KVSLOTS_TEST_TCP_FROM" // its first connection
	childSize = "KVSLOTS_TEST_TCP_SIZE" // its number of connections
)

// TestChild is a process with many connections, each in one of several states, that another
// test kills. Connection i uses the lock i/4, which three of four wait for.
func TestChild(t *testing.T) {
	addr := os.Getenv(childAddr)
	if addr == "" {
		t.Skip("it is for TestKilledClients")
	}
	first, _ := strconv.Atoi(os.Getenv(childFrom))
	size, _ := strconv.Atoi(os.Getenv(childSize))
	var open []net.Conn // which are closed when they are garbage
	for i := first; i < first+size; i++ {
		conn, err := net.Dial("tcp", addr)
		kvslotstest.Must(t, err)
		open = append(open, conn)
		c, key := newClient(conn), strconv.Itoa(i/4)
		switch i % 4 {
		case 0:
			c.take(t, "l", key, "0 3600")
			c.send(t, []string{"", "ping\n_", "sl\ns" + key + "\n60 1\nsl\ns" + key + "\n60 1\n"}[i/4%3])
		case 1:
			c.send(t, "l\n"+key+"\n60 3600\nping\n")
		case 2:
			c.want(t, "e", key, "3600", "queued")
		case 3:
			c.want(t, "e", key, "3600", "queued")
			c.send(t, "w\n"+key+"\n60\n")
		}
	}
	fmt.Println("\nready")
	_, _ = io.Copy(io.Discard, os.Stdin)
	runtime.KeepAlive(open)
}

// Processes that are killed with clients in every state leave nothing: 10,000 connections at
// the full length.
func TestKilledClients(t *testing.T) {
	processes, size := 2, 36
	if soak() {
		processes, size = 4, 2496
	}
	var limit syscall.Rlimit
	kvslotstest.Must(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	size = min(size, int(limit.Cur-min(limit.Cur, 1000))/processes/12*12)
	f := openFixture(t, openStore(t, kvslots.Config{}))
	before := runtime.NumGoroutine()
	var children []*exec.Cmd
	for i := range processes {
		child := exec.Command(os.Args[0], "-test.run=^TestChild$")
		child.Env = append(os.Environ(), childAddr+"="+f.addr, fmt.Sprintf("%s=%d", childFrom, i*size), fmt.Sprintf("%s=%d", childSize, size))
		stdin, err := child.StdinPipe()
		kvslotstest.Must(t, err)
		defer stdin.Close()
		output, err := child.StdoutPipe()
		kvslotstest.Must(t, err)
		kvslotstest.Must(t, child.Start())
		children = append(children, child)
		for lines := bufio.NewScanner(output); ; {
			if !lines.Scan() {
				t.Fatal("a client has failed")
			}
			if lines.Text() == "ready" {
				break
			}
			if strings.Contains(lines.Text(), "FAIL") {
				t.Fatal(lines.Text())
			}
		}
	}
	locks := processes * size / 4
	f.waiting(t, 3*locks+locks/3) // each third holder also waits for a semaphore
	began := time.Now()
	for _, child := range children {
		kvslotstest.Must(t, child.Process.Kill())
	}
	f.nothingHeld(t)
	t.Logf("%d connections were killed, and nothing was held %v later", processes*size, time.Since(began))
	for _, child := range children {
		_ = child.Wait()
	}
	eventually(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() < before+20 })
}

// Clients that do everything at once, and end at any point, leave nothing.
func TestHostileClients(t *testing.T) {
	f := openFixture(t, openStore(t, kvslots.Config{}))
	clients, rounds := 24, 30
	if soak() {
		rounds = 1000
	}
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 1))
			for range rounds {
				conn, err := net.Dial("tcp", f.addr)
				if err != nil {
					t.Error(err)
					return
				}
				c := newClient(conn)
				if i%4 == 0 {
					takeInTurn(t, c, strconv.Itoa(random.IntN(hostileKeys)))
				} else {
					hostile(c, random)
				}
				c.Close()
			}
		})
	}
	all.Wait()
	f.nothingHeld(t)
	if t.Failed() {
		t.Log(f.scrape())
	}
	honest := f.dial(t)
	for i := range hostileKeys {
		honest.take(t, "l", strconv.Itoa(i), "0")
	}
}

// hostileKeys is the number of locks that hostile clients use.
const hostileKeys = 5

// takeInTurn takes a lock that hostile clients take, too, and releases it.
func takeInTurn(t *testing.T, c *client, key string) {
	t.Helper()
	reply := c.do(t, "l", key, "60 30")
	words := strings.Fields(reply)
	if len(words) != 3 {
		t.Errorf("an honest client: %q", reply)
		return
	}
	c.want(t, "r", key, words[1], "ok")
}

// hostile sends requests and rubbish, reads a part of the replies, and ends in some way.
func hostile(c *client, random *rand.Rand) {
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	key := strconv.Itoa(random.IntN(hostileKeys))
	for range random.IntN(6) {
		sent := []string{
			"l\n" + key + "\n" + strconv.Itoa(random.IntN(2)) + " 30\n",
			"e\n" + key + "\n30\n", "w\n" + key + "\n1\n",
			"l\n" + key + "\n60 30\n", "w\n" + key + "\n60\n", "r\n" + key + "\n" + unknownToken + "\n",
			"stats\n\n\n", "ping\n\n\n", "l\n" + key, "\xe2\x82", "\n\n\n", strings.Repeat("\xf0\x9f\x92", 50) + "\n",
			strings.Repeat("ping\n_\n_\n", random.IntN(1000)), strings.Repeat("x", random.IntN(1<<20)),
		}[random.IntN(14)]
		if cut := random.IntN(4); cut == 0 {
			sent = sent[:random.IntN(len(sent)+1)]
		}
		_ = c.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
		if _, err := c.Write([]byte(sent)); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
		if random.IntN(2) == 0 {
			_ = c.SetReadDeadline(time.Now().Add(time.Duration(random.IntN(20)) * time.Millisecond))
			_, _ = c.replies.ReadString('\n')
		}
	}
	switch tcp := c.Conn.(*net.TCPConn); random.IntN(3) {
	case 0:
		_ = tcp.SetLinger(0)
	case 1:
		_ = tcp.CloseWrite()
	}
}
