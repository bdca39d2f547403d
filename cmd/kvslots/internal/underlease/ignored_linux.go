//go:build linux && (amd64 || arm64) && go1.26 && !go1.27

package underlease

import _ "unsafe" // for go:linkname

// fwdSig is where Go's runtime keeps the handlers that it has found when the process started. It has no interface for
// that: the two variables are one, by their name. A later version of Go may not have it; then ignored_later.go is built.
//
//go:linkname fwdSig runtime.fwdSig
var fwdSig = [65]uintptr{1} // a definition must have content; there is no signal 0
