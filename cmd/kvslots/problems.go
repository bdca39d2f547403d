package main

import "errors"

// problems collects errors in settings, so that an operator sees all of them at once.
type problems []error

func (p *problems) add(err error) {
	if err != nil {
		*p = append(*p, err)
	}
}

// when adds a usageError if the settings are wrong.
func (p *problems) when(wrong bool, format string, v ...any) {
	if wrong {
		p.add(usagef(format, v...))
	}
}

// err returns all problems as one error, each on a line of its own, or nil.
func (p problems) err() error { return errors.Join(p...) }

// split returns the problems that an error of err consists of.
func split(err error) problems {
	switch all, joined := err.(interface{ Unwrap() []error }); {
	case err == nil:
		return nil
	case joined:
		var found problems
		for _, each := range all.Unwrap() {
			found = append(found, split(each)...)
		}
		return found
	}
	return problems{err}
}
