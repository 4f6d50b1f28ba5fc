package kerberos

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"

	"shuultuur/lib/release"
	"shuultuur/lib/setting"
)

const (
	maxToken = 64 << 10 // bytes; a PAC with a thousand groups has 48 KiB at most
)

// An Acceptor verifies tokens. It is safe for concurrent use.
type Acceptor struct {
	keys    *keytab.Keytab
	service string
	skew    time.Duration
	seen    *Replays
	now     func() time.Time
}

// New reads the keytab. seen are the replays of the previous acceptor, or nil.
func New(cfg Config, seen *Replays) (*Acceptor, error) {
	if release.Small {
		return nil, release.Lacks("Kerberos")
	}
	a := &Acceptor{service: cfg.Service, skew: cfg.Skew.Or(5 * time.Minute), seen: seen, now: time.Now}
	if a.skew <= 0 || a.skew > time.Hour {
		return nil, setting.At("skew", fmt.Errorf("%v is no difference that clocks may have: write up to 1h", a.skew))
	}
	if a.seen == nil {
		a.seen = NewReplays("")
	}
	if cfg.Keytab == "" {
		return nil, setting.At("keytab", errors.New("the keytab is not named; make one with ktpass, msktutil or kadmin ktadd"))
	}
	data, err := os.ReadFile(string(cfg.Keytab))
	if err != nil {
		return nil, setting.At("keytab", err)
	}
	if a.keys, err = readKeytab(data); err != nil {
		return nil, setting.At("keytab", fmt.Errorf("%q: %w", cfg.Keytab, err))
	}
	if cfg.Service != "" && !slices.Contains(a.principals(false), cfg.Service) {
		return nil, setting.At("service", fmt.Errorf("%s is not in the keytab, which has %s", cfg.Service, strings.Join(a.principals(false), ", ")))
	}
	return a, nil
}

// SeenTokens returns the accepted tokens, for the next acceptor.
func (a *Acceptor) SeenTokens() *Replays { return a.seen }

// readKeytab reads keys. It recovers from panics, because the module's reader
// trusts the lengths in a file.
func readKeytab(data []byte) (k *keytab.Keytab, err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("it is not a keytab, or a part of one")
		}
	}()
	k = keytab.New()
	if err := k.Unmarshal(data); err != nil {
		return nil, fmt.Errorf("it is not a keytab: %w", err)
	}
	if len(k.Entries) == 0 {
		return nil, errors.New("it holds no keys")
	}
	return k, nil
}

// principals returns the names in the keytab, with or without their realms.
func (a *Acceptor) principals(realms bool) (names []string) {
	for _, e := range a.keys.Entries {
		n := strings.Join(e.Principal.Components, "/")
		if realms {
			n += "@" + e.Principal.Realm
		}
		if !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	return names
}

// Realms returns the realms of the keytab.
func (a *Acceptor) Realms() (all []string) {
	for _, e := range a.keys.Entries {
		if r := e.Principal.Realm; r != "" && !slices.Contains(all, r) {
			all = append(all, r)
		}
	}
	return all
}

// Accept verifies a token from addr. Errors name the step that failed.
func (a *Acceptor) Accept(addr netip.Addr, token []byte) (l Login, err error) {
	defer func() { // the module does not check all indexes into the data it has read
		if r := recover(); r != nil {
			l, err = Login{}, errors.New("the token is damaged")
		}
	}()
	raw, wrapped, err := unwrap(token)
	if err != nil {
		return l, err
	}
	var q messages.APReq
	if err := q.Unmarshal(raw); err != nil {
		return l, errors.New("the token holds no request to a service (AP-REQ) that can be read")
	}
	if len(q.Ticket.SName.NameString) == 0 {
		return l, errors.New("the ticket names no service")
	}
	key, err := a.open(&q.Ticket)
	if err != nil {
		return l, err
	}
	now := a.now()
	t := &q.Ticket.DecryptedEncPart
	user := strings.Join(t.CName.NameString, "/")
	switch {
	case user == "":
		return l, errors.New("the ticket names no user")
	case now.After(t.EndTime.Add(a.skew)):
		return l, fmt.Errorf("the ticket of %q ended at %s: the client has to renew it, or a clock is wrong", user, t.EndTime.Format(time.RFC3339))
	case t.StartTime.After(now.Add(a.skew)):
		return l, fmt.Errorf("the ticket of %q begins at %s: the clock of this machine or of the KDC is wrong", user, t.StartTime.Format(time.RFC3339))
	case types.IsFlagSet(&t.Flags, 7): // flag INVALID: postdated and not yet validated
		return l, fmt.Errorf("the ticket of %q is not valid yet", user)
	case len(t.CAddr) > 0 && !validFor(addr, t.CAddr):
		return l, fmt.Errorf("the ticket of %q is for other addresses than %v", user, addr)
	}
	if err := q.DecryptAuthenticator(t.Key); err != nil {
		return l, fmt.Errorf("the authenticator of %q cannot be decrypted with the key in the ticket", user)
	}
	w := &q.Authenticator
	issued := w.CTime.Add(time.Duration(w.Cusec) * time.Microsecond)
	switch off := now.Sub(issued); {
	case !w.CName.Equal(t.CName) || w.CRealm != t.CRealm:
		return l, fmt.Errorf("the ticket is that of %q and the authenticator that of %q", user, strings.Join(w.CName.NameString, "/"))
	case off > a.skew || off < -a.skew:
		return l, clockError(fmt.Sprintf("the clock of the client of %q is %v away from ours, at most %v are borne: synchronise both", user, off.Abs().Round(time.Second), a.skew))
	}
	if err := a.seen.add(sha256.Sum256(q.EncryptedAuthenticator.Cipher), now, 2*a.skew); err != nil {
		return l, fmt.Errorf("%w: user %q", err, user)
	}
	l = Login{User: user, Realm: t.CRealm, Until: t.EndTime}
	if t.CRealm != q.Ticket.Realm {
		l.User += "@" + t.CRealm
	}
	var named string
	if named, l.SIDs, err = account(t.AuthorizationData, key); err != nil {
		return Login{}, fmt.Errorf("read the groups in the ticket of %q (PAC): %w", user, err)
	}
	if named != "" && t.CRealm == q.Ticket.Realm { // one account, whatever spelling it has signed in with
		l.User = named
	}
	if l.Answer, err = answer(&q, wrapped); err != nil {
		return Login{}, fmt.Errorf("prove this service to the client of %q: %w", user, err)
	}
	return l, nil
}

// open decrypts a ticket with its key in the keytab. If there is none, the
// error explains what is wrong with the keytab.
func (a *Acceptor) open(t *messages.Ticket) (types.EncryptionKey, error) {
	name := strings.Join(t.SName.NameString, "/")
	if a.service != "" && !strings.EqualFold(name, a.service) {
		return types.EncryptionKey{}, fmt.Errorf("the ticket is for %s and the service is %s: clients have to use the name of the proxy in its service", name, a.service)
	}
	var known, typed bool
	var kvnos []string
	var same, other []types.EncryptionKey
	for _, e := range a.keys.Entries {
		mine := strings.EqualFold(strings.Join(e.Principal.Components, "/"), name) && strings.EqualFold(e.Principal.Realm, t.Realm)
		known = known || mine
		if e.Key.KeyType != t.EncPart.EType {
			continue
		}
		typed = typed || mine
		if mine {
			if n := fmt.Sprint(e.KVNO); !slices.Contains(kvnos, n) {
				kvnos = append(kvnos, n)
			}
		}
		if t.EncPart.KVNO != 0 && int(e.KVNO) != t.EncPart.KVNO && int(e.KVNO8) != t.EncPart.KVNO {
			continue
		}
		if mine {
			same = append(same, e.Key)
		} else if a.service == "" {
			other = append(other, e.Key) // the account may have this key under another of its names
		}
	}
	for _, k := range append(same, other...) {
		if t.Decrypt(k) == nil {
			return k, nil
		}
	}
	switch {
	case !known:
		return types.EncryptionKey{}, fmt.Errorf("%s of realm %s is not in the keytab, which has %s", name, t.Realm, strings.Join(a.principals(true), ", "))
	case !typed:
		return types.EncryptionKey{}, fmt.Errorf("no key of type %s for %s is in the keytab: add it, or let the directory use another type for the account", encryption(t.EncPart.EType), name)
	case len(same) == 0:
		return types.EncryptionKey{}, fmt.Errorf("kvno %d of %s is not in the keytab, which has kvno %s: write the keytab anew, and let clients sign in again", t.EncPart.KVNO, name, strings.Join(kvnos, ", "))
	}
	return types.EncryptionKey{}, fmt.Errorf("the key of %s (kvno %d) in the keytab does not decrypt the ticket: the password of the account was changed without a new keytab, or two accounts have this name", name, t.EncPart.KVNO)
}

// encryption returns the name that the tools give to a type of encryption.
func encryption(n int32) string {
	switch n {
	case 17:
		return "aes128-cts-hmac-sha1-96"
	case 18:
		return "aes256-cts-hmac-sha1-96"
	case 19:
		return "aes128-cts-hmac-sha256-128"
	case 20:
		return "aes256-cts-hmac-sha384-192"
	case 23:
		return "arcfour-hmac"
	}
	return fmt.Sprint(n)
}

// validFor reports whether a ticket is valid for an address.
func validFor(addr netip.Addr, all types.HostAddresses) bool {
	for _, h := range all {
		if a, ok := netip.AddrFromSlice(h.Address); ok && a.Unmap() == addr.Unmap() {
			return true
		}
	}
	return false
}
