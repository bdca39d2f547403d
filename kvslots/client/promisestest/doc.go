// Package promisestest checks what all clients promise, with one faulty proxy in front of one gateway: how long a
// call may take, what is repeated, what a canceled call leaves behind, and what a foreign answer is. Check
// drives a small program of a client, a driver, through the cases, and prints a table.
//
// # The protocol of a driver
//
// A driver is started once. Each line of its standard input is a JSON object, a call; it performs the calls
// one after the other, writes a line of JSON for each to its standard output, the outcome, and ends at the
// end of its input. All else goes to standard error. The fields of a call:
//
//	url       the gateway's, such as "http://127.0.0.1:8080", or those of two, separated by a comma; there is no token
//	do        "borrow": borrow a slot of the pool, and return it; "lock": create a session, lock the name,
//	          unlock it, and end the session; both with the client's usual functions, as an application does
//	pool      the UUID of a registered pool, for "borrow"
//	name      the name of the lock, for "lock"
//	ttl       seconds
//	wait      seconds; 0: it does not wait
//	cancel    seconds after which the call is canceled, as the language does that (a context, a task, a signal);
//	          a client that cannot cancel answers with the outcome "unsupported"; 0: it is not
//	hold      whether what is granted is held until it is lost
//	lookup    seconds that each look-up of the host's name takes in this call, which has the address 127.0.0.1;
//	          the driver sees to that; 0: names are looked up as always
//
// Cost drives it with two more calls: "pairs" borrows and returns as often as pairs says, and "raw pairs" does so with the
// HTTP client of the language alone, on one connection: POST /l/POOL/borrow with {"ttl":60,"wait":0}, then
// POST /l/POOL/return with {"lease":…}. The outcome has the processor time of the program in seconds, cpu.
//
// The fields of an outcome:
//
//	outcome   "granted"; "taken": no slot was free in time; "unavailable": no gateway has answered, or one
//	          has refused for now (429, 502, 503, …), which may be repeated; "foreign": the answer is not a
//	          gateway's; "two stores": the gateways have two stores; "canceled"; "lost": what was granted and held; "unsupported"; or the text of another error
//	took      seconds from the beginning of the call until the grant, or until the error; of "lock" with its
//	          session; of what was lost from the grant
//	back      "": nothing was granted; "yes": what was granted was given back, and the session ended, as far as
//	          the client says; or the text of the error
//	back_took seconds that this took
package promisestest
