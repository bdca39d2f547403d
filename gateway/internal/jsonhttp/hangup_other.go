//go:build !linux

package jsonhttp

// peerClosed returns false: there is no portable way to ask.
func peerClosed(uintptr) bool { return false }

// receiveWindow returns 0: there is no portable way to ask.
func receiveWindow(uintptr) int { return 0 }
