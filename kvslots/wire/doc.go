// Package wire is what gateways and their clients have to agree on, over HTTP and
// over NATS: the bodies of requests and answers, how strictly they are read, the
// names of headers, and the one table of errors. Package subjects below it has the
// subjects of NATS.
//
// The shapes are those of gateway/README.md, "The Library API: /l" and, read
// strictly, "The dflockd API: /v1".
//
// A gateway makes a Status of an error, with StatusOf or CodeOf. A client makes a
// Refusal of the answer, with NewRefusal, in which errors.Is finds the error again.
package wire
