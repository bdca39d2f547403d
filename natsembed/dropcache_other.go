//go:build !linux

package natsembed

// dropCache does nothing where the kernel cannot be told to forget a file.
func dropCache(string) error { return nil }
