// Package forrst implements a server of the Forrst protocol: POST /rpc receives an
// envelope that names a function, calls the function, and answers with an envelope.
// With the extension urn:forrst:ext:atomicLock the server holds a lock of kvslots while
// the function runs (gateway/README.md, "Forrst: /rpc").
//
// A function is either registered with Handle in this process, or served by a NATS
// service: a call of payments.charge is a request to forrst.fn.payments.charge. The
// functions that manage locks are built in.
//
// The operations on locks are rows of the table in package ops, which also counts them and
// bounds the waits. This package has the envelopes around them, the errors by code, and
// the functions.
//
// A call acquires its lock, calls the function, and releases the lock before it
// answers, even if the function fails. The lock is never renewed. The answer reports
// whether the function has outlived the lock, and the lock's fence lets the protected
// resource refuse a function that has.
//
// Envelopes are read strictly: the server refuses unknown fields and unknown
// extensions. It accepts `context` and does not pass it on. A call ends when the
// function has answered, or after Config.Timeout, but not when its client hangs up. A
// client that hangs up while its call waits for the lock leaves the line.
//
// Begin with server.go, then invoke.go and lock.go: a call from its envelope to its answer.
package forrst
