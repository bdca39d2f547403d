package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"
	"go.yaml.in/yaml/v3"
)

const configFlag = "config"

// alternatives are pairs of flags that exclude each other. A pair counts as one flag:
// the source with the higher precedence decides.
var alternatives = [][2]string{
	{"http-addr", "http-port"},
	{tokenFlag, tokenFileFlag},
	{serverFlag, natsURLFlag},
}

// applySources sets each flag that was not given on the command line from its
// environment variable, or else from the configuration file. An invalid value is a
// usageError that names the variable or the key; the result has an error for each.
func applySources(flags *pflag.FlagSet, env lookupEnv) error {
	return errors.Join(applyEnvironment(flags, env), applyFile(flags))
}

// envName returns the environment variable of a flag: KVSLOTS_HTTP_ADDR for http-addr.
func envName(flag string) string {
	return "KVSLOTS_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// decided returns the flags that a source of lower precedence must not set: given flags
// and their alternatives. It returns an error if both flags of a pair were given.
func decided(flags *pflag.FlagSet) (map[string]bool, error) {
	names := map[string]bool{}
	flags.VisitAll(func(flag *pflag.Flag) { names[flag.Name] = flag.Changed })
	for _, pair := range alternatives {
		one, other := names[pair[0]], names[pair[1]]
		if one && other {
			return nil, excluded(pair[0], pair[1])
		}
		names[pair[0]], names[pair[1]] = one || other, one || other
	}
	return names, nil
}

func excluded(one, other string) error {
	return usagef("--%s and --%s exclude each other", one, other)
}

// applyEnvironment sets flags from environment variables. It ignores empty ones.
func applyEnvironment(flags *pflag.FlagSet, env lookupEnv) error {
	decidedBefore, err := decided(flags)
	if err != nil {
		return err
	}
	var found problems
	flags.VisitAll(func(flag *pflag.Flag) {
		value, _ := env(envName(flag.Name))
		if decidedBefore[flag.Name] || value == "" || flag.Name == "help" {
			return
		}
		if err := set(flag, value); err != nil {
			found.add(usagef("%s: %w", envName(flag.Name), err))
		}
	})
	_, err = decided(flags)
	found.add(err)
	return found.err()
}

// applyFile sets flags from the configuration file, if one was given.
func applyFile(flags *pflag.FlagSet) error {
	path := flags.Lookup(configFlag).Value.String()
	if path == "" {
		return nil
	}
	// viper supports more formats, which are not part of the contract.
	kind := strings.TrimPrefix(filepath.Ext(path), ".")
	if !slices.Contains([]string{"yaml", "yml", "toml", "json"}, kind) {
		return usagef("config file %s: the name must end in .yaml, .yml, .toml or .json", path)
	}
	content, err := readSetting(path)
	if err != nil {
		return usagef("config file %s: %w", path, withoutPath(err))
	}
	return applyContent(flags, path, kind, content)
}

func applyContent(flags *pflag.FlagSet, path, kind string, content []byte) error {
	file := viper.New()
	file.SetConfigType(kind)
	if err := file.ReadConfig(bytes.NewReader(content)); err != nil {
		return usagef("config file %s: %w", path, syntaxError(err, content))
	}
	var found problems
	for _, err := range applyKeys(flags, file, readKeyLines(kind, content)) {
		found.add(usagef("config file %s: %w", path, err))
	}
	if slices.ContainsFunc(file.AllKeys(), func(key string) bool { return isSecret(key, file.GetString(key)) }) {
		_ = flags.SetAnnotation(configFlag, withSecret, []string{"true"})
	}
	return found.err()
}

// withSecret is the annotation of --config if the file has a secret.
const withSecret = "secret"

// isSecret reports whether the value of a flag is or contains a secret.
func isSecret(flag, value string) bool {
	return slices.Contains(secretFlags, flag) || flag == natsURLFlag && userInfo.MatchString(value)
}

// writableSecrets returns the flags whose file has a secret, and may be written by every user
// of the machine, who could replace the secret. Files that every user may read are common
// where a supervisor mounts them for one process alone.
func writableSecrets(flags *pflag.FlagSet) (names []string) {
	for _, name := range []string{configFlag, tokenFileFlag, "tls-key", "nats-creds", "nats-nkey", "nats-tls-key"} {
		flag := flags.Lookup(name)
		if flag.Value.String() == "" || name == configFlag && flag.Annotations[withSecret] == nil {
			continue
		}
		const others = 0o002
		if info, err := os.Stat(flag.Value.String()); err == nil && info.Mode()&others != 0 && runtime.GOOS != "windows" {
			names = append(names, name)
		}
	}
	return names
}

func applyKeys(flags *pflag.FlagSet, file *viper.Viper, lines keyLines) (found problems) {
	decidedBefore, err := decided(flags)
	if err != nil {
		return nil // the source that has set both has reported it
	}
	keys := file.AllKeys()
	slices.Sort(keys)
	for _, key := range keys {
		if err := applyKey(flags, decidedBefore, key, file.Get(key)); err != nil {
			found.add(fmt.Errorf("%s%w", lines.prefix(key), err))
		}
	}
	_, err = decided(flags)
	found.add(err)
	return found
}

type keyLines map[string]int

// readKeyLines returns the lines of the keys of a file in YAML, or in JSON, which is YAML,
// too. The parser of TOML does not report lines of valid keys.
func readKeyLines(kind string, content []byte) keyLines {
	var document yaml.Node
	if kind == "toml" || yaml.Unmarshal(content, &document) != nil || len(document.Content) == 0 {
		return nil
	}
	lines := keyLines{}
	for i, node := range document.Content[0].Content {
		if i%2 == 0 { // keys and values in turn
			lines[strings.ToLower(node.Value)] = node.Line
		}
	}
	return lines
}

// prefix returns the line of a key, or of the outer key of one such as "a.b", for an error.
func (l keyLines) prefix(key string) string {
	outer, _, _ := strings.Cut(key, ".")
	if line, ok := l[outer]; ok {
		return fmt.Sprintf("line %d: ", line)
	}
	return ""
}

func applyKey(flags *pflag.FlagSet, decidedBefore map[string]bool, key string, raw any) error {
	flag := flags.Lookup(key)
	if flag == nil || key == configFlag || key == "help" {
		return fmt.Errorf("unknown key %q", key)
	}
	if decidedBefore[key] {
		return nil
	}
	value, err := scalar(raw, flag.Value.Type())
	if err == nil {
		err = set(flag, value)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}

// scalar formats a value of the file as text for the command line. A setting that is text,
// such as a password, must be text in the file: 0123 is the number 83 in YAML, and the
// parsers round long numbers.
func scalar(raw any, kind string) (text string, err error) {
	switch value := raw.(type) {
	case string:
		return value, nil
	case bool:
		text = strconv.FormatBool(value)
	case int, int64, uint64:
		text = fmt.Sprint(value)
	case float64: // any number in JSON
		text = strconv.FormatFloat(value, 'f', -1, 64)
	default:
		return "", errors.New("must be a single value")
	}
	if kind == "string" {
		return "", errors.New("must be in quotes")
	}
	return text, nil
}

// set sets a flag and marks it as given, even if the value is invalid, so that no further
// source sets it.
func set(flag *pflag.Flag, value string) error {
	flag.Changed = true
	return withoutText(flag.Value.Set(value))
}
