package natsapi_test

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/gateway/internal/gatewaytest"
	"github.com/kvslots/kvslots/gateway/natsapi"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

// eachLine is called for each line of a log.
type eachLine func()

func (f eachLine) Write(line []byte) (int, error) {
	f()
	return len(line), nil
}

// More requests at once than a subscription has room for are all answered, at least those
// whose answers a client can receive: at once while many are waiting. Others are dropped then.
func TestFloodsAreAnswered(t *testing.T) {
	handle := make(chan struct{})
	var logged atomic.Int64
	refused := 0
	wait := sync.OnceFunc(func() { <-handle })
	d := startEmbedded(t, func(c *natsapi.Config) {
		c.Logger = logtest.LoggerTo(eachLine(func() {
			wait() // the service handles nothing before all requests have arrived
			logged.Add(1)
		}))
	})
	const flood = 18000
	tooLarge := strings.Repeat("x", 64<<10+1)
	client := dialRaw(t, d.address())
	const every = 100 // how often the client asks for an answer
	requests := "PUB kvslots.inspect _INBOX.me 2\r\n{}\r\n" + strings.Repeat("PUB kvslots.inspect _INBOX.made-up 2\r\n{}\r\n", every-1)
	client.send(t, "PUB kvslots.inspect 65537\r\n"+tooLarge+"\r\n"+strings.Repeat(requests, flood/every)+"PING\r\n")
	for client.line(t) != "PONG" { // it may be PING at first
	}
	gatewaytest.Eventually(t, "the gate is closed", func() bool {
		_, err := d.nc.Request("$SRV.PING.kvslots", nil, time.Second)
		return errors.Is(err, nats.ErrTimeout)
	})
	close(handle)
	for answers := 0; answers < flood/every; {
		line := client.line(t)
		if strings.HasPrefix(line, "HMSG _INBOX.me ") {
			answers++
		}
		if strings.HasPrefix(line, "Kvslots-Error: busy") {
			refused++
		}
	}
	gatewaytest.Eventually(t, "all requests are answered", func() bool {
		received, answered, _ := d.statsOf(t, "inspect")
		return received == flood+1 && answered == received
	})
	if refused == 0 || refused == flood/every {
		t.Errorf("%d of %d requests are refused", refused, flood/every)
	}
	if n := logged.Load(); n > flood-4000 { // more than 8,192 are waiting at first
		t.Errorf("%d of %d requests are answered, most of which no client receives", n, flood)
	}
}
