// Package entry encodes and decodes the messages of the bucket: keys, values and
// headers. It does no I/O. A value that cannot be decoded makes its Entry corrupt; no
// input causes a panic.
//
// Begin with entry.go, then key.go, value.go, codec.go and message.go.
package entry
