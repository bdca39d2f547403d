package gatewaytest

import "github.com/kvslots/kvslots/kvslots/kvslotstest"

// Eventually is kvslotstest.Eventually.
var Eventually = kvslotstest.Eventually
