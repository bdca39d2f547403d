package main

import (
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// Each process of kvslots that a file below deploy runs has valid arguments and settings.
func TestDeployedProcesses(t *testing.T) {
	processes := deployedProcesses(t)
	processes[0].env["KVSLOTS_AUTH_TOKEN_FILE"] = "/token" // without which the image refuses to start
	if len(processes) != 9 {
		t.Errorf("found %d processes", len(processes))
	}
	for _, p := range processes {
		t.Run(p.name, func(t *testing.T) {
			command, args, err := rootCommand(noEnv).Find(p.args)
			if err == nil {
				err = command.ParseFlags(args)
			}
			if err != nil {
				t.Fatalf("kvslots %q: %v", p.args, err)
			}
			if command.Name() == "serve" {
				loadServe(t, args, p.env)
			}
		})
	}
}

// loadServe loads settings of serve, with another file in place of those with secrets.
func loadServe(t *testing.T, args []string, env settings.Environment) *settings.Serve {
	t.Helper()
	env = maps.Clone(env)
	for _, flag := range []string{settings.TokenFileFlag, "nats-creds"} {
		if variable := settings.EnvName(flag); env[variable] != "" {
			env[variable] = writeFile(t, flag, secretToken)
		}
	}
	command := &cobra.Command{Use: "serve"}
	s := settings.NewServe(command.Flags())
	err := command.ParseFlags(args)
	if err == nil {
		err = settings.Load(command, env, s)
	}
	if err != nil {
		t.Error(err)
	}
	return s
}

// notSettings are variables of files below deploy that are no setting of kvslots.
var notSettings = []string{"KVSLOTS_IMAGE"}

// Files below deploy, comments included, name only environment variables that serve or
// ready reads, and each value is for such a variable.
func TestDeployedVariables(t *testing.T) {
	known := map[string]bool{}
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	settings.NewServe(flags)
	flags.AddFlagSet(readyCommand(noEnv).Flags())
	flags.VisitAll(func(flag *pflag.Flag) { known[settings.EnvName(flag.Name)] = true })
	files := 0
	err := filepath.WalkDir("deploy", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		files++
		content, err := os.ReadFile(name)
		for _, variable := range regexp.MustCompile(`KVSLOTS_[A-Z_]*[A-Z]`).FindAllString(string(content), -1) {
			if !known[variable] && !slices.Contains(notSettings, variable) {
				t.Errorf("%s names %s, which kvslots does not read", name, variable)
			}
		}
		for _, flag := range regexp.MustCompile(`(?m)(?:with|or|and|kvslots [a-z-]+|tells) --([a-z-]+)`).FindAllStringSubmatch(string(content), -1) {
			if !known[settings.EnvName(flag[1])] {
				t.Errorf("%s names --%s, which serve does not have", name, flag[1])
			}
		}
		return err
	})
	if err != nil || files < 8 {
		t.Errorf("%d files, %v", files, err)
	}
	for _, p := range deployedProcesses(t) {
		for variable := range p.env {
			if !known[variable] {
				t.Errorf("%s sets %s, which kvslots does not read", p.name, variable)
			}
		}
	}
}

// The three gateways of the compose file share the pools of three servers that have its
// configuration. Servers and gateways have other addresses than there.
func TestComposeCluster(t *testing.T) {
	compose := readCompose(t, "compose/cluster.yaml")
	for name, value := range compose.Services["nats-1"].Environment {
		password := regexp.MustCompile(`\$\{(NATS_PASSWORD|NATS_ROUTE_PASSWORD)[^}]*\}`)
		t.Setenv(name, password.ReplaceAllString(value, "12e4hunter2-$1"))
	}
	configured, err := server.ProcessConfigFile("deploy/compose/nats.conf")
	kvslotstest.Must(t, err)
	if configured.ServerName != "nats-1" || len(configured.Routes) != 3 || !configured.JetStream {
		t.Errorf("%+v", configured)
	}
	servers := url.UserPassword(configured.Cluster.Username, configured.Cluster.Password)
	for _, route := range configured.Routes {
		if servers.String() != "server:12e4hunter2-NATS_ROUTE_PASSWORD" || route.User.String() != servers.String() {
			t.Errorf("%s joins %s as %s", route, servers, route.User)
		}
	}
	cluster := kvslotstest.StartCluster(t, func(o *server.Options) {
		o.Users, o.SyncAlways = configured.Users, configured.SyncAlways
	})
	token := writeFile(t, "auth-token", "sesame\n")
	var gateways []*program
	for service, s := range compose.Services {
		if !strings.HasPrefix(service, "gateway-") {
			continue
		}
		s.Environment["KVSLOTS_AUTH_TOKEN_FILE"] = token
		s.Environment["KVSLOTS_NATS_URL"] = cluster.URL()
		s.Environment["KVSLOTS_NATS_PASSWORD"] = "12e4hunter2-NATS_PASSWORD"
		gateways = append(gateways, startServe(t, s.Environment))
	}
	if len(gateways) != 3 {
		t.Fatalf("%d gateways", len(gateways))
	}
	access := http.Header{"Authorization": {"Bearer sesame"}}
	ask := func(p *program, method, path, body string, code int, answer string) {
		t.Helper()
		if got, _, text := p.askWith(t, access, method, path, body); got != code || !strings.Contains(text, answer) {
			t.Errorf("%s: %d %s, want %d %s", method, got, text, code, answer)
		}
	}
	gateways[0].want(t, "GET", "/l/"+pool, "", 401, "")
	ask(gateways[0], "PUT", "/l/"+pool, `{"count":2}`, 200, `"count":2`)
	ask(gateways[1], "POST", "/l/"+pool+"/borrow", `{"ttl":60}`, 200, `"position":0`)
	ask(gateways[2], "POST", "/l/"+pool+"/borrow", `{"ttl":60}`, 200, `"position":1`)
	ask(gateways[0], "POST", "/l/"+pool+"/borrow", `{"ttl":60}`, 409, "")
	cluster.StreamLeader("KV_kvslots").Stop()
	for _, p := range gateways {
		for answer := ""; !strings.Contains(answer, `"in_use":2`); { // it waits for a leader itself
			_, _, answer = p.askWith(t, access, "GET", "/l/"+pool, "")
		}
	}
}
