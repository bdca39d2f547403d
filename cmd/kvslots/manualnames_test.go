package main

import (
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/micro"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
	"github.com/kvslots/kvslots/gateway/openapitest"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// Names of the manuals.
const (
	httpManual    = "gateway/README.md"
	natsManual    = "gateway/natsapi/README.md"
	commandManual = "cmd/kvslots/README.md"
	limiterManual = "kvslots/cosmo/README.md"
	benchManual   = "bench/README.md"
)

// The manual contains every flag of serve, with its default.
func TestDocumentFlags(t *testing.T) {
	manual := readDocument(t, commandManual)
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	settings.DefaultServe().AddFlags(flags)
	flags.VisitAll(func(flag *pflag.Flag) {
		row := regexp.MustCompile("(?m)^\\| (?:`--[a-z-]+`, )*`--" + flag.Name + "`.*$").FindString(manual)
		if row == "" {
			t.Errorf("--%s is not in the table of %s", flag.Name, commandManual)
		} else if flag.DefValue != "" && !strings.Contains(row, "| `"+flag.DefValue+"` |") {
			t.Errorf("%s gives another default of --%s than %s: %s", commandManual, flag.Name, flag.DefValue, row)
		}
	})
}

// The manual of the command line contains every command, and each command's manual its
// flags. No manual names a flag that no command has.
func TestDocumentCommands(t *testing.T) {
	manuals := map[string]string{"limit": readDocument(t, limiterManual), "bench": readDocument(t, benchManual)}
	general := readDocument(t, commandManual)
	known := map[string]bool{}
	var visit func(command *cobra.Command, manual string)
	visit = func(command *cobra.Command, manual string) {
		if command.Hidden {
			return
		}
		if !strings.Contains(general, "`"+command.CommandPath()) && !command.HasSubCommands() {
			t.Errorf("%s is not in %s", command.CommandPath(), commandManual)
		}
		command.Flags().VisitAll(func(flag *pflag.Flag) {
			known[flag.Name] = true
			if !strings.Contains(manual, "`--"+flag.Name+"`") && !strings.Contains(general, "`--"+flag.Name+"`") {
				t.Errorf("--%s of %s is not in its manual", flag.Name, command.CommandPath())
			}
		})
		for _, sub := range command.Commands() {
			of := manual
			if own, ok := manuals[sub.Name()]; ok {
				of = own
			}
			visit(sub, of)
		}
	}
	visit(rootCommand(noEnv), general)
	for _, match := range regexp.MustCompile(`flags\.\w+\((?:&[\w.]+, )?"([a-z-]+)"`).FindAllStringSubmatch(readDocument(t, "bench/compare/main.go"), -1) {
		if known[match[1]] = true; !strings.Contains(manuals["bench"], "`--"+match[1]+"`") {
			t.Errorf("--%s of bench/compare is not in %s", match[1], benchManual)
		}
	}
	for _, d := range documents(t) {
		for _, match := range regexp.MustCompile("`--([a-z-]+)").FindAllStringSubmatch(d.prose(), -1) {
			if !known[match[1]] {
				t.Errorf("%s names --%s, a flag that no command has", d.name, match[1])
			}
		}
	}
}

// operatorPaths are those for which the manual of the gateway writes an ellipsis.
var operatorPaths = regexp.MustCompile(`^(/l/\{id\}|/v1/(pools/\{hash\}|(locks|semaphores)/\{key\}))`)

// The manual of the gateway contains every route, and no document names any other.
func TestDocumentRoutes(t *testing.T) {
	manual := readDocument(t, httpManual)
	operations := openapitest.Operations(t)
	for _, operation := range operations {
		method, route, _ := strings.Cut(operation, " ")
		row := func(route string) string {
			if method == http.MethodHead {
				return "`GET " + route + "`, `HEAD`"
			}
			return "`" + method + " " + route + "`"
		}
		if short := operatorPaths.ReplaceAllString(route, "…"); !strings.Contains(manual, row(route)) && !strings.Contains(manual, row(short)) {
			t.Errorf("%s is not in %s", operation, httpManual)
		}
	}
	for _, d := range documents(t) {
		for _, match := range regexp.MustCompile("`((?:GET|HEAD|PUT|POST|DELETE) /[^` ]*)`").FindAllStringSubmatch(d.prose(), -1) {
			if !slices.Contains(operations, match[1]) {
				t.Errorf("%s names %s, which is not served", d.name, match[1])
			}
		}
	}
}

// The manual contains every error code in the OpenAPI document.
func TestDocumentCodes(t *testing.T) {
	manual := readDocument(t, httpManual)
	var description any
	kvslotstest.Must(t, json.Unmarshal([]byte(readDocument(t, "gateway/openapi.json")), &description))
	codes := codesIn(description, "")
	if len(codes) < 20 {
		t.Fatalf("found only %d codes", len(codes))
	}
	for _, code := range codes {
		if !strings.Contains(manual, "`"+code+"`") {
			t.Errorf("%s is not in %s", code, httpManual)
		}
	}
}

// codesIn returns the possible values of the fields code and error. field is the name of
// the field that node describes.
func codesIn(node any, field string) (codes []string) {
	switch node := node.(type) {
	case map[string]any:
		if values, ok := node["enum"].([]any); ok && (field == "code" || field == "error") {
			for _, value := range values {
				codes = append(codes, value.(string))
			}
		}
		for name, sub := range node {
			codes = append(codes, codesIn(sub, name)...)
		}
	case []any:
		for _, sub := range node {
			codes = append(codes, codesIn(sub, "")...)
		}
	}
	return codes
}

// The manual contains exactly the metrics of kvslots.
func TestDocumentMetrics(t *testing.T) {
	p := startServe(t, noEnv, "--data-dir", t.TempDir(), "--nats-addr", "127.0.0.1:0", "--tcp-addr", "127.0.0.1:0")
	served := ""
	for _, path := range []string{"/none", "/l/none", "/metrics"} { // errors are there once there is one
		resp, err := http.Get(p.url + path)
		kvslotstest.Must(t, err)
		body, err := io.ReadAll(resp.Body)
		if resp.Body.Close(); err != nil {
			t.Fatal(err)
		}
		served = string(body)
	}
	metric := func(pattern, text string) (names []string) {
		for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
			names = append(names, match[1])
		}
		slices.Sort(names)
		return names
	}
	is := metric(`(?m)^# TYPE (kvslots_\w+) `, served)
	said := slices.Compact(metric("`(kvslots_\\w+)`", readDocument(t, httpManual)))
	if len(is) == 0 || !slices.Equal(is, said) {
		t.Errorf("the metrics are %q, and %q in %s", is, said, httpManual)
	}
}

// The manual of natsapi contains exactly the subjects of the service.
func TestDocumentSubjects(t *testing.T) {
	p := startServe(t, noEnv, "--data-dir", t.TempDir(), "--nats-addr", "127.0.0.1:0")
	m, err := connectNATS(t, p.natsURL(t)).RequestWithContext(t.Context(), "$SRV.INFO.kvslots", nil)
	kvslotstest.Must(t, err)
	var info micro.Info
	kvslotstest.Must(t, json.Unmarshal(m.Data, &info))
	manual := readDocument(t, natsManual)
	served := map[string]bool{}
	for _, endpoint := range info.Endpoints {
		if served[endpoint.Subject] = true; !strings.Contains(manual, "`"+endpoint.Subject+"`") {
			t.Errorf("%s is not in %s", endpoint.Subject, natsManual)
		}
	}
	for _, match := range regexp.MustCompile("`(kvslots\\.[a-z.]+[a-z])`").FindAllStringSubmatch(manual, -1) {
		if !served[match[1]] {
			t.Errorf("%s names %s, which is not served", natsManual, match[1])
		}
	}
}
