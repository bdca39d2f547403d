package forrst

import (
	"context"
	"slices"
	"time"

	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/kvslots/wire"
)

const (
	healthy   = "healthy"
	unhealthy = "unhealthy"
)

type pingResult struct {
	Status    string `json:"status"`
	Timestamp string `json:"timestamp"`
}

func (s *Server) ping(context.Context, object, *ops.Call) (any, *Error) {
	return pingResult{healthy, wire.Timestamp(time.Now())}, nil
}

type healthResult struct {
	Status     string                 `json:"status"`
	Timestamp  string                 `json:"timestamp"`
	Version    string                 `json:"version,omitempty"`
	Components map[string]healthCheck `json:"components"`
}

type healthCheck struct {
	Status string `json:"status"`
}

// health reports the state of the store and of the connection to NATS. Unlike /ready it
// does not report a drain.
func (s *Server) health(context.Context, object, *ops.Call) (any, *Error) {
	status := healthy
	if s.ops.Owned.Ready() != nil {
		status = unhealthy
	}
	checks := map[string]healthCheck{"store": {status}}
	if s.cfg.NATS != nil {
		checks["functions"] = healthCheck{healthy}
		if !s.cfg.NATS.IsConnected() {
			checks["functions"] = healthCheck{unhealthy}
			status = unhealthy
		}
	}
	return healthResult{status, wire.Timestamp(time.Now()), s.cfg.Version, checks}, nil
}

type capabilitiesResult struct {
	Service          string             `json:"service"`
	ProtocolVersions []string           `json:"protocolVersions"`
	Functions        []string           `json:"functions"`
	Extensions       []extensionVersion `json:"extensions"`
}

type extensionVersion struct {
	URN     string `json:"urn"`
	Version string `json:"version"`
}

// capabilities lists the functions of this process. The server does not know functions
// of other processes before they are called.
func (s *Server) capabilities(context.Context, object, *ops.Call) (any, *Error) {
	names := s.cfg.Functions.names()
	for _, d := range s.enabled() {
		names = append(names, d.Name)
	}
	slices.Sort(names)
	return capabilitiesResult{
		Service: "kvslots", ProtocolVersions: []string{protocolVersion}, Functions: names,
		Extensions: []extensionVersion{{lockURN, lockVersion}},
	}, nil
}

func (s *Server) enabled() []description {
	return slices.DeleteFunc(slices.Clone(descriptions), func(d description) bool {
		return s.cfg.NoForceRelease && d.Name == fnForceRelease
	})
}

type describeResult struct {
	Forrst    string        `json:"forrst"`
	Info      info          `json:"info"`
	Functions []description `json:"functions"`
}

type info struct {
	Title   string `json:"title"`
	Version string `json:"version,omitempty"`
}

func (s *Server) describe(_ context.Context, args object, _ *ops.Call) (any, *Error) {
	all := s.enabled()
	if args.has("function") {
		name, wrong := args.plain("function", maxFunction)
		if wrong != nil {
			return nil, wrong
		}
		all = slices.DeleteFunc(all, func(d description) bool { return d.Name != name })
		if len(all) == 0 {
			return nil, functionNotFound(name)
		}
	}
	return describeResult{protocolVersion, info{"kvslots", s.cfg.Version}, all}, nil
}
