package main

import (
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
)

const (
	restartRounds     = 3
	restartRoundsSoak = 50

	// grantsPerRound is the number of grants before each restart.
	grantsPerRound = 200
)

// A gateway with an embedded NATS server is restarted under load. While it drains,
// clients meet no error but 503 with Retry-After. From the closing of its listeners until
// it listens again, connections are refused or lost: the kernel resets those over HTTP that
// it has not handed over when the listener closes. Every lease that was granted stays its
// client's.
func TestRestart(t *testing.T) { testRestart(t, restartRounds) }

func TestRestartSoak(t *testing.T) {
	soak(t)
	testRestart(t, restartRoundsSoak)
}

func testRestart(t *testing.T, rounds int) {
	dir, http, nats := t.TempDir(), closedPort(t), closedPort(t)
	start := func() *gatewayProcess {
		return startGateway(t, "--data-dir", dir, "--http-addr", http, "--nats-addr", nats, "--drain-wait", "500ms")
	}
	p := start()
	b := newBorrowers(t, p.program, p.natsURL(t), p.url)
	for range rounds {
		b.awaitGrants(t, grantsPerRound)
		b.setDown(true)
		p.drain(t)
		p = start()
		b.connected(t)
		b.setDown(false)
		b.wantRenewed(t)
	}
	b.finish(t, p.program)
	p.drain(t)
}

// Two gateways on one NATS are restarted in turn under load. Clients over HTTP use those
// whose /ready is 200, as behind a load balancer, and a gateway listens until the balancer
// has noticed that it drains. No client meets an error but 503 with Retry-After.
func TestRestartOfOneOfTwo(t *testing.T) { testRestartOfOneOfTwo(t, restartRounds) }

func TestRestartOfOneOfTwoSoak(t *testing.T) {
	soak(t)
	testRestartOfOneOfTwo(t, restartRoundsSoak)
}

func testRestartOfOneOfTwo(t *testing.T, rounds int) {
	_, natsURL := runNATS(t, server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir()})
	start := func(http string) *gatewayProcess {
		return startGateway(t, "--nats-url", natsURL, "--http-addr", http, "--drain-wait", "1m")
	}
	gateways := []*gatewayProcess{start(closedPort(t)), start(closedPort(t))}
	b := newBorrowers(t, gateways[0].program, natsURL, gateways[0].url, gateways[1].url)
	for round := range rounds {
		b.awaitGrants(t, grantsPerRound)
		p := gateways[round%2]
		p.drainUntil(t, func() { b.balancer.withdraw(t, b.balancer.gateways[round%2]) })
		gateways[round%2] = start(strings.TrimPrefix(p.url, "http://"))
		b.connected(t)
		b.wantRenewed(t)
	}
	b.finish(t, gateways[0].program)
	for _, p := range gateways {
		p.drainUntil(t, func() {})
	}
}
