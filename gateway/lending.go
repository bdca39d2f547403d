package gateway

import (
	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// ErrDraining is the cause of the end of a borrow's context when the gateway
// stops lending.
var ErrDraining = wire.ErrDraining

// Lending is the lending of slots over every transport of a gateway. It counts the
// borrows that are open, and ends them when the gateway drains.
type Lending = ops.Lending

// NewLending lends until Stop.
func NewLending() *Lending { return ops.NewLending() }

// Tokens are the bearer tokens that clients may send. All transports of a gateway
// share them.
type Tokens = ops.Tokens

// NewTokens returns Tokens that accept each of these tokens; without any, they ask for
// none.
func NewTokens(tokens ...string) *Tokens { return ops.NewTokens(tokens...) }

// Turns serves the requests of each session one after the other, whichever transport
// they come over. All transports of a gateway share it.
type Turns = ops.Turns

// NewTurns returns Turns without a session.
func NewTurns() *Turns { return ops.NewTurns() }
