package settings

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// load loads settings as serve does.
func load(t *testing.T, args []string, env Environment) (*Serve, error) {
	t.Helper()
	command := &cobra.Command{Use: "serve"}
	s := NewServe(command.Flags())
	kvslotstest.Must(t, command.ParseFlags(args))
	return s, Load(command, env, s)
}

func writeFile(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	kvslotstest.Must(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func TestPrecedence(t *testing.T) {
	file := writeFile(t, "kvslots.yaml", "max-ttl: 10\nmax-wait: 10s\nmax-locks: 3\ndata-dir: /from/file\n")
	s, err := load(t,
		[]string{"--max-ttl", "30s"},
		Environment{
			"KVSLOTS_CONFIG":   file,
			"KVSLOTS_MAX_TTL":  "20",
			"KVSLOTS_MAX_WAIT": "20",
			"KVSLOTS_DATA_DIR": "", // an empty variable is ignored
			"KVSLOTS_UNKNOWN":  "x",
		})
	kvslotstest.Must(t, err)
	want := NewServe(&pflag.FlagSet{})
	want.store.MaxTTL = 30 * time.Second // flag
	want.MaxWait = 20 * time.Second      // environment
	want.store.MaxLocks = 3              // file
	want.embedded.DataDir = "/from/file" // file
	if !reflect.DeepEqual(s, want) {
		t.Errorf("got  %+v\nwant %+v", s, want)
	}
}

// A source that sets one flag of a pair overrides lower sources that set the other.
func TestAlternatives(t *testing.T) {
	file := func(content string) []string { return []string{"--config", writeFile(t, "kvslots.yaml", content)} }
	token := writeFile(t, "token", "file's")
	for _, c := range []struct {
		name string
		args []string
		env  map[string]string
		want string // the token; "" means an error
	}{
		{"a flag", []string{"--auth-token", "a"}, nil, "a"},
		{"a variable", nil, map[string]string{"KVSLOTS_AUTH_TOKEN_FILE": token}, "file's"},
		{"flag before environment", []string{"--auth-token-file", token}, map[string]string{"KVSLOTS_AUTH_TOKEN": "b"}, "file's"},
		{"the other way round", []string{"--auth-token", "a"}, map[string]string{"KVSLOTS_AUTH_TOKEN_FILE": token}, "a"},
		{"flag before file", append(file("auth-token: c\n"), "--auth-token-file", token), nil, "file's"},
		{"environment before file", file("auth-token: c\n"), map[string]string{"KVSLOTS_AUTH_TOKEN_FILE": token}, "file's"},
		{"two flags", []string{"--auth-token", "a", "--auth-token-file", token}, nil, ""},
		{"two variables", nil, map[string]string{"KVSLOTS_AUTH_TOKEN": "b", "KVSLOTS_AUTH_TOKEN_FILE": token}, ""},
		{"two keys", file("auth-token: c\nauth-token-file: f\n"), nil, ""},
		{"two keys that do not matter", append(file("auth-token: c\nauth-token-file: f\n"), "--auth-token", "a"), nil, "a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := load(t, c.args, c.env)
			if c.want != "" {
				if err != nil || s.Tokens.Access("Bearer "+c.want) != wire.AccessFull {
					t.Errorf("the token is not %s, %v", c.want, err)
				}
				return
			}
			_, usage := errors.AsType[UsageError](err)
			if !usage || !strings.HasSuffix(err.Error(), "--auth-token and --auth-token-file exclude each other") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestEveryFlagHasATwin(t *testing.T) {
	newFlags := func() *pflag.FlagSet {
		flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
		NewServe(flags)
		return flags
	}
	newFlags().VisitAll(func(flag *pflag.Flag) {
		if flag.Name == configFlag {
			return
		}
		value := flag.DefValue
		if value == "" {
			value = "some text"
		}
		switch flag.Value.Type() {
		case "host:port":
			value = ":0"
		case "loopback:port":
			value = "[::1]:0"
		case "port":
			value = "0"
		case "origins":
			value = "*"
		case "subjects":
			value = "a.b"
		case "listeners":
			value = "http"
		case "nodes":
			value = "a.example:7000"
		case "names":
			value = "a.example"
		case "networks":
			value = "10.0.0.0/8"
		}
		for source, apply := range map[string]func(flags *pflag.FlagSet) error{
			"environment": func(flags *pflag.FlagSet) error {
				return applyEnvironment(flags, Environment{EnvName(flag.Name): value})
			},
			"file": func(flags *pflag.FlagSet) error {
				return applyKey(flags, nil, flag.Name, &yaml.Node{Kind: yaml.ScalarNode, Value: value, Style: yaml.DoubleQuotedStyle})
			},
		} {
			flags := newFlags()
			if err := apply(flags); err != nil || !flags.Changed(flag.Name) {
				t.Errorf("--%s from the %s: changed %v, %v", flag.Name, source, flags.Changed(flag.Name), err)
			}
		}
	})
}

func TestFileFormats(t *testing.T) {
	for name, content := range map[string]string{
		"a.yaml": "sync: interval\nmax-ttl: 90\ndrain-wait: 1h\n",
		"a.yml":  "SYNC: interval\nmax-ttl: \"90\"\ndrain-wait: 1h\n",
		"a.json": `{"sync":"interval","max-ttl":90,"drain-wait":"1h"}`,
	} {
		t.Run(name, func(t *testing.T) {
			s, err := load(t, []string{"--config", writeFile(t, name, content)}, nil)
			kvslotstest.Must(t, err)
			if s.embedded.Sync != "interval" || s.store.MaxTTL != 90*time.Second || s.DrainWait != time.Hour {
				t.Errorf("got %+v", s)
			}
		})
	}
}

func TestBadSources(t *testing.T) {
	for _, c := range []struct {
		name, file, content string
		env                 map[string]string
		want                string
	}{
		{"environment", "", "", map[string]string{"KVSLOTS_SYNC": "never"}, "KVSLOTS_SYNC: must be one of always, interval"},
		{"environment's number", "", "", map[string]string{"KVSLOTS_REPLICAS": "many"}, "KVSLOTS_REPLICAS: must be an integer"},
		{"environment's switch", "", "", map[string]string{"KVSLOTS_PUBLISH_EVENTS": "hunter2"}, "KVSLOTS_PUBLISH_EVENTS: must be true or false"},
		{"line of JSON", "a.json", "{\"sync\": \"always\",\n \"max-ttl\": \"hunter2\"}", nil, "a.json: line 2: max-ttl: must be a duration"},
		{"line of a section", "a.yaml", "sync: always\nHTTP:\n  addr: hunter2\n", nil, `a.yaml: line 3: unknown key "http"`},
		{"value", "a.yaml", "max-ttl: soon\n", nil, "a.yaml: line 1: max-ttl: must be a duration"},
		{"fraction", "a.json", `{"max-ttl":1.5}`, nil, "max-ttl: must be a duration"},
		{"large number", "a.json", `{"max-ttl":1e30}`, nil, "max-ttl: must be"},
		{"list", "a.yaml", "sync: [always]\n", nil, "sync: must be a single value"},
		{"null", "a.yaml", "sync:\n", nil, "sync: must be a single value"},
		{"octal password", "a.yaml", "nats-password: 0123\n", nil, "a.yaml: line 1: nats-password: must be in quotes"},
		{"long number as token", "a.json", `{"auth-token":12345678901234567890}`, nil, "a.json: line 1: auth-token: must be in quotes"},
		{"switch as user", "a.yaml", "nats-user: true\n", nil, "nats-user: must be in quotes"},
		{"unknown key", "a.yaml", "sink: always\n", nil, `unknown key "sink"`},
		{"file in a file", "a.yaml", "config: b.yaml\n", nil, `unknown key "config"`},
		{"help", "a.yaml", "help: true\n", nil, `unknown key "help"`},
		{"not YAML", "a.yaml", "sync: interval\n\nnats-token: hunter2\n- hunter2\n", nil, "a.yaml: syntax error near line 3"},
		{"key twice in YAML", "a.yaml", "nats-token: hunter2\nnats-token: hunter2\n", nil, "a.yaml: syntax error near line 2"},
		{"error in the first line of YAML", "a.yaml", "a: b: hunter2\n", nil, "a.yaml: syntax error"},
		{"not JSON", "a.json", "{\"sync\": \"interval\",\n  hunter2}", nil, "a.json: syntax error in line 2, column 3"},
		{"empty JSON", "a.json", "", nil, "a.json: syntax error in line 1, column 1"},
		{"no object in JSON", "a.json", `["hunter2"]`, nil, "a.json: syntax error"},
		{"other format", "a.ini", "sync=always\n", nil, "must end in .yaml"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var args []string
			if c.file != "" {
				args = []string{"--config", writeFile(t, c.file, c.content)}
			}
			_, err := load(t, args, c.env)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want %q", err, c.want)
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the file is quoted in %q", err)
			}
			if _, usage := errors.AsType[UsageError](err); !usage {
				t.Errorf("%v is no usage error", err)
			}
		})
	}
	if _, err := load(t, []string{"--config", filepath.Join(t.TempDir(), "none.yaml")}, nil); err == nil {
		t.Error("a file that does not exist was accepted")
	}
}
