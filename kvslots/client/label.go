package client

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"unicode"

	"github.com/kvslots/kvslots/kvslots"
)

// DefaultLabel returns a label for what a program holds, or waits for: user@host:pid and the program's name,
// without its arguments, which may contain secrets: every reader of the gateway sees labels.
func DefaultLabel(program string) string {
	who := "?"
	if u, err := user.Current(); err == nil {
		who = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		host = "?"
	}
	label := []rune(fmt.Sprintf("%s@%s:%d %s", who, host, os.Getpid(), filepath.Base(program)))
	for i, r := range label {
		if !unicode.IsPrint(r) || kvslots.IsHidden(r) {
			label[i] = '?'
		}
	}
	return strings.TrimSpace(string(label[:min(len(label), kvslots.MaxLabel)]))
}

var ownLabel = sync.OnceValue(func() string { return DefaultLabel(os.Args[0]) })

func (c *Client) labelOr(label string) string {
	switch {
	case label != "":
		return label
	case c.label != "":
		return c.label
	}
	return ownLabel()
}
