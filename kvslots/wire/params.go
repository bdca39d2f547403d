package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/subjects"
)

// reader reads parameters from the body of a request.
type reader = func(f Fields, p *Params) error

// param is a field of a body, and how its value becomes a parameter. An error is a
// *kvslots.RangeError.
type param struct {
	name     string
	optional bool
	read     func(f Fields, name string, p *Params) error
}

// The fields of requests.
var (
	countParam = whole("count", 0, kvslots.MaxCount, func(p *Params, n int) { p.Count = n })
	nameParam  = optional(text("name", kvslots.WithName, func(p *Params, text string) { p.Name = &text }))
	labelParam = optional(text("label", kvslots.WithLabel, func(p *Params, text string) { p.Label = text }))
	leaseParam = param{"lease", false, func(f Fields, name string, p *Params) (err error) { p.LeaseID, err = f.id(name); return err }}
	ttlParam   = seconds("ttl", 1, setTTL)
	waitParam  = optional(seconds("wait", 0, setWait))

	idleParam      = optional(seconds("idle_timeout_s", 1, func(p *Params, d time.Duration) { p.IdleTimeout = d }))
	acquireParam   = seconds("acquire_timeout_s", 0, setWait)
	timeoutParam   = seconds("timeout_s", 0, setWait)
	leaseTTLParam  = optional(seconds("lease_ttl_s", 0, setTTL))
	limitParam     = whole("limit", 1, kvslots.MaxSemaphoreLimit, func(p *Params, n int) { p.Limit = n })
	uncountedParam = optional(boolean("uncounted", func(p *Params, yes bool) { p.Uncounted = yes }))
	tokenParam     = param{"token", false, readToken}

	positionParam = whole("position", 0, maxPlace, func(p *Params, n int) { p.Operator.Position = n })
	fenceParam    = whole("fence", 1, maxFence, func(p *Params, n int) { p.Operator.Fence = uint64(n) })
	outParam      = boolean("out", func(p *Params, yes bool) { p.Operator.Out = yes })
	pauseParam    = boolean("out", func(p *Params, yes bool) { p.Operator.Out, p.Operator.Position = yes, kvslots.WholePool })
	reasonParam   = optional(text("reason", nil, func(p *Params, text string) { p.Operator.Reason = text })) // the store checks it
	fromParam     = optional(whole("from", 0, maxPlace, func(p *Params, n int) { p.Operator.Page.From = n }))
	afterParam    = optional(whole("after", 0, maxPlace, func(p *Params, n int) { p.Operator.Page.After = n }))
	holdersParam  = listed("leases", 0, func(p *Params) *int { return &p.Operator.Page.MaxHolders })
	waitersParam  = listed("line", 0, func(p *Params) *int { return &p.Operator.Page.MaxWaiters })

	sortParam      = optional(param{"sort", false, readSort})
	nextParam      = optional(text("after", nil, func(p *Params, text string) { p.Operator.Query.After = text }))
	matchParam     = optional(text("q", nil, func(p *Params, text string) { p.Operator.Query.Match = text }))
	holderParam    = optional(text("holder", nil, func(p *Params, text string) { p.Operator.Query.Holder = text }))
	contendedParam = optional(boolean("contended", func(p *Params, yes bool) { p.Operator.Query.Waiting = yes }))
)

// grantReaders read the requests of the operations on locks and semaphores, by kind and by the
// operation, which package subjects names.
var grantReaders = [...]map[string]reader{
	kvslots.KindLock: {
		subjects.Acquire: strictly(acquireParam, leaseTTLParam, labelParam, uncountedParam), subjects.Enqueue: strictly(leaseTTLParam, labelParam),
		subjects.Wait: strictly(timeoutParam), subjects.Release: strictly(tokenParam), subjects.Renew: strictly(tokenParam, leaseTTLParam),
	},
	kvslots.KindSemaphore: {
		subjects.Acquire: strictly(acquireParam, limitParam, leaseTTLParam, labelParam, uncountedParam), subjects.Enqueue: strictly(limitParam, leaseTTLParam, labelParam),
		subjects.Wait: strictly(timeoutParam), subjects.Release: strictly(tokenParam), subjects.Renew: strictly(tokenParam, leaseTTLParam),
	},
}

func setTTL(p *Params, d time.Duration)  { p.TTL = d }
func setWait(p *Params, d time.Duration) { p.Wait = d }

// laxly returns a reader that ignores other fields, and refuses those that are given twice. The body may be
// absent if all fields are optional.
func laxly(params ...param) reader {
	required := slices.ContainsFunc(params, func(field param) bool { return !field.optional })
	return func(f Fields, p *Params) error {
		if f.absent && required {
			return ErrMalformed
		}
		for i := range params {
			if err := f.once(params[i].name); err != nil {
				return err
			}
		}
		for i := range params {
			if err := params[i].read(f, params[i].name, p); err != nil {
				return err
			}
		}
		return nil
	}
}

// strictly is laxly, but refuses other fields.
func strictly(params ...param) reader {
	var names []string
	for _, field := range params {
		names = append(names, field.name)
	}
	read := laxly(params...)
	return func(f Fields, p *Params) error {
		if err := f.only(names...); err != nil {
			return err
		}
		return read(f, p)
	}
}

func optional(of param) param {
	return param{of.name, true, func(f Fields, name string, p *Params) error {
		if f.object[name] == nil {
			return nil
		}
		return of.read(f, name, p)
	}}
}

// seconds is a number of seconds, at most maxSeconds. The store clamps it to its maximum.
func seconds(name string, low int64, set func(*Params, time.Duration)) param {
	return param{name, false, func(f Fields, name string, p *Params) error {
		n, ok := f.integer(name)
		if !ok || n < low {
			return rangeError(name, fmt.Sprintf("a whole number of seconds, %d or more", low))
		}
		set(p, time.Duration(min(n, maxSeconds))*time.Second)
		return nil
	}}
}

// whole is an integer in a range.
func whole(name string, low, high int64, set func(*Params, int)) param {
	return param{name, false, func(f Fields, name string, p *Params) error {
		n, ok := f.integer(name)
		if !ok || n < low || n > high {
			return rangeError(name, fmt.Sprintf("an integer between %d and %d", low, high))
		}
		set(p, int(n))
		return nil
	}}
}

func boolean(name string, set func(*Params, bool)) param {
	return param{name, false, func(f Fields, name string, p *Params) error {
		value := f.plain(name)
		if value != "true" && value != "false" {
			return rangeError(name, "true or false")
		}
		set(p, value == "true")
		return nil
	}}
}

// listed is how many items an answer lists, defaultListed by default.
func listed(name string, low int64, into func(*Params) *int) param {
	given := optional(whole(name, low, maxListed, func(p *Params, n int) { *into(p) = n }))
	return param{name, true, func(f Fields, name string, p *Params) error {
		*into(p) = defaultListed
		return given.read(f, name, p)
	}}
}

// text is a text, which must be one that an option accepts, if there is one.
func text(name string, option func(string) kvslots.Option, set func(*Params, string)) param {
	return param{name, false, func(f Fields, name string, p *Params) error {
		value, ok := Text(f.object[name])
		if set(p, value); option == nil {
			if !ok {
				return rangeError(name, "a text")
			}
			return nil
		}
		if !ok {
			value = "\xff" // what no option accepts
		}
		var o kvslots.Options
		return option(value)(&o)
	}}
}

func readToken(f Fields, name string, p *Params) error {
	p.Token, _ = f.text(name)
	if !IsToken(p.Token) {
		return tokenWrong(name)
	}
	return nil
}

func tokenWrong(name string) error {
	return rangeError(name, strconv.Itoa(idDigits)+" lowercase hexadecimal digits")
}

func readSort(f Fields, name string, p *Params) error {
	sort, _ := Text(f.object[name])
	order := slices.Index(orders, sort)
	if order < 0 {
		return rangeError(name, "one of "+strings.Join(orders, ", "))
	}
	p.Operator.Query.Order = kvslots.PoolOrder(order)
	return nil
}

// plain returns a number or a boolean as it is written: in a query it is a string.
func (f Fields) plain(field string) string {
	if text, ok := anyText(f.object[field]); ok && f.inQuery {
		return text
	}
	return string(f.object[field])
}

// integer returns the value of a field that must be a whole number, as 30.0 and 3e1 are, too. A number that a float64 may
// not have exactly, or an int64 not at all, counts as the nearest one.
func (f Fields) integer(field string) (n int64, ok bool) {
	text := f.plain(field)
	if !json.Valid([]byte(text)) { // in a URL
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err == nil || errors.Is(err, strconv.ErrRange) {
		return n, true
	}
	const exact = 1 << 53
	value, err := strconv.ParseFloat(text, 64) // infinite if it is out of range
	whole := (err == nil || errors.Is(err, strconv.ErrRange)) && value == math.Trunc(value)
	return int64(min(max(value, -exact), exact)), whole
}
