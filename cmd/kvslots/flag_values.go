package main

import (
	"fmt"
	"math"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kvslots/kvslots/gateway/natsapi"
	"github.com/kvslots/kvslots/kvslots/subjects"
)

// flagValue is the pflag.Value of every flag whose text is checked. Set checks the text,
// so that its caller can add the name of the flag, variable or key to the error. Errors
// do not contain the text, which may be a secret, unless the flag says otherwise.
type flagValue[T any] struct {
	target *T
	kind   string // name of the type in the help
	parse  func(text string) (T, error)
	format func(T) string
}

func (f flagValue[T]) Set(text string) error {
	value, err := f.parse(text)
	if err == nil {
		*f.target = value
	}
	return err
}

func (f flagValue[T]) String() string {
	if f.target == nil { // pflag calls String on a zero value
		return ""
	}
	return f.format(*f.target)
}

func (f flagValue[T]) Type() string { return f.kind }

// duration is a flag such as "30s" or "1h". A bare number is seconds.
func duration(target *time.Duration, min, max time.Duration) flagValue[time.Duration] {
	return multiple(target, time.Nanosecond, "a duration", min, max)
}

// seconds is a duration in whole seconds.
func seconds(target *time.Duration, min, max time.Duration) flagValue[time.Duration] {
	return multiple(target, time.Second, "a duration in whole seconds", min, max)
}

// multiple is a flag that takes a multiple of unit in a range.
func multiple(target *time.Duration, unit time.Duration, format string, min, max time.Duration) flagValue[time.Duration] {
	return flagValue[time.Duration]{target, "duration", func(text string) (time.Duration, error) {
		value, err := parseDuration(text)
		if err != nil || value < min || value > max || value%unit != 0 {
			return 0, fmt.Errorf(`must be %s such as "30s" or "1h", or a number of seconds, between %s and %s`,
				format, formatDuration(min), formatDuration(max))
		}
		return value, nil
	}, formatDuration}
}

func parseDuration(text string) (time.Duration, error) {
	if _, err := strconv.ParseUint(text, 10, 64); err == nil {
		text += "s"
	}
	return time.ParseDuration(text)
}

func formatDuration(value time.Duration) string {
	switch {
	case value != 0 && value%time.Hour == 0:
		return strconv.Itoa(int(value/time.Hour)) + "h"
	case value%time.Second == 0:
		return strconv.Itoa(int(value/time.Second)) + "s"
	}
	return value.String()
}

// number is a flag that takes an integer in a range.
func number(target *int, min, max int) flagValue[int] {
	return flagValue[int]{target, "int", func(text string) (int, error) {
		value, err := strconv.Atoi(text)
		if err != nil || value < min || value > max {
			return 0, fmt.Errorf("must be an integer between %d and %d", min, max)
		}
		return value, nil
	}, strconv.Itoa}
}

// share is what one client may have of what all clients may have: a number or, if percent is
// set, so many percent of it.
type share struct {
	n       int
	percent bool
}

// of returns the share of a maximum, at least 1, or 0 without a limit. 0 is no maximum.
func (s share) of(most int) int {
	switch {
	case !s.percent:
		return s.n
	case most == 0:
		return 0
	}
	return max(1, most*s.n/100)
}

// shareFlag is a flag that takes a share.
func shareFlag(target *share) flagValue[share] {
	return flagValue[share]{target, "int|percent", func(text string) (s share, err error) {
		text, s.percent = strings.CutSuffix(text, "%")
		s.n, err = strconv.Atoi(text)
		if err != nil || s.n < 0 || s.n > math.MaxInt32 || s.percent && (s.n < 1 || s.n > 100) {
			return s, fmt.Errorf("must be an integer between 0 and %d, or a percentage between 1%% and 100%%", math.MaxInt32)
		}
		return s, nil
	}, func(s share) string {
		if s.percent {
			return strconv.Itoa(s.n) + "%"
		}
		return strconv.Itoa(s.n)
	}}
}

// size is a flag that takes a number of bytes, with K, M, G or T for powers of 1024.
func size(target *int64) flagValue[int64] {
	return flagValue[int64]{target, "bytes", func(text string) (int64, error) {
		value, err := strconv.ParseInt(strings.TrimRight(text, "KMGT"), 10, 64)
		power := 0
		if text != "" {
			power = strings.IndexByte("KMGT", text[len(text)-1]) + 1
		}
		if err != nil || value < 0 || value > maxSize>>(10*power) || strings.ContainsAny(text[:len(text)-1], "KMGT+") {
			return 0, fmt.Errorf("must be a number of bytes such as 512M or 2G")
		}
		return value << (10 * power), nil
	}, func(value int64) string { return strconv.FormatInt(value, 10) }}
}

const maxSize = 1 << 60

// decimal is a flag that takes 0 or a number in a range.
func decimal(target *float64, min, max float64) flagValue[float64] {
	return flagValue[float64]{target, "number", func(text string) (float64, error) {
		value, err := strconv.ParseFloat(text, 64)
		// NaN is in no range.
		if err != nil || value != 0 && !(value >= min && value <= max) {
			return 0, fmt.Errorf("must be 0, or a number between %s and %s", formatDecimal(min), formatDecimal(max))
		}
		return value, nil
	}, formatDecimal}
}

func formatDecimal(value float64) string { return strconv.FormatFloat(value, 'f', -1, 64) }

func asGiven(text string) string { return text }

// checked is a flag that takes a text for which check returns nil.
func checked(target *string, kind string, check func(text string) error) flagValue[string] {
	return flagValue[string]{target, kind, func(text string) (string, error) { return text, check(text) }, asGiven}
}

// choice is a flag that takes one of a few words.
func choice(target *string, words ...string) flagValue[string] {
	return checked(target, strings.Join(words, "|"), func(text string) error {
		if !slices.Contains(words, text) {
			return fmt.Errorf("must be one of %s", strings.Join(words, ", "))
		}
		return nil
	})
}

// address is a flag that takes a host:port to listen on.
func address(target *string) flagValue[string] {
	return checked(target, "host:port", func(text string) error {
		if _, port, err := net.SplitHostPort(text); err != nil || !isPort(port) {
			return fmt.Errorf(`must be host:port with a port between 0 and 65535, such as "127.0.0.1:8080" or ":0"`)
		}
		return nil
	})
}

// isPort reports whether text is a port to listen on.
func isPort(text string) bool {
	_, err := strconv.ParseUint(text, 10, 16)
	return err == nil
}

// isPortOfURL reports whether text is a port to connect to, or absent from the URL.
func isPortOfURL(text string) bool {
	return text == "" || isPort(text) && strings.Trim(text, "0") != ""
}

// loopback is an address that other machines cannot reach.
func loopback(target *string) flagValue[string] {
	return checked(target, "loopback:port", func(text string) error {
		if _, port, err := net.SplitHostPort(text); err != nil || !isPort(port) || !isLoopback(text) {
			return fmt.Errorf(`must be host:port of a loopback address, with a port between 0 and 65535, such as "127.0.0.1:6060" or "[::1]:0"`)
		}
		return nil
	})
}

// port is a flag that takes a port of 127.0.0.1 and sets an address. It shows no default,
// which the flag of the address shows.
func port(address *string) flagValue[string] {
	return flagValue[string]{address, "port", func(text string) (string, error) {
		value, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			return "", fmt.Errorf("must be a port between 0 and 65535")
		}
		return net.JoinHostPort("127.0.0.1", strconv.FormatUint(value, 10)), nil
	}, func(string) string { return "" }}
}

var validPrefix = regexp.MustCompile(`^[A-Za-z0-9][\w-]*(\.[\w-]+)*$`)

// subjectPrefix is a flag that takes a prefix of NATS subjects.
func subjectPrefix(target *string) flagValue[string] {
	return checked(target, "subject", func(text string) error {
		if first, _, _ := strings.Cut(text, "."); len(text) > 100 || !validPrefix.MatchString(text) || first == subjects.Service {
			return fmt.Errorf("must be up to 100 characters: words of A-Z, a-z, 0-9, - and _ with dots between them, and must not begin with kvslots or _")
		}
		return nil
	})
}

// list is a flag that takes entries separated by commas, or nothing.
func list(target *string, kind string, check func(entry string) error) flagValue[string] {
	return flagValue[string]{target, kind, func(text string) (string, error) {
		if text == "" {
			return "", nil
		}
		entries := strings.Split(text, ",")
		for i := range entries {
			entries[i] = strings.TrimSpace(entries[i])
			if err := check(entries[i]); err != nil {
				return "", err
			}
		}
		return strings.Join(entries, ","), nil
	}, asGiven}
}

// splitList returns the entries of a list, without empty ones.
func splitList(text string) []string {
	var entries []string
	for _, entry := range strings.Split(text, ",") {
		if entry = strings.TrimSpace(entry); entry != "" {
			entries = append(entries, entry)
		}
	}
	return entries
}

// replyPrefixes is a flag that takes prefixes of reply subjects.
func replyPrefixes(target *string) flagValue[string] {
	return list(target, "subjects", natsapi.CheckReplyPrefix)
}

// networks is a flag that takes IP addresses and CIDRs. Its error contains the invalid
// entry, which is no secret.
func networks(target *string) flagValue[string] {
	return list(target, "networks", func(entry string) error {
		_, err := parseNetwork(entry)
		return err
	})
}

// parseNetwork parses a CIDR, or an address as the network of it alone.
func parseNetwork(text string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(addr.Unmap(), addr.Unmap().BitLen()), nil
	}
	network, err := netip.ParsePrefix(text)
	if err != nil || network.Addr().Is4In6() { // addresses are compared as IPv4
		return netip.Prefix{}, fmt.Errorf(`%q must be an address or a network such as "10.0.0.0/8"`, text)
	}
	return network.Masked(), nil
}

// hostNames is a flag that takes names of hosts without ports. Its error contains the
// invalid name, which is no secret.
func hostNames(target *string) flagValue[string] {
	return list(target, "names", func(entry string) error {
		if !validHost.MatchString(entry) {
			return fmt.Errorf(`%q must be the name of a host without a port, such as "slots.example.com"`, entry)
		}
		return nil
	})
}

var validHost = regexp.MustCompile(`^[A-Za-z0-9_](?:[\w.-]{0,252}[A-Za-z0-9_])?$`)

// origins is a flag that takes origins of web pages. Its error contains the invalid
// origin, which is no secret.
func origins(target *string) flagValue[string] {
	return list(target, "origins", func(entry string) error {
		if !isOrigin(entry) {
			return fmt.Errorf(`%q must be an origin such as "https://example.com" or "http://localhost:3000", or *`, entry)
		}
		return nil
	})
}

// isOrigin reports whether text is an origin as browsers send it, without a final
// slash: a scheme, a host, and a port if it is not the scheme's default.
func isOrigin(text string) bool {
	if text == "*" {
		return true
	}
	parsed, err := url.Parse(text)
	if err != nil || parsed.Scheme == "" || parsed.Hostname() == "" || strings.ContainsAny(parsed.Host, "* ") || !isPortOfURL(parsed.Port()) {
		return false
	}
	return strings.EqualFold(text, parsed.Scheme+"://"+parsed.Host) && !strings.HasSuffix(text, ":")
}
