package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"
)

// configFlag names the flag with the configuration file's path.
const configFlag = "config"

// applySources gives each flag that was not given on the command line the
// value of its environment twin, or else that of the configuration file: flag
// beats environment beats file beats default. What is wrong is a usageError
// that names the variable or the key.
func applySources(flags *pflag.FlagSet, env lookupEnv) error {
	if err := applyEnvironment(flags, env); err != nil {
		return err
	}
	path := flags.Lookup(configFlag).Value.String()
	if path == "" {
		return nil
	}
	return applyFile(flags, path)
}

// envName is the environment twin of a flag: KVSLOTS_HTTP_ADDR of http-addr.
func envName(flag string) string {
	return "KVSLOTS_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// applyEnvironment takes an empty variable for one that is not set.
func applyEnvironment(flags *pflag.FlagSet, env lookupEnv) (err error) {
	flags.VisitAll(func(flag *pflag.Flag) {
		value, _ := env(envName(flag.Name))
		if err != nil || flag.Changed || value == "" || flag.Name == "help" {
			return
		}
		if wrong := set(flag, value); wrong != nil {
			err = usagef("%s: %w", envName(flag.Name), wrong)
		}
	})
	return err
}

func applyFile(flags *pflag.FlagSet, path string) error {
	file := viper.New()
	file.SetConfigFile(path)
	// viper reads more formats; fewer can be relied upon.
	if kind := filepath.Ext(path); !slices.Contains([]string{".yaml", ".yml", ".toml", ".json"}, kind) {
		return usagef("config file %s: the name must end in .yaml, .yml, .toml or .json", path)
	}
	if err := file.ReadInConfig(); err != nil {
		return usagef("config file %s: %w", path, err)
	}
	keys := file.AllKeys()
	slices.Sort(keys)
	for _, key := range keys {
		if err := applyKey(flags, key, file.Get(key)); err != nil {
			return usagef("config file %s: %w", path, err)
		}
	}
	return nil
}

func applyKey(flags *pflag.FlagSet, key string, raw any) error {
	flag := flags.Lookup(key)
	if flag == nil || key == configFlag || key == "help" {
		return fmt.Errorf("unknown key %q", key)
	}
	if flag.Changed {
		return nil
	}
	value, err := scalar(raw)
	if err == nil {
		err = set(flag, value)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}

// scalar writes a value of the file as it would stand on the command line.
func scalar(raw any) (string, error) {
	switch value := raw.(type) {
	case string:
		return value, nil
	case bool:
		return strconv.FormatBool(value), nil
	case int, int64, uint64:
		return fmt.Sprint(value), nil
	case float64: // what JSON has for any number
		return strconv.FormatFloat(value, 'f', -1, 64), nil
	}
	return "", fmt.Errorf("must be a single value")
}

// set marks the flag as given, so that the next source leaves it alone.
func set(flag *pflag.Flag, value string) error {
	if err := flag.Value.Set(value); err != nil {
		return err
	}
	flag.Changed = true
	return nil
}
