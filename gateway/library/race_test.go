package library_test

import (
	"io"
	"testing"
)

// If a waiter hangs up at the moment of its turn, nothing stays held, whichever comes
// first.
func TestHangUpMeetsGrant(t *testing.T) {
	d := openFixture(t, openStore(t))
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
