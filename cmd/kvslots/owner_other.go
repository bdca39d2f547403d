//go:build !unix

package main

import "io/fs"

func isOfAnother(fs.FileInfo) bool { return false }
