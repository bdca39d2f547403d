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
	"strings"

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
	parse := parsers[filepath.Ext(path)]
	if parse == nil {
		return Usagef("config file %s: the name must end in .yaml, .yml or .json", path)
	}
	content, err := readRegular(path)
	if err != nil {
		return Usagef("config file %s: %w", path, WithoutPath(err))
	}
	file, err := parse(content)
	if err != nil {
		return Usagef("config file %s: %w", path, syntaxError(err, content))
	}
	var found problems
	for _, err := range applyKeys(flags, file) {
		found.add(Usagef("config file %s: %w", path, err))
	}
	return found.err()
}

// settingsFile has the value of each key, as the file has its text, and its line.
type settingsFile map[string]yaml.Node

var parsers = map[string]func(content []byte) (settingsFile, error){
	".yaml": parseYAML, ".yml": parseYAML, ".json": parseJSON,
}

func parseYAML(content []byte) (file settingsFile, err error) {
	return file, yaml.Unmarshal(content, &file)
}

// parseJSON parses JSON as YAML, which it is, for its lines. YAML's syntax errors would have other ones.
func parseJSON(content []byte) (settingsFile, error) {
	if err := json.Unmarshal(content, &map[string]any{}); err != nil {
		return nil, err
	}
	return parseYAML(content)
}

func applyKeys(flags *pflag.FlagSet, file settingsFile) (found problems) {
	decidedBefore, err := decided(flags)
	if err != nil {
		return nil // the source that has set both has reported it
	}
	for _, key := range slices.Sorted(maps.Keys(file)) {
		value := file[key]
		if err := applyKey(flags, decidedBefore, strings.ToLower(key), &value); err != nil {
			found.add(fmt.Errorf("line %d: %w", value.Line, err))
		}
	}
	_, err = decided(flags)
	found.add(err)
	return found
}

func applyKey(flags *pflag.FlagSet, decidedBefore map[string]bool, key string, value *yaml.Node) error {
	flag := flags.Lookup(key)
	if flag == nil || key == configFlag || key == "help" {
		return fmt.Errorf("unknown key %q", key)
	}
	if isSecret(flag, value.Value) {
		_ = flags.SetAnnotation(configFlag, secretFile.rule, nil)
	}
	if decidedBefore[key] {
		return nil
	}
	err := checkScalar(value, flag.Value.Type())
	if err == nil {
		err = set(flag, value.Value, fromFile, "key "+key)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}

// checkScalar returns an error unless a value of the file can be one of the command line. A
// setting that is text, such as a password, must be text in the file: 0123 is a number in YAML.
func checkScalar(value *yaml.Node, kind string) error {
	switch {
	case value.Kind != yaml.ScalarNode || value.ShortTag() == "!!null":
		return errors.New("must be a single value")
	case kind == "string" && value.ShortTag() != "!!str":
		return errors.New("must be in quotes")
	}
	return nil
}

var lineNumber = regexp.MustCompile(`line \d+`)

// syntaxError replaces the error of a parser of the configuration file, which may quote
// the file: a password, for example. It keeps the position. The YAML parser has no
// column, may name the line before, and has no line for some errors in the first one.
func syntaxError(err error, content []byte) error {
	if json, ok := errors.AsType[*json.SyntaxError](err); ok {
		before := content[:max(json.Offset, 1)-1]
		line, column := 1+bytes.Count(before, []byte("\n")), len(before)-bytes.LastIndexByte(before, '\n')
		return fmt.Errorf("syntax error in line %d, column %d", line, column)
	}
	if line := lineNumber.FindString(err.Error()); line != "" {
		return fmt.Errorf("syntax error near %s", line)
	}
	return errors.New("syntax error")
}
