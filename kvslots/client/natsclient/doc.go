// Package natsclient dials gateways over NATS. Its clients are those of package client, with the same methods, errors
// and promises.
//
//	c, err := natsclient.Dial(ctx, "nats://127.0.0.1:4222", client.Config{}, nats.UserCredentials("my.creds"))
package natsclient
