// Package natsclient dials gateways over NATS. Its clients are those of package client, with the same methods, errors
// and promises; in addition they notice at once that a lease, a session or a lock has ended.
//
//	c, err := natsclient.Dial(ctx, "nats://127.0.0.1:4222", client.Config{}, nats.UserCredentials("my.creds"))
package natsclient
