package flush

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// putBack restores each block from its earliest link, the only one that is sure to
// contain every record that was reported as durable.
func TestPutBack(t *testing.T) {
	cases := []struct {
		name  string
		links map[string]string // their content
		block string            // in msgs; "" for none, "=<link>" for the same file
		want  string
	}{
		{"nothing kept", nil, "new", "new"},
		{"the same file", map[string]string{"7.blk.1.11": "old"}, "=7.blk.1.11", "old"},
		{"removed", map[string]string{"7.blk.1.11": "old"}, "", "old"},
		{"rewritten", map[string]string{"7.blk.1.11": "old"}, "new", "old"},
		{"rewritten and linked", map[string]string{"7.blk.1.11": "old", "7.blk.2.12": "new"}, "=7.blk.2.12", "old"},
		{"rewritten twice", map[string]string{"7.blk.9.11": "old", "7.blk.10.12": "longer"}, "new", "old"},
		{"created anew", map[string]string{"7.blk.1.11": "", "7.blk.2.12": "new"}, "=7.blk.2.12", "new"},
		{"created anew and rewritten", map[string]string{"7.blk.1.11": "", "7.blk.2.12": "old", "7.blk.3.13": "new"}, "=7.blk.3.13", "old"},
		{"created anew and not linked", map[string]string{"7.blk.1.11": ""}, "new", "new"},
		{"the old one is still there", map[string]string{"7.blk.1.11": "old", "7.blk.2.12": "new"}, "=7.blk.1.11", "old"},
		{"other files", map[string]string{"7.blk.x.11": "old", "8.key": "key"}, "new", "new"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for _, name := range []string{msgsDir, keepDir} {
				kvslotstest.Must(t, os.Mkdir(filepath.Join(dir, name), 0o700))
			}
			block := filepath.Join(dir, msgsDir, "7.blk")
			for name, content := range c.links {
				write(t, filepath.Join(dir, keepDir, name), content)
			}
			switch {
			case c.block == "":
			case c.block[0] == '=':
				kvslotstest.Must(t, os.Link(filepath.Join(dir, keepDir, c.block[1:]), block))
			default:
				write(t, block, c.block)
			}
			for range 2 { // it may be interrupted, and called again
				kvslotstest.Must(t, putBack(dir, flushFile))
			}
			if got, err := os.ReadFile(block); err != nil || string(got) != c.want {
				t.Errorf("block is %q, %v, want %q", got, err, c.want)
			}
			if links, err := listLinks(dir); err != nil || len(links) > 0 {
				t.Errorf("links %v, %v are left", links, err)
			}
		})
	}
}

// The links of removed blocks are dropped in the order of the blocks' numbers: a power cut
// may come between two of them.
func TestLinksAreDroppedInOrder(t *testing.T) { synctest.Test(t, testLinksAreDroppedInOrder) }

func testLinksAreDroppedInOrder(t *testing.T) {
	names := []string{"9.blk", "10.blk", "11.blk", "100.blk"}
	s := newStream(t, flushFile, names...)
	list := func() (links []link) {
		kvslotstest.Must(t, s.list())
		links, err := listLinks(s.dir)
		kvslotstest.Must(t, err)
		return links
	}
	links := list()
	for _, name := range names {
		kvslotstest.Must(t, os.Remove(filepath.Join(s.path(msgsDir), name)))
	}
	// A directory cannot be removed like a link.
	obstacle := filepath.Join(s.path(keepDir), links[2].String())
	kvslotstest.Must(t, errors.Join(os.Remove(obstacle), os.MkdirAll(filepath.Join(obstacle, "x"), 0o700)))
	list()
	kvslotstest.Must(t, s.drop(reportTime))
	if left := list(); !slices.Equal(left, links) {
		t.Errorf("%v are left at once of %v", left, links)
	}
	time.Sleep(reportTime)
	if err := s.drop(reportTime); err == nil {
		t.Fatal("no error")
	}
	if left := list(); !slices.Equal(left, links[2:]) || left[0].block != "11.blk" {
		t.Errorf("%v are left of %v", left, links)
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	kvslotstest.Must(t, os.WriteFile(path, []byte(content), 0o600))
}

func FuzzParseLink(f *testing.F) {
	f.Add("7.blk.1.11")
	f.Add("7.blk")
	f.Add("7.blk.x.1")
	f.Fuzz(func(t *testing.T, name string) {
		l, ok := parseLink(name)
		if !ok {
			return
		}
		if again, ok := parseLink(l.String()); !ok || again != l || !isBlock(l.block) {
			t.Errorf("%q is read as %v, and that as %v, %v", name, l, again, ok)
		}
	})
}
