package bucket

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/kvslots/kvslots/kvslots/internal/peer"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

// A caller that recovers must not go on with a peer that has panicked: the process ends,
// and its log says where the panic was.
func TestPanicEndsTheProcess(t *testing.T) {
	if os.Getenv("KVSLOTS_TEST_PANIC") != "" {
		b := &Bucket{log: logtest.LoggerTo(os.Stderr)}
		defer func() {
			_ = recover()
			os.Exit(0)
		}()
		b.WithPeer(func(p *peer.Peer, now peer.Instant) { p.Tick(now) }) // b has no peer
	}
	child := exec.Command(os.Args[0], "-test.run=^TestPanicEndsTheProcess$")
	child.Env = append(os.Environ(), "KVSLOTS_TEST_PANIC=1")
	out, err := child.CombinedOutput()
	if err == nil {
		t.Fatalf("the process went on:\n%s", out)
	}
	for _, want := range []string{`"message":"the process ends`, "nil pointer dereference", "peer.(*Peer).Tick"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}
