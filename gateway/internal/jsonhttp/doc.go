// Package jsonhttp performs operations over HTTP with JSON: it reads bodies of bounded
// size and time, and writes compact answers, and errors according to the table of package
// wire.
//
// Begin with operation.go, then body.go, answer.go and hangup.go.
package jsonhttp
