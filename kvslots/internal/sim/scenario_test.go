package sim

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// field is a line of a scenario.
type field struct {
	name  string
	value any // pointer to the plan's field
}

// fields returns the lines of a scenario, in order.
func (p *Plan) fields() []field {
	n, d, c, k := &p.Net, &p.Feed, &p.Clients, &p.Caps
	all := []field{
		{"seed", &p.Seed}, {"length", &p.Length}, {"nodes", &p.Nodes}, {"replicas", &p.Replicas}, {"sole", &p.Sole}, {"traps", &p.Traps}, {"clock", &p.Clock}, {"pool-idle", &p.PoolIdle}, {"grace", &p.Grace}, {"outages", &p.Outages},
		{"net.uplink", &n.Uplink}, {"net.ack", &n.Ack}, {"net.feed", &n.Feed}, {"net.spikes", &n.Spikes}, {"net.lag", &n.Lag},
		{"net.lose-write", &n.LoseWrite}, {"net.lose-leave", &n.LoseLeave}, {"net.lose-ack", &n.LoseAck}, {"net.late-ack", &n.LateAck}, {"net.full", &n.Full}, {"net.never", &n.Never}, {"net.unknown", &n.Unknown},
		{"feed.lose", &d.Lose}, {"feed.unpublished", &d.Unpublished}, {"feed.repeated", &d.Repeated}, {"feed.two-answers", &d.TwoAnswers},
		{"feed.buffer", &d.Buffer}, {"feed.behind", &d.Behind},
		{"flush.delay", &p.Flush.Delay}, {"flush.fails", &p.Flush.Fails},
		{"clients.pool", &c.Pool}, {"clients.session", &c.Session}, {"clients.owned", &c.Owned}, {"clients.observers", &c.Observers}, {"clients.pools", &c.Pools},
		{"clients.count", &c.Count}, {"clients.names", &c.Names}, {"clients.owneds", &c.OwnedNames}, {"clients.ttl", &c.TTL},
		{"clients.wait", &c.Wait}, {"clients.idle", &c.Idle}, {"clients.think", &c.Think}, {"clients.administer", &c.Administer},
		{"clients.mismatch", &c.Mismatch}, {"clients.once", &c.Once}, {"clients.fresh", &c.Fresh}, {"clients.at-once", &c.AtOnce}, {"clients.quiet", &c.Quiet}, {"clients.together", &c.Together}, {"clients.keyed", &c.Keyed}, {"clients.operate", &c.Operate},
		{"caps.pools", &k.Pools}, {"caps.pool-waiters", &k.PoolWaiters}, {"caps.locks", &k.Locks}, {"caps.waiters", &k.Waiters}, {"caps.sessions", &k.Sessions}, {"caps.sessions-per-origin", &k.SessionsPerOrigin},
		{"caps.locks-per-session", &k.LocksPerSession}, {"caps.locks-per-origin", &k.LocksPerOrigin}, {"caps.tombstones", &k.Tombstones},
	}
	for f := range p.Faults {
		all = append(all, field{"fault." + fault(f).String(), &p.Faults[f]})
	}
	return all
}

// String returns the plan as a scenario, with a line for each value that is not zero.
// ParsePlan reads it.
func (p *Plan) String() string {
	var b strings.Builder
	for _, f := range p.fields() {
		if text := f.text(); text != "0" && text != "0s" && text != "false" {
			fmt.Fprintf(&b, "%s %s\n", f.name, text)
		}
	}
	return b.String()
}

func (f field) text() string {
	switch v := f.value.(type) {
	case *int:
		return strconv.Itoa(*v)
	case *uint64:
		return strconv.FormatUint(*v, 10)
	case *bool:
		return strconv.FormatBool(*v)
	case *float64:
		return strconv.FormatFloat(*v, 'g', -1, 64)
	case *time.Duration:
		return v.String()
	}
	return ""
}

func (f field) parse(text string) (err error) {
	switch v := f.value.(type) {
	case *int:
		*v, err = strconv.Atoi(text)
	case *uint64:
		*v, err = strconv.ParseUint(text, 10, 64)
	case *bool:
		*v, err = strconv.ParseBool(text)
	case *float64:
		*v, err = strconv.ParseFloat(text, 64)
	case *time.Duration:
		*v, err = time.ParseDuration(text)
	}
	return err
}

// ParsePlan reads a scenario. It ignores empty lines and comments that begin with #.
func ParsePlan(text string) (Plan, error) {
	var p Plan
	known := map[string]field{}
	for _, f := range p.fields() {
		known[f.name] = f
	}
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == "" {
			continue
		}
		f, ok := known[name]
		if !ok {
			return p, fmt.Errorf("scenario: no such field %q", name)
		}
		if err := f.parse(strings.TrimSpace(value)); err != nil {
			return p, fmt.Errorf("scenario: %s: %w", name, err)
		}
	}
	if p.Nodes < 1 || p.Replicas < 1 || p.Length <= 0 {
		return p, fmt.Errorf("scenario: nodes, replicas and length must be given")
	}
	return p, nil
}
