// Package natsembed runs a nats-server with JetStream inside the process: it
// configures, starts and stops it, and connects to it without a socket.
//
//	srv, err := natsembed.Start(ctx, natsembed.Config{DataDir: "data"})
//	nc, err := srv.Connect()
//	...
//	nc.Close()
//	err = srv.Close()
//
// The server keeps its data in one directory, which it locks. When Start returns
// without an error, JetStream has recovered all data and accepts requests.
//
// The server has no listener unless Config.Addr is set. Clients of the listener share
// an account without JetStream. A service that answers them connects to that account
// with ConnectService. With Config.Local other processes of the same user connect to the
// account that owns the bucket with Dial.
//
// With SyncGroup the server acknowledges a write before it is on disk, and one flush
// covers the writes of many callers. A caller must not rely on a write before Durable
// of Server.Flusher has called back (internal/flush/README.md, "Mechanism"). When the channel
// Server.Failed is closed, the process should end and start again from the disk.
//
// Begin with Start in server.go, then options.go, and flush.go with internal/flush.
package natsembed
