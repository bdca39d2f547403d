package natsembed

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"slices"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/kvslots/kvslots/kvslots/subjects"
)

// authenticator decides which clients the server accepts, into which account, and
// with which permissions. nats-server's own configuration cannot assign clients with
// a token to an account.
type authenticator struct {
	*keys
	cfg Config
	srv *Server

	buckets, clients, full *server.Account
}

// keys are the nkeys of the connections within the process. They are generated in
// each process and never leave it.
type keys struct{ bucket, service, system nkey }

type nkey struct {
	nkeys.KeyPair
	public string
}

func newKeys() (*keys, error) {
	k := &keys{}
	for _, key := range []*nkey{&k.bucket, &k.service, &k.system} {
		var err error
		if *key, err = nkeyOf(nkeys.CreateUser()); err != nil {
			return nil, err
		}
	}
	return k, nil
}

func nkeyOf(pair nkeys.KeyPair, err error) (nkey, error) {
	if err != nil {
		return nkey{}, err
	}
	public, err := pair.PublicKey()
	return nkey{pair, public}, err
}

func (k nkey) option() nats.Option { return nats.Nkey(k.public, k.Sign) }

// findAccounts looks up the accounts. It is called before the server starts.
func (a *authenticator) findAccounts(srv *server.Server) (err error) {
	for name, account := range map[string]**server.Account{
		bucketAccount: &a.buckets, clientAccount: &a.clients, fullAccount: &a.full,
	} {
		if *account, err = srv.LookupAccount(name); err != nil {
			return err
		}
	}
	return nil
}

// Check reports whether the server accepts a client. The server calls it for each
// CONNECT.
func (a *authenticator) Check(client server.ClientAuthentication) bool {
	user := a.user(client)
	if user == nil {
		return false
	}
	if user.Permissions == nil { // within the process
		client.RegisterUser(user)
		return true
	}
	a.srv.clients.Admit(client.RemoteAddress(), func(accepted bool) {
		if !accepted {
			user = &server.User{Account: a.full}
		}
		client.RegisterUser(user)
	})
	return true
}

// user returns the user that a client connects as, or nil for a client that the
// server does not accept.
func (a *authenticator) user(client server.ClientAuthentication) *server.User {
	given := client.GetOpts()
	key := ""
	if given.Nkey != "" && signed(given.Nkey, given.Sig, client.GetNonce()) {
		key = given.Nkey
	}
	if function := a.function(key); function != nil {
		return function
	}
	switch {
	case key == a.bucket.public:
		return &server.User{Account: a.buckets}
	case key == a.system.public:
		return &server.User{Account: a.srv.nats().SystemAccount()}
	case key == a.service.public:
		return &server.User{Account: a.clients}
	case key != "" && slices.Contains(a.cfg.Nkeys, key):
		return &server.User{Account: a.clients, Permissions: permissions(subjects.Inbox + "_" + key)}
	case a.cfg.User != "" && equal(given.Username, a.cfg.User) && equal(given.Password, a.cfg.Password),
		a.cfg.Token != "" && equal(given.Token, a.cfg.Token),
		!a.cfg.asksForSecret(): // the TLS handshake has checked any client certificate
		allowed := permissions(subjects.Inbox)
		if a.cfg.functionsAreOpen() {
			allowed = a.cfg.Functions.allow(allowed)
		}
		return &server.User{Account: a.clients, Permissions: allowed}
	}
	return nil
}

// permissions let a client send requests to services and receive answers below its
// inbox, and nothing else: the client cannot read the requests of other clients, answer
// them, or reach JetStream.
func permissions(inbox string) *server.Permissions {
	return &server.Permissions{
		Publish:   &server.SubjectPermission{Allow: subjects.Requests()},
		Subscribe: &server.SubjectPermission{Allow: []string{inbox + ".>"}},
	}
}

// signed reports whether signature is that of the nonce by the private half of key.
func signed(key, signature string, nonce []byte) bool {
	public, err := nkeys.FromPublicKey(key)
	if err != nil || !nkeys.IsValidPublicUserKey(key) {
		return false
	}
	raw, err := base64.RawURLEncoding.DecodeString(signature)
	if err != nil {
		raw, err = base64.StdEncoding.DecodeString(signature)
	}
	return err == nil && len(nonce) > 0 && public.Verify(nonce, raw) == nil
}

// equal compares secrets of any length in constant time.
func equal(given, secret string) bool {
	a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(secret))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}
