// Package bucket runs a peer on a JetStream key-value bucket. It does the peer's I/O: it
// opens the stream, delivers its entries, publishes, and keeps a timer. Package peer makes
// every decision.
//
// The peer lives on the feed: the entries that the stream's leader republishes. A reading, by
// a consumer, loads the bucket. It also catches up when the feed was interrupted, if that is
// short by requests to the stream's leader.
//
// One lock guards the peer, and only the method input takes it. Every event calls
// input, which feeds the peer; then settle carries out the peer's Ready:
//
//	a caller asks or gives up    Begin, abandon
//	the feed delivers            feed.flush
//	a reading delivers           reading.deliver
//	a reading begins or ends     createReading, interrupt
//	the connection changes       connectionChanged
//	answers are durable          flush
//	time has passed              tick
//	the Bucket is closed         Close
//
// No I/O happens under the lock. Writes go into a queue, in the order in which
// the peer decided them, and one goroutine publishes them.
//
// Begin with bucket.go, then call.go, subscription.go, reading.go and sender.go.
package bucket
