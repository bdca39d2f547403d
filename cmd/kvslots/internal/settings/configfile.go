package settings

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

const configFlag = "config"

func applyFile(flags *pflag.FlagSet) error {
	flag := flags.Lookup(configFlag)
	if flag == nil || flag.Value.String() == "" {
		return nil
	}
	path := flag.Value.String()
	kind := strings.TrimPrefix(filepath.Ext(path), ".")
	parse := parsers[kind]
	if parse == nil {
		return Usagef("config file %s: the name must end in .yaml, .yml, .toml or .json", path)
	}
	content, err := readFile(path)
	if err != nil {
		return Usagef("config file %s: %w", path, WithoutPath(err))
	}
	file := map[string]any{}
	if err := parse(content, &file); err != nil {
		return Usagef("config file %s: %w", path, syntaxError(err, content))
	}
	var found problems
	for _, err := range applyKeys(flags, file, readKeyLines(kind, content)) {
		found.add(Usagef("config file %s: %w", path, err))
	}
	return found.err()
}

var parsers = map[string]func(content []byte, file any) error{
	"yaml": yaml.Unmarshal, "yml": yaml.Unmarshal, "toml": toml.Unmarshal, "json": json.Unmarshal,
}

func applyKeys(flags *pflag.FlagSet, file map[string]any, lines keyLines) (found problems) {
	decidedBefore, err := decided(flags)
	if err != nil {
		return nil // the source that has set both has reported it
	}
	for _, key := range slices.Sorted(maps.Keys(file)) {
		name := strings.ToLower(key)
		if err := applyKey(flags, decidedBefore, name, file[key]); err != nil {
			found.add(fmt.Errorf("%s%w", lines.prefix(key), err))
		}
		if text, ok := file[key].(string); ok && isSecret(name, text) {
			_ = flags.SetAnnotation(configFlag, withSecret, []string{"true"})
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
			lines[node.Value] = node.Line
		}
	}
	return lines
}

func (l keyLines) prefix(key string) string {
	if line, ok := l[key]; ok {
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
		err = set(flag, value, fromFile, "key "+key)
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

var lineNumber = regexp.MustCompile(`line \d+`)

// syntaxError replaces the error of a parser of the configuration file, which may quote
// the file: a password, for example. It keeps the position. The YAML parser has no
// column, may name the line before, and has no line for some errors in the first one.
func syntaxError(err error, content []byte) error {
	if toml, ok := errors.AsType[interface {
		error
		Position() (line, column int)
	}](err); ok {
		line, column := toml.Position()
		return syntaxErrorAt(line, column)
	}
	if json, ok := errors.AsType[*json.SyntaxError](err); ok {
		before := content[:max(json.Offset, 1)-1]
		return syntaxErrorAt(1+bytes.Count(before, []byte("\n")), len(before)-bytes.LastIndexByte(before, '\n'))
	}
	if line := lineNumber.FindString(err.Error()); line != "" {
		return fmt.Errorf("syntax error near %s", line)
	}
	return errors.New("syntax error")
}

func syntaxErrorAt(line, column int) error {
	return fmt.Errorf("syntax error in line %d, column %d", line, column)
}
