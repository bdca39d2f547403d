package natsembed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	stepDownStream = "$JS.API.STREAM.LEADER.STEPDOWN."
	stepDownMeta   = "$JS.API.META.LEADER.STEPDOWN"
	removeServer   = "$JS.API.SERVER.REMOVE"
)

// askTime bounds how long JetStream may take to answer.
const askTime = 5 * time.Second

// handOverTime bounds how long a node that stops waits for another leader.
const handOverTime = 2 * time.Second

var errNoLeader = errors.New("the copies have no leader")

// ErrNoCluster is returned where only a node can do what is asked.
var ErrNoCluster = errors.New("this gateway is no node of a cluster: see --cluster")

// Copy is a node's copy of a stream, as the stream's leader sees it.
type Copy struct {
	Name    string `json:"name"`
	Leader  bool   `json:"leader"`
	Current bool   `json:"current"` // has all entries, or is about to
	Missing bool   `json:"missing"` // not connected with the leader
	Lag     uint64 `json:"lag"`     // entries
}

// behindChecks is for how many checks in a row, one a second, a copy must be behind: nats-server says so now and then of a
// copy that has everything.
const behindChecks = 10

// IsCurrent reports whether this node's copies have all entries that their leaders have told it of, or had so within the last
// 10 s. Without a cluster it is true.
func (s *Server) IsCurrent() bool { return s.routes == nil || s.behind.Load() < behindChecks }

// measureCopies looks whether this node's copies are behind.
func (s *Server) measureCopies() {
	if s.routes == nil {
		return
	}
	names, err := s.dir.Streams()
	current := err == nil && len(names) > 0
	for _, name := range names {
		current = current && s.nats().JetStreamIsStreamCurrent(bucketAccount, name)
	}
	if current {
		s.behind.Store(0)
	} else if n := s.behind.Load(); n < behindChecks {
		s.behind.Store(n + 1)
	}
}

// StepDown makes another node the leader of a stream if this one is, and of the cluster. It is for a node that is about to
// stop: without it the others need 4 to 9 s to elect one.
func (s *Server) StepDown(ctx context.Context, stream string) error {
	if s.routes == nil {
		return ErrNoCluster
	}
	var found error
	if s.nats().JetStreamIsStreamLeader(bucketAccount, stream) {
		found = errors.Join(found, s.ask(ctx, s.keys.bucket, stepDownStream+stream, nil))
	}
	if s.nats().JetStreamIsLeader() {
		found = errors.Join(found, s.ask(ctx, s.keys.system, stepDownMeta, nil))
	}
	return found
}

// handOver makes another node the leader of what this one leads, if there is one.
func (s *Server) handOver() {
	ctx, cancel := context.WithTimeout(context.Background(), handOverTime)
	defer cancel()
	names, _ := s.dir.Streams()
	for _, name := range names {
		if err := s.StepDown(ctx, name); err != nil {
			s.cfg.Logger.Debug("no other node leads now", "error", err)
		}
	}
}

// Remove takes a node out of the cluster that will not come back: until then a majority of all is needed. The node must not run.
func (s *Server) Remove(ctx context.Context, name string) error {
	switch {
	case s.routes == nil:
		return ErrNoCluster
	case slices.Contains(append(s.connected(), s.cfg.Cluster.Self), name):
		return fmt.Errorf("node %s runs: stop it first", name)
	}
	return s.ask(ctx, s.keys.system, removeServer, map[string]string{"peer": name})
}

// ask sends a request to JetStream's API.
func (s *Server) ask(ctx context.Context, as nkey, subject string, request any) error {
	nc, err := s.connect(as, nil)
	if err != nil {
		return err
	}
	defer nc.Close()
	var body []byte
	if request != nil {
		if body, err = json.Marshal(request); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	answer, err := nc.RequestWithContext(ctx, subject, body)
	if err != nil {
		return fmt.Errorf("%s: %w", strings.TrimPrefix(subject, "$JS.API."), err)
	}
	return apiError(answer)
}

func apiError(m *nats.Msg) error {
	var answer struct {
		Error *struct {
			Description string `json:"description"`
		} `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil {
		return err
	}
	if answer.Error != nil {
		return errors.New(answer.Error.Description)
	}
	return nil
}
