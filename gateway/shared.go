package gateway

import (
	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// This file names what the transports of a gateway share, for programs: package ops, which
// implements it, is internal.

// ErrDraining is the cause with which the context of a borrow ends when the gateway
// stops lending.
var ErrDraining = wire.ErrDraining

// Lending counts the open borrows of a gateway over all transports, and ends them when
// the gateway drains. All transports of a gateway share it. Lending.Waits.Limit sets the
// limits of requests that wait, before the gateway serves.
type Lending = ops.Lending

// NewLending returns a Lending that is not stopped.
func NewLending() *Lending { return ops.NewLending() }

// Tokens are the bearer tokens that clients may send. All transports of a gateway
// share them. Tokens.Replace replaces them while the gateway serves.
type Tokens = ops.Tokens

// Token is one of Tokens: see Tokens.Replace.
type Token = ops.Token

// NewTokens returns Tokens that accept each of the given tokens. Without any, clients
// need no token.
func NewTokens(tokens ...string) *Tokens { return ops.NewTokens(tokens...) }

// Turns serializes the requests of each session over all transports. All transports of a
// gateway share it.
type Turns = ops.Turns

// NewTurns returns an empty Turns.
func NewTurns() *Turns { return ops.NewTurns() }

// SessionTimes has the fields DefaultLeaseTTL, the lease of a request without a ttl, and
// IdleTimeout, how often clients must ping their sessions; a session ends after twice that
// time without a request. 0 means wire.DefaultLeaseTTL and wire.DefaultIdleTimeout. All
// transports of a gateway must have the same times.
type SessionTimes = ops.SessionTimes

// Limits are exact limits: Total over all transports, and PerIP of one client address, for IPv6
// of one /64. 0 means no limit.
type Limits = ops.Limits
