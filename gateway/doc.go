// Package gateway is an HTTP server for pools, locks and semaphores. It mounts the APIs
// that clients use, authenticates clients, limits rates and connections, serves health,
// readiness and metrics, and drains before it stops. gateway/README.md is the manual of
// all routes.
//
// Each API is a Dialect: NewLibrary serves /l, NewDflockd /v1, and package forrst /rpc. The
// dialects are independent of each other. Package natsapi serves the same
// operations over NATS, and shares Lending and Turns with the Gateway.
//
//	lending := gateway.NewLending()
//	gw := gateway.New(gateway.Config{
//		Store: store, Lending: lending,
//		Dialects: []gateway.Dialect{gateway.NewLibrary(store, lending, log)},
//	})
//	go gw.Serve(listener)
//	...
//	err := gw.Drain(ctx)
//
// Begin with Config and New in gateway.go, then serve.go: how a request passes the limits, the tokens
// and the dialects. The operations themselves are in internal/ops.
package gateway
