//go:build !unix

package natstest

// RunAsServer does nothing where there is no Process.
func RunAsServer() {}
