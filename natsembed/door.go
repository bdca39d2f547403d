package natsembed

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"slices"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"github.com/kvslots/kvslots/kvslots/wire/subjects"
)

// door decides who is let in, where to, and what they may do there. nats-server
// has a way of its own for each kind of credential, but none that puts the
// holder of a token into an account.
type door struct {
	*keys
	cfg Config

	buckets, clients, probes *server.Account
}

// keys are those of the connections within the process. They are new in each
// process, and no other process has them.
type keys struct {
	insider, service, prober nkeys.KeyPair

	insiderKey, serviceKey, proberKey string
}

func newKeys() (k *keys, err error) {
	k = &keys{}
	for _, who := range []struct {
		pair *nkeys.KeyPair
		key  *string
	}{{&k.insider, &k.insiderKey}, {&k.service, &k.serviceKey}, {&k.prober, &k.proberKey}} {
		if *who.pair, err = nkeys.CreateUser(); err != nil {
			return nil, err
		}
		if *who.key, err = (*who.pair).PublicKey(); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// findAccounts is called before the server starts.
func (d *door) findAccounts(srv *server.Server) (err error) {
	if d.buckets, err = srv.LookupAccount(bucketAccount); err != nil {
		return err
	}
	if d.probes, err = srv.LookupAccount(probeAccount); err != nil {
		return err
	}
	d.clients, err = srv.LookupAccount(clientAccount)
	return err
}

// Check is called by the server with each CONNECT.
func (d *door) Check(client server.ClientAuthentication) bool {
	user := d.user(client)
	if user == nil {
		return false
	}
	client.RegisterUser(user)
	return true
}

// user is nil for those who are not let in.
func (d *door) user(client server.ClientAuthentication) *server.User {
	said := client.GetOpts()
	key := ""
	if said.Nkey != "" && signed(said.Nkey, said.Sig, client.GetNonce()) {
		key = said.Nkey
	}
	if function, ok := d.function(said, key); ok {
		return function
	}
	switch {
	case key == d.insiderKey:
		return &server.User{Account: d.buckets}
	case key == d.proberKey:
		return &server.User{Account: d.probes}
	case key == d.serviceKey:
		return &server.User{Account: d.clients}
	case key != "" && slices.Contains(d.cfg.Nkeys, key):
		return &server.User{Account: d.clients, Permissions: permissions(subjects.Inbox, subjects.Inbox+"_"+key)}
	case d.cfg.User != "" && equal(said.Username, d.cfg.User) && equal(said.Password, d.cfg.Password),
		d.cfg.Token != "" && equal(said.Token, d.cfg.Token),
		!d.cfg.asksForSecret(): // at most a client certificate, which was seen to by then
		allowed := permissions(subjects.Inbox)
		if d.cfg.functionsAreOpen() {
			allowed = d.cfg.Functions.allow(allowed)
		}
		return &server.User{Account: d.clients, Permissions: allowed}
	}
	return nil
}

// permissions let a client ask services and take answers in inboxes, and
// nothing else: no wildcard above the inboxes, so that it cannot read what
// others ask; nobody else's answers to give; nothing of JetStream.
func permissions(inboxes ...string) *server.Permissions {
	p := &server.Permissions{
		Publish:   &server.SubjectPermission{Allow: subjects.Requests()},
		Subscribe: &server.SubjectPermission{},
	}
	for _, prefix := range inboxes {
		p.Subscribe.Allow = append(p.Subscribe.Allow, prefix+".>")
	}
	return p
}

// signed tells whether the nonce was signed with the key's private half.
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

// equal compares secrets in constant time, whatever their lengths.
func equal(said, secret string) bool {
	a, b := sha256.Sum256([]byte(said)), sha256.Sum256([]byte(secret))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}
