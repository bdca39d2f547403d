//go:build unix && !linux

package underlease

import "os"

func adoptOrphans() chan os.Signal { return nil }

func reapOrphans(...int) {}

func isStopped(int) bool { return false }

func descendants() []int { return nil }
