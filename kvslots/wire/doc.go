// Package wire defines what gateways and their clients exchange over HTTP and NATS: the
// bodies of requests and answers, the names of headers, and the table of errors. The
// package subjects beside it defines the NATS subjects.
//
// The formats are those of gateway/README.md, "The Library API: /l" and, with strict
// parsing, "The dflockd API: /v1".
//
// A gateway translates an error to a Status with StatusOf or CodeOf. A client
// translates the answer to a Refusal with NewRefusal; errors.Is finds the error in it.
//
// Begin with requests.go and answers.go, which have the parameters and the answers, field.go, by whose table gateways decode
// requests and clients encode them, routes.go, and statuses.go, which has the table of errors.
package wire
