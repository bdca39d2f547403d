package natsembed

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Nodes answer the commands of operators in the account of the bucket, which no client reaches: all on the first subject, and
// one, whose name in hexadecimal digits follows, on each of the others.
const (
	statusSubject   = "kvslots-node.status"
	stepDownSubject = "kvslots-node.step-down."
	removeSubject   = "kvslots-node.remove." // the message is the name of the node to remove

	// statusTime is how long the nodes, and then the leader, are waited for.
	statusTime = time.Second
)

// NodeStatus is a node as an operator sees it.
type NodeStatus struct {
	Name    string   `json:"name"`
	Running bool     `json:"running"` // it has answered; without it only the fields of its copy are known
	Version string   `json:"version,omitempty"`
	Copy    *Copy    `json:"copy,omitempty"` // as the leader sees it; nil while there is no leader
	Missing []string `json:"missing,omitempty"`
	Store   uint64   `json:"store_bytes,omitempty"`
	Free    uint64   `json:"disk_free_bytes,omitempty"`
}

// serveNode answers the commands of operators until the server stops.
func (s *Server) serveNode() error {
	nc, err := s.Connect()
	if err != nil {
		return err
	}
	token := hex.EncodeToString([]byte(s.cfg.Cluster.Self))
	for subject, do := range map[string]func(*nats.Msg) any{
		statusSubject:           func(*nats.Msg) any { return s.status() },
		stepDownSubject + token: func(*nats.Msg) any { return failure(s.stepDownAll()) },
		removeSubject + token:   func(m *nats.Msg) any { return failure(s.removeNode(string(m.Data))) },
	} {
		_, err := nc.Subscribe(subject, func(m *nats.Msg) {
			if body, err := json.Marshal(do(m)); err == nil {
				_ = m.Respond(body)
			}
		})
		if err != nil {
			nc.Close()
			return err
		}
	}
	s.tasks.Go(func() {
		<-s.stopping
		nc.Close()
	})
	return nil
}

type failed struct {
	Error string `json:"error,omitempty"`
}

func failure(err error) failed {
	if err != nil {
		return failed{err.Error()}
	}
	return failed{}
}

func (s *Server) status() any {
	store, free, _, _ := s.Space()
	c := s.cfg.Cluster
	return struct {
		NodeStatus
		Nodes []string `json:"nodes"`
	}{NodeStatus{Name: c.Self, Running: true, Version: c.Version, Missing: s.Missing(), Store: store, Free: free}, c.list()}
}

func (s *Server) stepDownAll() (found error) {
	ctx, cancel := context.WithTimeout(context.Background(), askTime)
	defer cancel()
	names, err := s.dir.Streams()
	for _, name := range names {
		found = errors.Join(found, s.StepDown(ctx, name))
	}
	return errors.Join(err, found)
}

func (s *Server) removeNode(name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), askTime)
	defer cancel()
	return s.Remove(ctx, name)
}

// ClusterStatus returns the status of all nodes, sorted by their names, and of their copies of a stream. nc is a connection of Dial.
func ClusterStatus(ctx context.Context, nc *nats.Conn, stream string) ([]NodeStatus, error) {
	found, err := nodesThatAnswer(ctx, nc)
	if err != nil {
		return nil, err
	}
	asked, cancel := context.WithTimeout(ctx, statusTime)
	defer cancel()
	copies, _ := copiesOf(asked, nc, stream) // without a leader nothing is known of them
	for i := range found {
		if at := slices.IndexFunc(copies, func(c Copy) bool { return c.Name == found[i].Name }); at >= 0 {
			found[i].Copy = &copies[at]
		}
	}
	return found, nil
}

func nodesThatAnswer(ctx context.Context, nc *nats.Conn) (found []NodeStatus, err error) {
	ctx, cancel := context.WithTimeout(ctx, statusTime)
	defer cancel()
	sub, err := nc.SubscribeSync(nc.NewInbox())
	if err != nil {
		return nil, err
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := nc.PublishRequest(statusSubject, sub.Subject, nil); err != nil {
		return nil, err
	}
	var all []string
	for len(all) == 0 || len(found) < len(all) {
		m, err := sub.NextMsgWithContext(ctx)
		if errors.Is(err, nats.ErrNoResponders) {
			return nil, ErrNoCluster
		}
		if err != nil {
			break
		}
		var answer struct {
			NodeStatus
			Nodes []string `json:"nodes"`
		}
		if err := json.Unmarshal(m.Data, &answer); err != nil {
			return nil, fmt.Errorf("a node's answer: %w", err)
		}
		found, all = append(found, answer.NodeStatus), answer.Nodes
	}
	for _, name := range all {
		if !slices.ContainsFunc(found, func(n NodeStatus) bool { return n.Name == name }) {
			found = append(found, NodeStatus{Name: name})
		}
	}
	slices.SortFunc(found, func(a, b NodeStatus) int { return cmp.Compare(a.Name, b.Name) })
	return found, nil
}

// NodeStepDown makes other nodes lead what a node leads; NodeRemove takes a node that does not run out of the cluster.
func NodeStepDown(ctx context.Context, nc *nats.Conn, node string) error {
	return command(ctx, nc, stepDownSubject, node, "")
}

func NodeRemove(ctx context.Context, nc *nats.Conn, by, node string) error {
	return command(ctx, nc, removeSubject, by, node)
}

func command(ctx context.Context, nc *nats.Conn, subject, node, body string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*askTime)
	defer cancel()
	m, err := nc.RequestWithContext(ctx, subject+hex.EncodeToString([]byte(node)), []byte(body))
	if errors.Is(err, nats.ErrNoResponders) {
		return fmt.Errorf("node %s does not run, or is none of the cluster", node)
	}
	if err != nil {
		return err
	}
	var answer failed
	if err := json.Unmarshal(m.Data, &answer); err != nil || answer.Error != "" {
		return cmp.Or(err, errors.New(answer.Error))
	}
	return nil
}

func copiesOf(ctx context.Context, nc *nats.Conn, stream string) ([]Copy, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	found, err := js.Stream(ctx, stream)
	if err != nil {
		return nil, err
	}
	cluster := found.CachedInfo().Cluster
	if cluster == nil || cluster.Leader == "" {
		return nil, errNoLeader
	}
	copies := []Copy{{Name: cluster.Leader, Leader: true, Current: true}}
	for _, r := range cluster.Replicas {
		copies = append(copies, Copy{Name: r.Name, Current: r.Current, Missing: r.Offline, Lag: r.Lag})
	}
	return copies, nil
}
