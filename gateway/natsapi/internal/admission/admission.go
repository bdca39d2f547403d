// Package admission decides which requests over NATS are served while clients send more than
// the gateway can handle. A client that floods it must not take the place of others:
//
//   - A Room bounds the open requests, in all and of each client.
//   - Connections finds the client that a request is from.
//   - A Gate leaves what cannot be handled yet with the server, which disconnects the flood.
//
// gateway/natsapi/FLOODS.md, "What each part answers", says what fails without each of them.
package admission
