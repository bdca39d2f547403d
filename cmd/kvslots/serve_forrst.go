package main

import (
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"github.com/kvslots/kvslots/gateway/forrst"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/natsembed"
)

type functionSettings struct {
	prefix       string
	timeout      time.Duration
	user         string
	password     string // a secret, never logged
	nkeys        string // separated by commas
	forceRelease bool
}

func (f *functionSettings) addFlags(flags *pflag.FlagSet) {
	flags.Var(subjectPrefix(&f.prefix), "forrst-fn-prefix", "call Forrst functions on NATS subjects below this")
	flags.Var(duration(&f.timeout, time.Second, time.Hour), "forrst-timeout", "how long a function may take")
	flags.StringVar(&f.user, "forrst-fn-user", f.user, "user of function services at --nats-addr")
	flags.StringVar(&f.password, "forrst-fn-password", f.password, "the user's password; better given as KVSLOTS_FORRST_FN_PASSWORD")
	flags.StringVar(&f.nkeys, "forrst-fn-nkeys", f.nkeys, "accept function services that hold one of these nkeys at --nats-addr (comma-separated public keys)")
	flags.BoolVar(&f.forceRelease, "forrst-force-release", f.forceRelease, "serve Forrst's force-release")
}

func (f *functionSettings) asksForSecret() bool {
	return f.user != "" || f.password != "" || f.nkeys != ""
}

// embedded returns the settings for the listener of the embedded server.
func (f *functionSettings) embedded() natsembed.Functions {
	return natsembed.Functions{
		Prefix: f.prefix, User: f.user, Password: f.password, Nkeys: splitList(f.nkeys),
		ReplyTime: f.timeout + time.Second, // the call has ended by then
	}
}

func newForrst(store *kvslots.Store, nats *backend, common shared, s settings, log zerolog.Logger) *forrst.Server {
	return forrst.New(store, forrst.Config{
		Lending:        common.lending,
		NATS:           nats.functions,
		Prefix:         s.functions.prefix,
		Timeout:        s.functions.timeout,
		MaxWait:        s.store.MaxWait,
		Tokens:         common.access.tokens,
		NoForceRelease: !s.functions.forceRelease,
		Version:        versionName(),
		Logger:         log.With().Str("component", "forrst").Logger(),
	})
}
