package main

import (
	"encoding/json"
	"net/http"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/micro"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/mod/modfile"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
	"github.com/kvslots/kvslots/gateway/openapitest"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

const natsManual = "gateway/natsapi/README.md"

// names are those of one kind. The value of a name is what a manual has of it, as a regular
// expression, or empty if it need not be mentioned.
type names map[string]string

// TestDocumentTables compares what documents list with what there is, both ways.
func TestDocumentTables(t *testing.T) {
	var prose, texts strings.Builder
	for _, d := range documents(t) {
		prose.WriteString(d.prose())
		texts.WriteString(d.text)
	}
	gateway, nats, contributing := readDocument(t, "gateway/README.md"), readDocument(t, natsManual), readDocument(t, ".github/CONTRIBUTING.md")
	commands := readDocument(t, "cmd/kvslots/README.md") + readDocument(t, "kvslots/cosmo/README.md") + readDocument(t, "bench/README.md")
	structure, needs := structureIn(contributing), readDocument(t, "README.md")+contributing
	metrics, subjects := metricsAndSubjects(t)
	for _, kind := range []struct {
		of     string
		are    names
		manual string // has all of them
		in     string // has no other
		listed string // matches one there
	}{
		{"commands", commandNames(), commands, "", ""},
		{"flags", flagNames(t), commands, prose.String(), "`--([a-z-]+)"},
		{"routes", routes(t), gateway, prose.String(), "`((?:GET|HEAD|PUT|POST|DELETE) /[^` ]*)`"},
		{"error codes", errorCodes(t), gateway, "", ""},
		{"metrics", metrics, gateway, gateway, "`(kvslots_\\w+)`"},
		{"subjects", subjects, nats, nats, "`(kvslots\\.[a-z.]+[a-z])`"},
		{"packages", packages(t), structure, structure, `(?m)^(.*)$`},
		{"dependencies", dependencies(t), needs, needs, `\(https://pkg\.go\.dev/([^)]+)\)`},
		{"make targets", targets(t), "", texts.String(), "(?m)(?:^    |`)make ([a-z-]+)"},
	} {
		t.Run(kind.of, func(t *testing.T) {
			for name, row := range kind.are {
				if !regexp.MustCompile("(?m)" + row).MatchString(kind.manual) {
					t.Errorf("%s is not in its manual; want %s", name, row)
				}
			}
			if kind.listed == "" {
				return
			}
			found := regexp.MustCompile(kind.listed).FindAllStringSubmatch(kind.in, -1)
			for _, match := range found {
				if _, ok := kind.are[match[1]]; !ok {
					t.Errorf("documents list %s, which is not there", match[1])
				}
			}
			if len(found) < 5 || len(kind.are) < 5 {
				t.Errorf("found only %d of %d", len(found), len(kind.are))
			}
		})
	}
}

func quoted(name string) string { return "`" + regexp.QuoteMeta(name) + "`" }

// visitCommands calls visit with each command that help shows.
func visitCommands(visit func(*cobra.Command)) {
	var below func(*cobra.Command)
	below = func(command *cobra.Command) {
		if command.Hidden {
			return
		}
		visit(command)
		for _, sub := range command.Commands() {
			below(sub)
		}
	}
	below(rootCommand(noEnv))
}

func commandNames() names {
	are := names{}
	visitCommands(func(command *cobra.Command) {
		if !command.HasSubCommands() {
			are[command.CommandPath()] = "`" + command.CommandPath()
		}
	})
	return are
}

// flagNames returns the flags of all commands and of bench/compare. Those of serve are in a table, with
// their defaults in brackets.
func flagNames(t *testing.T) names {
	t.Helper()
	are := names{}
	visitCommands(func(command *cobra.Command) {
		command.Flags().VisitAll(func(flag *pflag.Flag) { are[flag.Name] = quoted("--" + flag.Name) })
	})
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	settings.NewServe(flags)
	flags.VisitAll(func(flag *pflag.Flag) {
		if flag.DefValue != "" {
			are[flag.Name] += ` \(` + quoted(flag.DefValue)
		}
	})
	for _, match := range regexp.MustCompile(`flags\.\w+\((?:&[\w.]+, )?"([a-z-]+)"`).FindAllStringSubmatch(readDocument(t, "bench/compare/main.go"), -1) {
		are[match[1]] = quoted("--" + match[1])
	}
	return are
}

// operatorPaths are those for which the manual of the gateway writes an ellipsis.
var operatorPaths = regexp.MustCompile(`^(/l/\{id\}|/v1/(pools/\{hash\}|(locks|semaphores)/\{key\}))`)

func routes(t *testing.T) names {
	t.Helper()
	are := names{}
	for _, operation := range openapitest.Operations(t) {
		method, route, _ := strings.Cut(operation, " ")
		before, after := "`"+method+" ", "`"
		if method == http.MethodHead {
			before, after = "`GET ", "`, `HEAD`"
		}
		are[operation] = before + "(" + regexp.QuoteMeta(route) + "|" + regexp.QuoteMeta(operatorPaths.ReplaceAllString(route, "…")) + ")" + after
	}
	return are
}

// errorCodes returns the possible values of the fields code and error in the OpenAPI document.
func errorCodes(t *testing.T) names {
	t.Helper()
	var description any
	kvslotstest.Must(t, json.Unmarshal([]byte(readDocument(t, "gateway/openapi.json")), &description))
	are := names{}
	var below func(node any, field string)
	below = func(node any, field string) {
		switch node := node.(type) {
		case map[string]any:
			if values, ok := node["enum"].([]any); ok && (field == "code" || field == "error") {
				for _, value := range values {
					are[value.(string)] = quoted(value.(string))
				}
			}
			for name, sub := range node {
				below(sub, name)
			}
		case []any:
			for _, sub := range node {
				below(sub, "")
			}
		}
	}
	below(description, "")
	return are
}

// metricsAndSubjects are those of a gateway with all listeners.
func metricsAndSubjects(t *testing.T) (metrics, subjects names) {
	t.Helper()
	p := startServe(t, noEnv, "--data-dir", t.TempDir(), "--nats-addr", "127.0.0.1:0", "--tcp-addr", "127.0.0.1:0")
	p.ask(t, http.MethodGet, "/none", "") // errors are there once there is one
	p.ask(t, http.MethodGet, "/l/none", "")
	_, served := p.ask(t, http.MethodGet, "/metrics", "")
	metrics, subjects = names{}, names{}
	for _, match := range regexp.MustCompile(`(?m)^# TYPE (kvslots_\w+) `).FindAllStringSubmatch(served, -1) {
		metrics[match[1]] = quoted(match[1])
	}
	m, err := connectNATS(t, p.natsURL(t)).RequestWithContext(t.Context(), "$SRV.INFO.kvslots", nil)
	kvslotstest.Must(t, err)
	var info micro.Info
	kvslotstest.Must(t, json.Unmarshal(m.Data, &info))
	for _, endpoint := range info.Endpoints {
		subjects[endpoint.Subject] = quoted(endpoint.Subject)
	}
	return metrics, subjects
}

// structureIn returns what the chapter "Project structure" for contributors lists, one path a line.
func structureIn(contributing string) string {
	_, section, _ := strings.Cut(contributing, "## Project structure\n\n")
	section, _, _ = strings.Cut(section, "\n\n")
	var paths []string
	var top string
	for line := range strings.Lines(section) {
		name := strings.Fields(line)[0]
		if strings.HasPrefix(line, "      ") {
			name = top + "/" + name
		} else {
			top = name
		}
		paths = append(paths, name)
	}
	return strings.Join(paths, "\n")
}

// packages returns all files and directories, of which those with a package have to be listed.
func packages(t *testing.T) names {
	t.Helper()
	are := names{}
	for _, name := range moduleFiles(t) {
		are[name], are[path.Dir(name)] = "", ""
	}
	for _, file := range sources(t) {
		dir := path.Dir(file.name)
		are[dir] = "^" + regexp.QuoteMeta(dir) + "$"
	}
	return are
}

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

// dependencies returns the modules that some go.mod requires directly, and the packages of this one.
func dependencies(t *testing.T) names {
	t.Helper()
	are := names{}
	for name := range packages(t) {
		are[module+"/"+name] = ""
	}
	for _, dir := range append([]string{"."}, nested...) {
		_, direct := requirements(t, dir)
		for _, of := range direct {
			are[of] = regexp.QuoteMeta("(https://pkg.go.dev/" + of + ")")
		}
	}
	are[module] = ""
	return are
}

func targets(t *testing.T) names {
	t.Helper()
	are := names{}
	for _, match := range regexp.MustCompile(`(?m)^([a-z-]+):`).FindAllStringSubmatch(readDocument(t, "Makefile"), -1) {
		are[match[1]] = ""
	}
	return are
}
