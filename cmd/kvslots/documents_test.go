package main

import (
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
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

	"golang.org/x/mod/modfile"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// document is a Markdown file of the module. Its name is relative to the module.
type document struct{ name, text string }

// documents returns all Markdown files of the module.
func documents(t *testing.T) []document {
	t.Helper()
	var found []document
	walkModule(t, func(name string) error {
		if path.Ext(name) != ".md" {
			return nil
		}
		found = append(found, document{name, readDocument(t, name)})
		return nil
	})
	if len(found) < 8 {
		t.Fatalf("found only %d documents", len(found))
	}
	return found
}

// walkModule calls visit with the name of each file of the module, relative to it.
func walkModule(t *testing.T, visit func(name string) error) {
	t.Helper()
	err := filepath.WalkDir(moduleRoot, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{".git", "kvslots-data", "bin", "node_modules"}, entry.Name()):
			return fs.SkipDir
		case entry.IsDir():
			return nil
		}
		relative, err := filepath.Rel(moduleRoot, name)
		if err != nil {
			return err
		}
		return visit(filepath.ToSlash(relative))
	})
	kvslotstest.Must(t, err)
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

// headings returns the titles of a document's sections.
func (d document) headings() []string {
	var titles []string
	for _, match := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(d.prose(), -1) {
		titles = append(titles, strings.ReplaceAll(match[1], "`", ""))
	}
	return titles
}

// anchors returns the valid fragments of links to a document.
func (d document) anchors() []string {
	var anchors []string
	for _, title := range d.headings() {
		anchor := anchorOf(title)
		for n := 1; slices.Contains(anchors, anchor); n++ {
			anchor = anchorOf(title) + "-" + strconv.Itoa(n)
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

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// Each link within the module names an existing file and section.
func TestDocumentLinks(t *testing.T) {
	all := map[string]document{}
	for _, d := range documents(t) {
		all[d.name] = d
	}
	for _, d := range all {
		for _, match := range link.FindAllStringSubmatch(d.prose(), -1) {
			target, anchor, anchored := strings.Cut(match[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			name := d.name
			if target != "" {
				name = path.Join(path.Dir(d.name), target)
			}
			if _, err := os.Stat(filepath.Join(moduleRoot, filepath.FromSlash(name))); err != nil {
				t.Errorf("%s links to %s, which is not there", d.name, match[1])
			} else if anchored && !slices.Contains(all[name].anchors(), anchor) {
				t.Errorf("%s links to %s, a section that is not there", d.name, match[1])
			}
		}
	}
}

// citation matches the name and a section of a document in a comment: kvslots/DESIGN.md, "The line".
var citation = regexp.MustCompile(`([\w./-]+\.md), ("[^"]+"(?:(?:,| and|, and) "[^"]+")*)`)

// Each section that a comment cites exists. A comment names a document by its path,
// relative to the directory of the file or to the module.
func TestDocumentCitations(t *testing.T) {
	all := map[string]document{}
	for _, d := range documents(t) {
		all[d.name] = d
	}
	cited := 0
	walkModule(t, func(name string) error {
		if path.Ext(name) != ".go" {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(moduleRoot, name), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, group := range file.Comments {
			text := strings.Join(strings.Fields(group.Text()), " ")
			for _, match := range citation.FindAllStringSubmatch(text, -1) {
				d, ok := all[path.Join(path.Dir(name), match[1])]
				if !ok {
					d, ok = all[match[1]]
				}
				if !ok {
					t.Errorf("%s cites %s, which is not there", name, match[1])
					continue
				}
				for _, section := range regexp.MustCompile(`"([^"]+)"`).FindAllStringSubmatch(match[2], -1) {
					if cited++; !slices.Contains(d.headings(), section[1]) {
						t.Errorf("%s cites %s, %q, a section that is not there", name, d.name, section[1])
					}
				}
			}
		}
		return nil
	})
	if cited == 0 {
		t.Error("found no citation")
	}
}

// The constants in DESIGN.md are those of the code.
func TestDocumentConstants(t *testing.T) {
	rows := regexp.MustCompile("(?m)^\\| `(\\w+)\\.(\\w+)` \\| `([^`]+)` \\|").FindAllStringSubmatch(readDocument(t, "kvslots/DESIGN.md"), -1)
	if len(rows) < 20 {
		t.Fatalf("found only %d constants in the design", len(rows))
	}
	values := map[string]string{}
	for _, file := range sources(t) {
		if !strings.HasPrefix(file.name, "kvslots/internal/") {
			continue
		}
		ast.Inspect(file.tree, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			for i, value := range spec.Values {
				var text strings.Builder
				kvslotstest.Must(t, format.Node(&text, token.NewFileSet(), value))
				values[path.Base(path.Dir(file.name))+"."+spec.Names[i].Name] = text.String()
			}
			return true
		})
	}
	for _, row := range rows {
		if name := row[1] + "." + row[2]; values[name] != row[3] {
			t.Errorf("%s is %q in the design, and %q in the code", name, row[3], values[name])
		}
	}
}

// The chapter "Project structure" for contributors lists each package, and no other path.
func TestDocumentPackages(t *testing.T) {
	const contributing = ".github/CONTRIBUTING.md"
	_, section, _ := strings.Cut(readDocument(t, contributing), "## Project structure\n\n")
	section, _, _ = strings.Cut(section, "\n\n")
	listed := map[string]bool{}
	var top string
	for line := range strings.Lines(section) {
		name := strings.Fields(line)[0]
		if strings.HasPrefix(line, "      ") {
			name = top + "/" + name
		} else {
			top = name
		}
		listed[name] = true
		if _, err := os.Stat(filepath.Join(moduleRoot, name)); err != nil {
			t.Errorf("%s lists %s: %v", contributing, name, err)
		}
	}
	for _, file := range sources(t) {
		if name := path.Dir(file.name); !listed[name] {
			t.Errorf("%s does not list %s", contributing, name)
			listed[name] = true
		}
	}
}

// nested are the modules below the product's.
var nested = []string{"bench/compare", "gateway/codegen", "gateway/observability", "gateway/page/browser"}

// requirements returns the go.mod of a directory as versions by module, and the modules that
// its packages import or run.
func requirements(t *testing.T, dir string) (versions map[string]string, direct []string) {
	t.Helper()
	file, err := modfile.ParseLax("go.mod", []byte(readDocument(t, path.Join(dir, "go.mod"))), nil)
	kvslotstest.Must(t, err)
	versions = map[string]string{}
	for _, r := range file.Require {
		versions[r.Mod.Path] = r.Mod.Version
		if tool := r.Mod.Path == "honnef.co/go/tools"; tool || !r.Indirect { // go.mod lists a tool as indirect
			direct = append(direct, r.Mod.Path)
		}
	}
	return versions, direct
}

// The README and CONTRIBUTING link to the documentation of each direct dependency, and of no other
// module.
func TestDocumentDependencies(t *testing.T) {
	_, section, _ := strings.Cut(readDocument(t, "README.md"), "## Dependencies")
	_, tests, _ := strings.Cut(readDocument(t, ".github/CONTRIBUTING.md"), "## Dependencies")
	section += tests
	needed := map[string]bool{}
	for _, dir := range append([]string{"."}, nested...) {
		_, direct := requirements(t, dir)
		for _, of := range direct {
			needed[of] = of != module
		}
	}
	for of := range needed {
		if needed[of] && !strings.Contains(section, "(https://pkg.go.dev/"+of+")") {
			t.Errorf("the README and CONTRIBUTING do not say what %s is for", of)
		}
	}
	for _, match := range regexp.MustCompile(`\(https://pkg\.go\.dev/([^)]+)\)`).FindAllStringSubmatch(section, -1) {
		if !needed[match[1]] {
			t.Errorf("the README or CONTRIBUTING names %s, which no go.mod requires", match[1])
		}
	}
}

// make tests and checks each nested module. There the product is measured and tested with its
// own dependencies: a module that both require has one version. The product's go.mod replaces
// nothing, so that go install accepts it.
func TestDocumentModules(t *testing.T) {
	var found []string
	walkModule(t, func(name string) error {
		if path.Base(name) == "go.mod" && name != "go.mod" {
			found = append(found, path.Dir(name))
		}
		return nil
	})
	if !slices.Equal(found, nested) {
		t.Errorf("there is a go.mod in %v, want %v", found, nested)
	}
	if want := "\nNESTED    = " + strings.Join(nested, " ") + "\n"; !strings.Contains(readDocument(t, "Makefile"), want) {
		t.Errorf("the Makefile has no line %q", strings.TrimSpace(want))
	}
	product, _ := requirements(t, ".")
	for _, dir := range nested {
		versions, _ := requirements(t, dir)
		for of, version := range versions {
			if own, known := product[of]; known && own != version {
				t.Errorf("%s requires %s %s, and the product %s", dir, of, version, own)
			}
		}
	}
	if strings.Contains(readDocument(t, "go.mod"), "\nreplace") {
		t.Error("the product's go.mod has a replace directive")
	}
}

// The make targets that documents name exist.
func TestDocumentTargets(t *testing.T) {
	makefile := readDocument(t, "Makefile")
	for _, d := range documents(t) {
		for _, match := range regexp.MustCompile("(?m)(?:^    |`)make ([a-z-]+)").FindAllStringSubmatch(d.text, -1) {
			if !strings.Contains(makefile, "\n"+match[1]+":") {
				t.Errorf("%s: the Makefile has no target %s", d.name, match[1])
			}
		}
	}
}
