package natsapi_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"

	"github.com/kvslots/kvslots/gateway/internal/gatewaytest"
	"github.com/kvslots/kvslots/gateway/natsapi"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

// More requests at once than a subscription has room for are all answered, at least those
// whose answers a client can receive.
func TestFloodsAreAnswered(t *testing.T) {
	handle := make(chan struct{})
	wait := sync.OnceFunc(func() { <-handle })
	d := startEmbedded(t, func(c *natsapi.Config) {
		c.Logger = logtest.Logger().Hook(zerolog.HookFunc(func(e *zerolog.Event, _ zerolog.Level, _ string) {
			wait() // the service handles nothing before all requests have arrived
			e.Discard()
		}))
	})
	const flood = 18000
	tooLarge := strings.Repeat("x", 64<<10+1)
	client := dialRaw(t, d.address())
	const every = 100 // how often the client asks for an answer
	requests := "PUB kvslots.inspect _INBOX.me 2\r\n{}\r\n" + strings.Repeat("PUB kvslots.inspect _INBOX.made-up 2\r\n{}\r\n", every-1)
	client.send(t, "PUB kvslots.inspect 65537\r\n"+tooLarge+"\r\n"+strings.Repeat(requests, flood/every)+"PING\r\n")
	if pong := client.line(t); pong != "PONG" {
		t.Fatalf("the server sends %q", pong)
	}
	close(handle)
	for answers := 0; answers < flood/every; {
		if strings.HasPrefix(client.line(t), "HMSG _INBOX.me ") {
			answers++
		}
	}
	gatewaytest.Eventually(t, "all requests are answered", func() bool {
		received, answered, _ := d.statsOf(t, "inspect")
		return received == flood+1 && answered == received
	})
}
