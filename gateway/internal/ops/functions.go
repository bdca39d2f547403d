package ops

import (
	"context"

	"github.com/kvslots/kvslots/kvslots/wire"
)

// Functions answers calls of functions. A *forrst.Server implements it. Its answers are whole
// envelopes, also those with errors: the Text of a Reply is the code of the first error, and
// it has no Name.
type Functions interface {
	// Call answers an envelope. ctx ends when the client gives up, which ends the wait for the
	// lock. The function runs under detached, which outlives the client.
	Call(ctx, detached context.Context, call *Call) *Reply

	// Refuse answers a request that a transport refuses.
	Refuse(err error) *Reply
}

// CallFunction calls a function (gateway/README.md, "Forrst: /rpc"). Its end while the client
// waits for the lock does not end a function that has been called.
var CallFunction = &Operation{Route: wire.CallFunction, endsWithClient: true, perform: callFunction}

func callFunction(ctx context.Context, s *Service, call *Call) error {
	call.Answer = s.Functions.Call(ctx, call.detached, call)
	return nil
}
