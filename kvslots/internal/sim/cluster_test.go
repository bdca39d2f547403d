package sim

import (
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// cutOff cuts the server of the first peer off, and lets the second one be connected to
// another. It returns the function that ends the partition.
func (s *script) cutOff(leads, keeps bool) (end func()) {
	v := s.server
	s.nodes[0].link.server, s.nodes[1].link.server = 0, 1
	p := &partition{server: 0, since: v.stream.Info().Last, leads: leads, keeps: keeps, proposed: map[string]bool{}}
	v.partition = p
	if leads {
		v.stream.BeginGap(v.wall())
		s.after(5*time.Second, func() {
			p.deposed = true
			v.stream.EndGap(v.wall())
			v.stream.ChangeLeader(0, true, v.wall())
		})
	}
	over := s.fault()
	return func() {
		s.endPartition(p)
		over()
	}
}

// A peer whose server is cut off from the stream's leader goes to another one within 3 s,
// although its connection does not break.
func TestCutOffPeerGoesToAnotherServer(t *testing.T) {
	for _, keeps := range []bool{false, true} {
		s := newScript(t, 2, replicated)
		pool := s.newPool(1)
		end := s.cutOff(false, keeps)
		asked := s.begin(0, s.borrow(pool, time.Minute, 0))
		took := s.until("another server", 4*time.Second, func() bool { return s.nodes[0].link.server != 0 && s.nodes[0].link.up })
		if took > 3100*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		if a := s.answer(asked); a.Err != nil {
			t.Errorf("the borrow: %v\n%s", a.Err, s.events())
		}
		end()
		s.pass(10 * time.Second)
	}
}

// A write that a cut-off leader has refused is stored when the partition ends. The peer
// neither grants it nor leaves it behind.
func TestRefusedWriteIsStoredLater(t *testing.T) {
	for seed := range 20 {
		s := newScript(t, 2, replicated, seeded(seed), func(p *Plan) { p.Feed.TwoAnswers = 1 })
		pool := s.newPool(2)
		end := s.cutOff(true, true)
		asked := s.begin(0, s.borrow(pool, time.Minute, 0))
		s.pass(7 * time.Second)
		end()
		a := s.answer(asked)
		s.pass(10 * time.Second)
		want := 0
		if a.Err == nil {
			want = 1
		}
		if state := s.must(1, peer.ReadPool{Pool: pool}).Detail.State; state.InUse != want {
			t.Errorf("seed %d: %v, and then %+v\n%s", seed, a.Err, state, s.events())
		}
	}
}
