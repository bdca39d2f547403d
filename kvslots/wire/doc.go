// Package wire holds what the doors that speak one language have in
// common, whatever carries it: the bodies of requests and answers, how strictly
// they are read, and the one table from an error to a status and to a text
// that a client may see.
//
// The shapes are those of Library ("Resources", "Borrowing", "Returning",
// "Errors"), with fence and waiting added; and, read strictly, those of
// dflockd's HTTP API for sessions, locks and semaphores. Doors never import each
// other; they import this.
package wire
