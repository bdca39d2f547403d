package library_test

import (
	"io"
	"testing"
)

// A waiter hangs up in the very moment in which its turn comes: whichever is
// first, nothing stays held.
func TestHangUpMeetsGrant(t *testing.T) {
	d := openDoor(t, openStore(t))
	d.register(t, poolA, 1)
	for range 200 {
		held := d.borrow(t, poolA, `{"ttl":30}`)
		conn := d.Dial(t)
		io.WriteString(conn, rawBorrow(poolA, `{"ttl":30,"wait":30}`))
		d.waitFor(t, poolA, `"waiting":1`)
		conn.Close()
		d.want(t, "POST", "/l/"+poolA+"/return", `{"lease":"`+held.Lease.String()+`"}`, 200, `{"returned":true}`)
		d.waitFor(t, poolA, `"in_use":0`)
	}
}
