//go:build !unix

package natsembed

func checkOwner(string) error { return nil }
