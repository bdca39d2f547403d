package settings

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kvslots/kvslots/gateway"
	"github.com/kvslots/kvslots/kvslots"
)

const TokensFileFlag = "tokens-file"

// tokenFile is a file with bearer tokens, which are secrets. It can be read again.
type tokenFile struct {
	flag string
	path string
	all  []gateway.Token
}

func (f *tokenFile) All() []gateway.Token { return f.all }

// IsFile reports whether there is a file that can be read again.
func (f *tokenFile) IsFile() bool { return f.path != "" && f.path != "-" }

// Given reports whether there are tokens, or a file with some.
func (f *tokenFile) Given() bool { return len(f.all) > 0 || f.path != "" }

// Reload reads the file again, and reports whether the tokens have changed. After an error
// they are as before.
func (f *tokenFile) Reload() (changed bool, err error) { return f.load(readRegular) }

func (f *tokenFile) load(read func(path string) ([]byte, error)) (changed bool, err error) {
	content, err := read(f.path)
	if err != nil {
		return false, fmt.Errorf("--%s: %w", f.flag, WithoutPath(err))
	}
	parse := parseTokens
	if f.flag == TokensFileFlag {
		parse = parseOperators
	}
	all, err := parse(f.flag, string(content))
	if err != nil || slices.Equal(all, f.all) {
		return false, err
	}
	f.all = all
	return true, nil
}

// parseOperators parses lines NAME read|admin TOKEN. It returns an error without any text of the
// file, since that has secrets.
func parseOperators(flag, content string) (all []gateway.Token, err error) {
	number := 0
	for line := range strings.Lines(content) {
		number++
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if len(words) != 3 || words[1] != "read" && words[1] != "admin" || checkToken("", words[2]) != nil {
			return nil, Usagef("--%s: line %d must be NAME read TOKEN, or NAME admin TOKEN; a token is 1 to %d ASCII characters", flag, number, maxToken)
		}
		if o := new(kvslots.Options); kvslots.WithOperator(words[0])(o) != nil {
			return nil, Usagef("--%s: line %d: a name is up to %d ASCII characters without quotes and backslashes", flag, number, kvslots.MaxLabel)
		}
		for _, other := range all {
			if other.Name == words[0] || other.Token == words[2] {
				return nil, Usagef("--%s: line %d has the name or the token of an earlier one", flag, number)
			}
		}
		all = append(all, gateway.Token{Name: words[0], Token: words[2], ReadOnly: words[1] == "read"})
	}
	if len(all) == 0 {
		return nil, Usagef("--%s: the file has no token: a line is NAME read TOKEN, or NAME admin TOKEN", flag)
	}
	return all, nil
}
