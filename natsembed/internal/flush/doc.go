// Package flush flushes the writes of an embedded nats-server in groups: one flush of the disk
// covers the writes of many callers. README.md beside it describes the design.
//
//	dir := flush.NewDir(path, account, nil)
//	err := dir.Recover()                      // no nats-server is running
//	f, err := dir.Start(writeErr, failed, nil)
//	...                                       // start nats-server
//	err = f.Started()
//	...                                       // publish, wait for the acknowledgement
//	f.Durable(func(err error) { ... })        // answer the client
//	...                                       // stop nats-server
//	f.Close()
//	err = dir.MarkClean()
//
// Begin with dir.go and flusher.go.
package flush
