package settings

import (
	"strings"

	"github.com/spf13/pflag"
)

// table declares flags, each in a row: its name, its value with the kind, the range and the
// default, its help, and what the rules have to know of it. The names of its environment
// variable and of its key in the configuration file follow from its own.
type table struct{ *pflag.FlagSet }

func (t table) row(name string, value pflag.Value, usage string, marks ...mark) {
	flag := t.VarPF(value, name, "", usage)
	if value.Type() == "bool" {
		flag.NoOptDefVal = "true"
	}
	for _, m := range marks {
		_ = t.SetAnnotation(name, m.rule, m.texts)
	}
}

// mark is what a rule has to know of a flag: an annotation of pflag.
type mark struct {
	rule  string
	texts []string
}

var (
	secret     = mark{rule: "secret"}                        // the value is a secret
	secretFile = mark{rule: "secret_file"}                   // the value is the name of a file with a secret
	embedded   = mark{rule: "embedded", texts: []string{""}} // only the embedded NATS server has it
)

func (m mark) of(flag *pflag.Flag) bool {
	_, marked := flag.Annotations[m.rule]
	return marked
}

const needsRule = "needs"

// needs marks a flag that is of no use without one of others. reason may be empty.
func needs(reason string, others ...string) mark {
	return mark{needsRule, append([]string{reason}, others...)}
}

// checkRows returns an error for each flag that is given without one that it needs, or that only the
// embedded server has, if there is an external one.
func checkRows(flags *pflag.FlagSet, external bool) error {
	var found problems
	flags.VisitAll(func(flag *pflag.Flag) {
		needed := flag.Annotations[needsRule]
		switch {
		case !isGiven(flag):
		case embedded.of(flag) && external:
			// The image and the unit of systemd set the variable of --data-dir for every gateway.
			found.when(flag.Name != dataDirFlag || sourceOf(flag) != fromEnvironment,
				"--%s is for the embedded server: it excludes --nats-url", flag.Name)
		case needed != nil && len(given(flags, needed[1:]...)) == 0:
			found.add(Usagef("--%s needs --%s%s", flag.Name, strings.Join(needed[1:], " or --"), needed[0]))
		}
	})
	return found.err()
}

// checkPair returns an error if one of two flags is given without the other.
func checkPair(flags *pflag.FlagSet, one, other string) error {
	if len(given(flags, one, other)) == 1 {
		return Usagef("--%s and --%s go together", one, other)
	}
	return nil
}
