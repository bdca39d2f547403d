package settings

import (
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// What is printed is a configuration file with the same settings.
func TestCheckPrintsAConfiguration(t *testing.T) {
	env := Environment{"KVSLOTS_MAX_LOCKS": "7", "KVSLOTS_DATA_DIR": "it's: # here"}
	for _, c := range []struct {
		name  string
		args  []string
		lines []string
	}{
		{
			"embedded", []string{
				"--http-port", "1", "--max-ttl", "90s", "--nats-addr", "[::1]:0", "--nats-nkeys", "",
				"--http-cors-allowed-origins", "*", "--http-rate-limit", "0.5", "--forrst-force-release=false",
			},
			[]string{
				"http-addr: '127.0.0.1:1'  # command line\n", "max-locks: 7  # environment\n", "max-ttl: 90s  # command line\n",
				"sync: 'always'  # default\n", "data-dir: 'it''s: # here'  # environment\n",
			},
		},
		{"external", []string{"--nats-url", "a"}, []string{"# sync: always  # default\n", "# data-dir: it's: # here  # environment\n"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			printed, of := check(t, c.args, env)
			for _, line := range c.lines {
				if !strings.Contains(printed, line) {
					t.Errorf("%q is not in\n%s", line, printed)
				}
			}
			file := writeFile(t, "printed.yaml", printed)
			again, got := check(t, []string{"--config", file}, nil)
			if of.NATS.URL != "" {
				of.embedded.DataDir = got.embedded.DataDir // which is not used
			}
			if !reflect.DeepEqual(got, of) {
				t.Errorf("got  %+v\nwant %+v", got, of)
			}
			if strings.Count(again, "  # file\n") != strings.Count(printed, "\n")-strings.Count(printed, "\n# ") {
				t.Errorf("printed\n%s\nand, read from a file,\n%s", printed, again)
			}
		})
	}
}

// check returns what is printed of settings, and the settings.
func check(t *testing.T, args []string, env Environment) (printed string, of *Serve) {
	t.Helper()
	flags := pflag.NewFlagSet("check-config", pflag.ContinueOnError)
	c := NewCheck(flags)
	kvslotstest.Must(t, flags.Parse(args))
	kvslotstest.Must(t, c.Run(env, nil))
	var out strings.Builder
	kvslotstest.Must(t, c.Print(&out))
	return out.String(), c.Serve
}
