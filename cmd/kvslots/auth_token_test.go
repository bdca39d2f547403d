package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
)

const secretToken = "hunter2/+=~and-more"

// The token comes from a flag, a variable or a file, and no output contains it.
func TestTokenSources(t *testing.T) {
	file := func(content string) string { return writeFile(t, "token", content) }
	missing := filepath.Join(t.TempDir(), "none")
	for _, c := range []struct {
		name  string
		args  []string
		env   map[string]string
		stdin string
		code  int
		want  string // in the error, or else the token that the gateway received
	}{
		{"none", nil, nil, "", 0, ""},
		{"flag", []string{"--auth-token", secretToken}, nil, "", 0, secretToken},
		{"variable", nil, map[string]string{"KVSLOTS_AUTH_TOKEN": secretToken}, "", 0, secretToken},
		{"file", []string{"--auth-token-file", file(secretToken)}, nil, "", 0, secretToken},
		{"file with a newline", []string{"--auth-token-file", file(secretToken + "\n")}, nil, "", 0, secretToken},
		{"file of Windows", []string{"--auth-token-file", file(secretToken + "\r\n")}, nil, "", 0, secretToken},
		{"file in the environment", nil, map[string]string{"KVSLOTS_AUTH_TOKEN_FILE": file(secretToken)}, "", 0, secretToken},
		{"standard input", []string{"--auth-token-file", "-"}, nil, secretToken + "\n", 0, secretToken},
		{"file before variable", []string{"--auth-token-file", file(secretToken)}, map[string]string{"KVSLOTS_AUTH_TOKEN": "another"}, "", 0, secretToken},
		{"longest", []string{"--auth-token-file", file(strings.Repeat("x", 1000))}, nil, "", 0, strings.Repeat("x", 1000)},
		{"empty variable", nil, map[string]string{"KVSLOTS_AUTH_TOKEN": ""}, "", 0, ""},
		{"empty", []string{"--auth-token", ""}, nil, "", 2, "--auth-token must be 1 to 1000 ASCII characters"},
		{"with a space", []string{"--auth-token", "hunter2 more"}, nil, "", 2, "--auth-token must be"},
		{"with a newline", []string{"--auth-token", "hunter2\n"}, nil, "", 2, "--auth-token must be"},
		{"not ASCII", nil, map[string]string{"KVSLOTS_AUTH_TOKEN": "hünter2"}, "", 2, "KVSLOTS_AUTH_TOKEN must be"},
		{"too long", []string{"--auth-token", strings.Repeat("hunter2", 200)}, nil, "", 2, "--auth-token must be"},
		{"empty file", []string{"--auth-token-file", file("")}, nil, "", 2, "--auth-token-file: the file has no token: a line is TOKEN"},
		{"file of a newline", []string{"--auth-token-file", file("\n")}, nil, "", 2, "--auth-token-file: the file has no token"},
		{"file with two newlines", []string{"--auth-token-file", file(secretToken + "\n\n")}, nil, "", 0, secretToken},
		{"file of two tokens", []string{"--auth-token-file", file(secretToken + "\r\nanother\n")}, nil, "", 0, secretToken},
		{"file with names", []string{"--auth-token-file", file("# operators\nann read " + secretToken + "\nbob admin hunter3\n")}, nil, "", 0, secretToken},
		{"file with a tab", []string{"--auth-token-file", file("hunter2\tmore")}, nil, "", 2, "--auth-token-file: line 1 must be TOKEN"},
		{"long file", []string{"--auth-token-file", file(strings.Repeat("hunter2", 1000))}, nil, "", 2, "--auth-token-file: line 1 must be TOKEN"},
		{"no file", []string{"--auth-token-file", missing}, nil, "", exitSettings, "--auth-token-file: no such file or directory"},
		{"empty name", []string{"--auth-token-file", ""}, nil, "", exitSettings, "--auth-token-file: no such file or directory"},
		{"both", []string{"--auth-token", "hunter2", "--auth-token-file", missing}, nil, "", 2, "--auth-token and --auth-token-file exclude each other"},
		{"both in the environment", nil, map[string]string{"KVSLOTS_AUTH_TOKEN": "hunter2", "KVSLOTS_AUTH_TOKEN_FILE": missing}, "", 2, "KVSLOTS_AUTH_TOKEN and KVSLOTS_AUTH_TOKEN_FILE exclude each other"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var sent string
			server := listen(t, func(r *http.Request) { sent = strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ") })
			env := c.env
			out := newLogs()
			code := run(t.Context(), append([]string{"inspect", pool, "--server", server}, c.args...), strings.NewReader(c.stdin), io.Discard, out, env)
			if code != c.code {
				t.Errorf("exit code %d, want %d: %s", code, c.code, out)
			}
			if c.code == 0 && sent != c.want || c.code != 0 && !strings.Contains(out.String(), c.want) {
				t.Errorf("sent %q, said %s; want %q", sent, out, c.want)
			}
			if c.code == 0 {
				return
			}
			if c.code == exitSettings {
				c.code = exitFailed // serve has one exit code for all failures
			}
			code, _, stderr := call(t, env, append([]string{"serve"}, c.args...)...)
			if code != c.code || !strings.Contains(stderr, c.want) {
				t.Errorf("serve: exit code %d: %s", code, stderr)
			}
			if said := out.String() + stderr; strings.Contains(said, "hunter2") || strings.Contains(said, "hünter2") {
				t.Errorf("repeats the token: %s", said)
			}
		})
	}
}

func TestServeWithAToken(t *testing.T) {
	file := writeFile(t, "token", secretToken+"\n")
	for name, c := range map[string]struct {
		args []string
		env  map[string]string
	}{
		"flag":     {[]string{"--auth-token", secretToken}, nil},
		"file":     {[]string{"--auth-token-file", file}, nil},
		"variable": {nil, map[string]string{"KVSLOTS_AUTH_TOKEN": secretToken}},
		"config":   {[]string{"--config", writeFile(t, "kvslots.yaml", "auth-token: "+secretToken+"\n")}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			p := startServe(t, c.env, append([]string{"--data-dir", t.TempDir(), "--log-level", "debug"}, c.args...)...)
			p.want(t, "GET", "/health", "", 200, `{"status":"ok"}`)
			p.want(t, "GET", "/ready", "", 200, `"status":"ready"`)
			p.want(t, "GET", "/metrics", "", 401, `{"error":"unauthorized"}`)
			p.want(t, "PUT", "/l/"+pool, `{"count":1}`, 401, `{"error":"unauthorized"}`)

			transport := []string{"--server", p.url}
			wantCall(t, 1, "", "kvslots: unauthorized; http://.* requires a token: give --auth-token-file\n", append([]string{"inspect", pool}, transport...)...)
			wantCall(t, 1, "", "kvslots: unauthorized; the token of --auth-token or --auth-token-file is not one of http://.*\n", append([]string{"inspect", pool, "--auth-token", "another"}, transport...)...)
			transport = append(transport, "--auth-token-file", file)
			wantCall(t, 0, "count 1, .*", "", append([]string{"register", pool, "--count", "1"}, transport...)...)
			wantCall(t, 0, ".*POSITION=0\n.*", "", append([]string{"borrow", pool}, transport...)...)
			wantCall(t, 0, "deleted\n", "", append([]string{"delete", pool}, transport...)...)

			_, _, metrics := p.askWith(t, http.Header{"Authorization": {"Bearer " + secretToken}}, "GET", "/metrics", "")
			if !strings.Contains(metrics, `route="none",status="401"`) || strings.Contains(metrics, "hunter2") {
				t.Errorf("metrics:\n%s", metrics)
			}
			p.stop()
			p.exitCode(t)
			if strings.Contains(p.logs.String(), "hunter2") || !strings.Contains(p.logs.String(), `"status":401`) {
				t.Errorf("logs:\n%s", p.logs)
			}
		})
	}
}

// The help shows defaults, and no values of the environment.
func TestHelpDoesNotShowTheToken(t *testing.T) {
	env := map[string]string{"KVSLOTS_AUTH_TOKEN": secretToken}
	for _, command := range []string{"serve", "inspect"} {
		code, stdout, stderr := call(t, env, command, "--help")
		if code != 0 || !strings.Contains(stdout, "--auth-token-file") || strings.Contains(stdout+stderr, "hunter2") {
			t.Errorf("%s: exit code %d: %s%s", command, code, stdout, stderr)
		}
	}
}

// listen answers as a gateway with an empty pool, and shows each request.
func listen(t *testing.T, show func(r *http.Request)) (url string) {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		show(r)
		io.WriteString(w, `{"hash":"d600c24f962d5930089cc56981788d46","count":0}`)
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}
