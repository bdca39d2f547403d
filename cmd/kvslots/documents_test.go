package main

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// document is a Markdown file of the module. Its name is relative to the module.
type document struct{ name, text string }

// documents returns all Markdown files of the module.
func documents(t *testing.T) []document {
	t.Helper()
	var found []document
	for _, name := range moduleFiles(t) {
		if path.Ext(name) == ".md" {
			found = append(found, document{name, readDocument(t, name)})
		}
	}
	if len(found) < 8 {
		t.Fatalf("found only %d documents", len(found))
	}
	return found
}

// moduleFiles returns the names of all files of the module, relative to it.
func moduleFiles(t *testing.T) (names []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(moduleRoot), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case !entry.IsDir():
			names = append(names, name)
		case slices.Contains([]string{".git", "kvslots-data", "bin", "node_modules"}, entry.Name()):
			return fs.SkipDir
		}
		return nil
	})
	kvslotstest.Must(t, err)
	return names
}

func readDocument(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(moduleRoot, filepath.FromSlash(name)))
	kvslotstest.Must(t, err)
	return string(text)
}

var codeBlock = regexp.MustCompile("(?ms)^ *```.*?^ *```$")

// prose returns a document's text without code blocks.
func (d document) prose() string { return codeBlock.ReplaceAllString(d.text, "") }

// anchors returns the valid fragments of links to a document.
func (d document) anchors() []string {
	var anchors []string
	for _, match := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(d.prose(), -1) {
		anchor := anchorOf(match[1])
		for n := 1; slices.Contains(anchors, anchor); n++ {
			anchor = anchorOf(match[1]) + "-" + strconv.Itoa(n)
		}
		anchors = append(anchors, anchor)
	}
	return anchors
}

// anchorOf returns the anchor that GitHub makes for a title.
func anchorOf(title string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			return unicode.ToLower(r)
		}
		return -1
	}, title)
}

var (
	link = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	// citation matches the name and a section of a document in a comment: kvslots/DESIGN.md, "The line".
	citation = regexp.MustCompile(`([\w./-]+\.md), ("[^"]+"(?:(?:,| and|, and) "[^"]+")*)`)
	// wrapped matches the end of a line of a comment that goes on.
	wrapped = regexp.MustCompile(`\n\s*// ?`)
)

// Each link within the module names an existing file and section, as does each comment that cites a
// section. A comment names a document by its path, relative to the directory of the file or to the module.
func TestDocumentLinks(t *testing.T) {
	anchors := map[string][]string{}
	for _, d := range documents(t) {
		anchors[d.name] = d.anchors()
	}
	links, citations := 0, 0
	for _, name := range moduleFiles(t) {
		check := func(target, anchor string) {
			if _, err := os.Stat(filepath.Join(moduleRoot, filepath.FromSlash(target))); err != nil {
				t.Errorf("%s links to %s, which is not there", name, target)
			} else if anchor != "" && !slices.Contains(anchors[target], anchor) {
				t.Errorf("%s links to %s#%s, a section that is not there", name, target, anchor)
			}
		}
		switch path.Ext(name) {
		case ".md":
			d := document{name, readDocument(t, name)}
			for _, match := range link.FindAllStringSubmatch(d.prose(), -1) {
				target, anchor, _ := strings.Cut(match[1], "#")
				if strings.Contains(target, "://") {
					continue
				}
				if links++; target == "" {
					check(name, anchor)
				} else {
					check(path.Join(path.Dir(name), target), anchor)
				}
			}
		case ".go":
			text := wrapped.ReplaceAllString(readDocument(t, name), " ")
			for _, match := range citation.FindAllStringSubmatch(text, -1) {
				target := path.Join(path.Dir(name), match[1])
				if anchors[target] == nil {
					target = match[1]
				}
				for _, section := range regexp.MustCompile(`"([^"]+)"`).FindAllStringSubmatch(match[2], -1) {
					citations++
					check(target, anchorOf(section[1]))
				}
			}
		}
	}
	if links == 0 || citations == 0 {
		t.Errorf("found %d links and %d citations", links, citations)
	}
}
