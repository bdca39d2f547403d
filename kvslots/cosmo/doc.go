// Package cosmo limits how many jobs with the same key run at once. It is compatible
// with Cosmo::Job::Limit of the Ruby framework Cosmo: Go and Ruby workers share limits
// in the same NATS KV bucket. It needs JetStream, and no gateway.
//
// Begin with limiter.go, then claim.go, held.go and bucket.go.
package cosmo
