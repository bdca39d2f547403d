//go:build !unix

package kvslotstest

// RunAsServer does nothing where there is no Process.
func RunAsServer() {}
