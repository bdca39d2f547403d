package main

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"github.com/kvslots/kvslots/gateway/forrst"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire/subjects"
	"github.com/kvslots/kvslots/natsembed"
)

// functionSettings are those of Forrst's functions.
type functionSettings struct {
	prefix       string
	timeout      time.Duration
	user         string
	password     string // a secret: never logged
	nkeys        string // separated by commas
	forceRelease bool
}

func defaultFunctionSettings() functionSettings {
	return functionSettings{prefix: forrst.DefaultPrefix, timeout: forrst.DefaultTimeout, forceRelease: true}
}

func (f *functionSettings) addFlags(flags *pflag.FlagSet) {
	flags.Var(prefix{&f.prefix}, "forrst-fn-prefix", "call Forrst functions on NATS subjects that begin with this")
	flags.Var(duration{&f.timeout, time.Second, time.Hour, false}, "forrst-timeout", "how long a function may take")
	flags.StringVar(&f.user, "forrst-fn-user", f.user, "user with which function services connect at --nats-addr")
	flags.StringVar(&f.password, "forrst-fn-password", f.password, "the user's password; better given as KVSLOTS_FORRST_FN_PASSWORD")
	flags.StringVar(&f.nkeys, "forrst-fn-nkeys", f.nkeys, "accept function services that hold one of these nkeys at --nats-addr (comma-separated public keys)")
	flags.BoolVar(&f.forceRelease, "forrst-force-release", f.forceRelease, "serve Forrst's force-release")
}

func (f *functionSettings) asksForSecret() bool {
	return f.user != "" || f.password != "" || f.nkeys != ""
}

// embedded is what the listener is to know of them.
func (f *functionSettings) embedded() natsembed.Functions {
	functions := natsembed.Functions{
		Prefix: f.prefix, User: f.user, Password: f.password,
		ReplyTime: f.timeout + time.Second, // a later reply finds nobody who waits
	}
	for _, key := range strings.Split(f.nkeys, ",") {
		if key = strings.TrimSpace(key); key != "" {
			functions.Nkeys = append(functions.Nkeys, key)
		}
	}
	return functions
}

// newForrst makes the server of functions' calls.
func newForrst(store *kvslots.Store, nats *backend, common shared, s settings, log zerolog.Logger) *forrst.Server {
	return forrst.New(store, forrst.Config{
		Lending:        common.lending,
		NATS:           nats.functions,
		Prefix:         s.functions.prefix,
		Timeout:        s.functions.timeout,
		MaxWait:        s.maxWait,
		AuthToken:      s.authToken.value,
		NoForceRelease: !s.functions.forceRelease,
		Version:        versionName(),
		Logger:         log.With().Str("component", "forrst").Logger(),
	})
}

// closeForrst comes after the drain: what is still under way is given up.
func closeForrst(functions *forrst.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	return functions.Close(ctx)
}

// prefix is a flag that takes the beginning of a subject.
type prefix struct{ value *string }

var validPrefix = regexp.MustCompile(`^[A-Za-z0-9][\w-]*(\.[\w-]+)*$`)

func (p prefix) Set(text string) error {
	if first, _, _ := strings.Cut(text, "."); len(text) > 100 || !validPrefix.MatchString(text) || first == subjects.Service {
		return fmt.Errorf("must be up to 100 characters: words of A-Z, a-z, 0-9, - and _ with dots between them, and not begin with kvslots or _")
	}
	*p.value = text
	return nil
}

func (p prefix) String() string {
	if p.value == nil {
		return ""
	}
	return *p.value
}

func (p prefix) Type() string { return "subject" }
