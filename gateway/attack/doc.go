// Package attack tests what one client, a crowd of clients or a web page can reach, with a whole
// gateway: what they send, and beside it another client that must be served.
package attack
