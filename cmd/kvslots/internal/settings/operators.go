package settings

import (
	"fmt"
	"slices"
	"strings"
)

// TokensFileFlag is the name of the flag of a file with the tokens of operators.
const TokensFileFlag = "tokens-file"

// Operator is a client with a token of its own. The log names it when it changes something.
type Operator struct {
	Name     string
	Token    string // a secret
	ReadOnly bool
}

// Operators are those of a file, with a line for each: NAME read|admin TOKEN.
type Operators struct {
	path string
	all  []Operator
}

// All returns the operators.
func (o *Operators) All() []Operator { return o.all }

// Given reports whether there is a file.
func (o *Operators) Given() bool { return o.path != "" }

func (o *Operators) load() error {
	if !o.Given() {
		return nil
	}
	content, err := readFile(o.path)
	if err == nil {
		o.all, err = parseOperators(string(content))
	}
	return o.named(err)
}

// Reload reads the file again, and reports whether it has changed. After an error the operators
// are as before.
func (o *Operators) Reload() (changed bool, err error) {
	content, err := readRegular(o.path)
	if err != nil {
		return false, o.named(err)
	}
	all, err := parseOperators(string(content))
	if err != nil || slices.Equal(all, o.all) {
		return false, o.named(err)
	}
	o.all = all
	return true, nil
}

func (o *Operators) named(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("--%s: %w", TokensFileFlag, WithoutPath(err))
}

// parseOperators returns an error without any text of the file, since that has secrets.
func parseOperators(content string) (all []Operator, err error) {
	number := 0
	for line := range strings.Lines(content) {
		number++
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if len(words) != 3 || words[1] != "read" && words[1] != "admin" || checkToken("", words[2]) != nil {
			return nil, Usagef("line %d must be NAME read TOKEN, or NAME admin TOKEN; a token is 1 to %d ASCII characters", number, maxToken)
		}
		for _, other := range all {
			if other.Name == words[0] || other.Token == words[2] {
				return nil, Usagef("line %d has the name or the token of an earlier one", number)
			}
		}
		all = append(all, Operator{Name: words[0], Token: words[2], ReadOnly: words[1] == "read"})
	}
	if len(all) == 0 {
		return nil, Usagef("the file has no token: a line is NAME read TOKEN, or NAME admin TOKEN")
	}
	return all, nil
}
