//go:build !small

package kerberos

import (
	"encoding/hex"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jcmturner/gofork/encoding/asn1"
	"github.com/jcmturner/gokrb5/v8/asn1tools"
	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/gssapi"
	"github.com/jcmturner/gokrb5/v8/iana/asnAppTag"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/spnego"
	"github.com/jcmturner/gokrb5/v8/test/testdata"
	"github.com/jcmturner/gokrb5/v8/types"

	"shuultuur/lib/setting"
)

const realm = "SCHOOL.EXAMPLE"

var from = netip.MustParseAddr("192.0.2.7")

// keytabFile writes a keytab with a key of HTTP/proxy.example.
func keytabFile(t testing.TB, kvno uint8, etypes ...int32) setting.File {
	t.Helper()
	k := keytab.New()
	for _, e := range etypes {
		if err := k.AddEntry("HTTP/proxy.example", realm, "secret", time.Unix(1, 0), kvno, e); err != nil {
			t.Fatal(err)
		}
	}
	b, err := k.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "keytab")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return setting.File(file)
}

func acceptor(t testing.TB, cfg Config) *Acceptor {
	t.Helper()
	a, err := New(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// A ticket is a ticket that a test client presents.
type ticket struct {
	service  string
	password string
	kvno     int
	etype    int32
	realm    string // of the user
	begins   time.Duration
	ends     time.Duration
	clock    time.Duration // of the client, from ours
	pac      []byte
	as       string // user of the authenticator
	mutual   bool   // the client wants an answer
	session  *types.EncryptionKey
}

// request makes the AP-REQ of a ticket.
func (k ticket) request(t testing.TB) []byte {
	t.Helper()
	if k.service == "" {
		k.service = "HTTP/proxy.example"
	}
	if k.password == "" {
		k.password = "secret"
	}
	if k.kvno == 0 {
		k.kvno = 2
	}
	if k.etype == 0 {
		k.etype = 18
	}
	if k.realm == "" {
		k.realm = realm
	}
	if k.as == "" {
		k.as = "anna"
	}
	if k.ends == 0 {
		k.ends = time.Hour
	}
	sname, _ := types.ParseSPNString(k.service)
	cname := types.NewPrincipalName(1, "anna")
	etype, err := crypto.GetEtype(k.etype)
	if err != nil {
		t.Fatal(err)
	}
	session, err := types.GenerateEncryptionKey(etype)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().UTC()
	part := messages.EncTicketPart{
		Flags: types.NewKrbFlags(), Key: session, CRealm: k.realm, CName: cname, AuthTime: now,
		StartTime: now.Add(k.begins), EndTime: now.Add(k.ends), RenewTill: now.Add(k.ends),
	}
	if k.pac != nil {
		inner, err := asn1.Marshal(types.AuthorizationData{{ADType: 128, ADData: k.pac}})
		if err != nil {
			t.Fatal(err)
		}
		part.AuthorizationData = types.AuthorizationData{{ADType: 1, ADData: inner}}
	}
	b, err := asn1.Marshal(part)
	if err != nil {
		t.Fatal(err)
	}
	key, _, err := crypto.GetKeyFromPassword(k.password, sname, realm, k.etype, types.PADataSequence{})
	if err != nil {
		t.Fatal(err)
	}
	if k.pac != nil {
		key = pacKey(t)
	}
	sealed, err := crypto.GetEncryptedData(asn1tools.AddASNAppTag(b, asnAppTag.EncTicketPart), key, keyusage.KDC_REP_TICKET, k.kvno)
	if err != nil {
		t.Fatal(err)
	}
	w, err := types.NewAuthenticator(k.realm, types.NewPrincipalName(1, k.as))
	if err != nil {
		t.Fatal(err)
	}
	w.CTime = now.Add(k.clock)
	q, err := messages.NewAPReq(messages.Ticket{TktVNO: 5, Realm: realm, SName: sname, EncPart: sealed}, session, w)
	if err != nil {
		t.Fatal(err)
	}
	if k.mutual {
		types.SetFlag(&q.APOptions, 2)
	}
	if k.session != nil {
		*k.session = session
	}
	if b, err = q.Marshal(); err != nil {
		t.Fatal(err)
	}
	return b
}

// gss wraps a request as a token of Kerberos, and in SPNEGO.
func gss(t testing.TB, request []byte) (plain, wrapped []byte) {
	t.Helper()
	oid, _ := asn1.Marshal(gssapi.OIDKRB5.OID())
	plain = asn1tools.AddASNAppTag(slices.Concat(oid, []byte{1, 0}, request), 0)
	init := spnego.SPNEGOToken{Init: true, NegTokenInit: spnego.NegTokenInit{
		MechTypes: []asn1.ObjectIdentifier{gssapi.OIDMSLegacyKRB5.OID(), gssapi.OIDKRB5.OID()}, MechTokenBytes: plain,
	}}
	wrapped, err := init.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return plain, wrapped
}

func (k ticket) token(t testing.TB) []byte {
	t.Helper()
	_, w := gss(t, k.request(t))
	return w
}

func TestATicketIdentifiesTheClient(t *testing.T) {
	a := acceptor(t, Config{Keytab: keytabFile(t, 2, 18, 17)})
	plain, wrapped := gss(t, ticket{}.request(t))
	for name, token := range map[string][]byte{"in SPNEGO": wrapped, "of another cipher": ticket{etype: 17}.token(t)} {
		if l, err := a.Accept(from, token); err != nil || l.User != "anna" || l.Realm != realm || len(l.SIDs) != 0 {
			t.Errorf("accepting a token %s: %+v, %v; want anna of %s", name, l, err, realm)
		}
	}
	if _, err := a.Accept(from, plain); !errors.Is(err, ErrReplay) {
		t.Errorf("the same ticket and authenticator in another wrapping: %v, want ErrReplay", err)
	}
	if l, err := a.Accept(from, ticket{realm: "OTHER.EXAMPLE"}.token(t)); err != nil || l.User != "anna@OTHER.EXAMPLE" {
		t.Errorf("accepting a user of another realm: %+v, %v", l, err)
	}
	if l, err := a.Accept(from, ticket{service: "http/PROXY.example"}.token(t)); err == nil {
		t.Errorf("a ticket for a key with another salt was accepted: %+v", l)
	}
}

// TestTheServiceProvesItself: a client that asks for mutual authentication gets
// the time of its authenticator back, encrypted with the key in the ticket,
// wrapped as its own token was.
func TestTheServiceProvesItself(t *testing.T) {
	for _, tt := range []struct{ spnego, mutual bool }{{true, true}, {false, true}, {true, false}} {
		var session types.EncryptionKey
		raw := ticket{session: &session, mutual: tt.mutual}.request(t)
		token, wrapped := gss(t, raw)
		if tt.spnego {
			token = wrapped
		}
		l, err := acceptor(t, Config{Keytab: keytabFile(t, 2, 18)}).Accept(netip.MustParseAddr("192.0.2.1"), token)
		if err != nil {
			t.Fatal(err)
		}
		if !tt.mutual {
			if l.Answer != nil {
				t.Errorf("%+v: the client got an answer that it did not request", tt)
			}
			continue
		}
		answer := l.Answer
		if tt.spnego {
			var s spnego.NegTokenResp
			if err := s.Unmarshal(answer); err != nil || s.NegState != 0 || !s.SupportedMech.Equal(gssapi.OIDMSLegacyKRB5.OID()) {
				t.Fatalf("the answer in SPNEGO is %+v, %v", s, err)
			}
			answer = s.ResponseToken
		}
		oid, body, ok := mechanism(answer)
		if !ok || !oid.Equal(oidKRB5) || len(body) < 2 || body[0] != 2 || body[1] != 0 {
			t.Fatalf("%+v: the answer is not an AP-REP: %x", tt, answer)
		}
		var rep messages.APRep
		if err := rep.Unmarshal(body[2:]); err != nil {
			t.Fatal(err)
		}
		plain, err := crypto.DecryptEncPart(rep.EncPart, session, keyusage.AP_REP_ENCPART)
		if err != nil {
			t.Fatal(err)
		}
		var part messages.EncAPRepPart
		if err := part.Unmarshal(plain); err != nil || time.Since(part.CTime) > time.Minute || part.SequenceNumber < 0 {
			t.Errorf("the encrypted part of the answer is %+v, %v", part, err)
		}
	}
}

func TestErrorsNameTheStepThatFailed(t *testing.T) {
	a := acceptor(t, Config{Keytab: keytabFile(t, 2, 18)})
	only := acceptor(t, Config{Keytab: keytabFile(t, 2, 18), Service: "HTTP/proxy.example"})
	ntlm, _ := hex.DecodeString("4e544c4d535350000100000007820820")
	for _, test := range []struct {
		name  string
		a     *Acceptor
		token []byte
		want  string
	}{
		{"kvno", a, ticket{kvno: 3}.token(t), "kvno 3 of HTTP/proxy.example is not in the keytab, which has kvno 2"},
		{"password", a, ticket{password: "other"}.token(t), "the key of HTTP/proxy.example (kvno 2) in the keytab does not decrypt the ticket"},
		{"service", a, ticket{service: "HTTP/web.example"}.token(t), "HTTP/web.example of realm SCHOOL.EXAMPLE is not in the keytab, which has HTTP/proxy.example@SCHOOL.EXAMPLE"},
		{"the one service", only, ticket{service: "HTTP/web.example"}.token(t), "the ticket is for HTTP/web.example and the service is HTTP/proxy.example"},
		{"cipher", a, ticket{etype: 17}.token(t), "no key of type aes128-cts-hmac-sha1-96 for HTTP/proxy.example is in the keytab"},
		{"ended", a, ticket{begins: -10 * time.Hour, ends: -time.Hour}.token(t), `the ticket of "anna" ended at`},
		{"not begun", a, ticket{begins: time.Hour, ends: 2 * time.Hour}.token(t), `the ticket of "anna" begins at`},
		{"clock", a, ticket{clock: -7 * time.Minute}.token(t), `the clock of the client of "anna" is 7m`},
		{"of somebody else", a, ticket{as: "bold"}.token(t), `the ticket is that of "anna" and the authenticator that of "bold"`},
		{"NTLM", a, ntlm, "the client sent NTLM and not Kerberos: enter the proxy by its full name"},
		{"empty", a, nil, "the token is empty"},
		{"junk", a, []byte("junk"), "the token is neither SPNEGO nor Kerberos"},
		{"cut off", a, ticket{}.token(t)[:200], "the token is neither SPNEGO nor Kerberos"},
	} {
		if l, err := test.a.Accept(from, test.token); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: Accept returned %+v, %v; want an error with %q", test.name, l, err, test.want)
		}
	}
}

func TestNTLMInSPNEGOIsRefusedWithAdvice(t *testing.T) {
	init := spnego.SPNEGOToken{Init: true, NegTokenInit: spnego.NegTokenInit{
		MechTypes: []asn1.ObjectIdentifier{{1, 3, 6, 1, 4, 1, 311, 2, 2, 10}}, MechTokenBytes: []byte("NTLMSSP\x00\x01"),
	}}
	b, err := init.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := acceptor(t, Config{Keytab: keytabFile(t, 2, 18)}).Accept(from, b); !errors.Is(err, ErrNTLM) {
		t.Error(err)
	}
}

func TestReplaysOutliveAReloadAndAreForgotten(t *testing.T) {
	a := acceptor(t, Config{Keytab: keytabFile(t, 2, 18)})
	token := ticket{}.token(t)
	if _, err := a.Accept(from, token); err != nil {
		t.Fatal(err)
	}
	next, err := New(Config{Keytab: keytabFile(t, 2, 18)}, a.SeenTokens())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := next.Accept(from, token); !errors.Is(err, ErrReplay) {
		t.Errorf("a token used before the reload: %v, want ErrReplay", err)
	}
	r, now := NewReplays(""), time.Now()
	sum := [32]byte{1}
	for _, step := range []struct {
		after time.Duration
		want  error
	}{{0, nil}, {9 * time.Minute, ErrReplay}, {10 * time.Minute, ErrReplay}, {40 * time.Minute, nil}} {
		if err := r.add(sum, now.Add(step.after), 10*time.Minute); !errors.Is(err, step.want) {
			t.Errorf("adding the token after %v: %v, want %v", step.after, err, step.want)
		}
	}
}

// pacKey returns the key that signed the PAC of the module's tests.
func pacKey(t testing.TB) types.EncryptionKey {
	t.Helper()
	b, _ := hex.DecodeString(testdata.KEYTAB_SYSHTTP_TEST_GOKRB5)
	k := keytab.New()
	if err := k.Unmarshal(b); err != nil {
		t.Fatal(err)
	}
	pn, _ := types.ParseSPNString("sysHTTP")
	key, _, err := k.GetEncryptionKey(pn, "TEST.GOKRB5", 2, 18)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestGroupsComeFromThePAC(t *testing.T) {
	b, _ := hex.DecodeString(testdata.KEYTAB_SYSHTTP_TEST_GOKRB5)
	file := filepath.Join(t.TempDir(), "keytab")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	a := acceptor(t, Config{Keytab: setting.File(file)})
	pac, err := hex.DecodeString(testdata.MarshaledPAC_AD_WIN2K_PAC)
	if err != nil {
		t.Fatal(err)
	}
	l, err := a.Accept(from, ticket{pac: pac, kvno: 2}.token(t))
	if err != nil || !slices.Contains(l.SIDs, "S-1-5-21-3167651404-3865080224-2280184895-513") || len(l.SIDs) < 5 {
		t.Errorf("accepting a ticket with a PAC: %+v, %v", l, err)
	}
	changed := slices.Clone(pac)
	changed[200] ^= 1
	if l, err := a.Accept(from, ticket{pac: changed, kvno: 2}.token(t)); err == nil {
		t.Errorf("a changed PAC was accepted: %+v", l)
	}
	changed = slices.Clone(pac)
	changed[16], changed[17] = 0xff, 0xff // the offset of the first part
	if _, err := a.Accept(from, ticket{pac: changed, kvno: 2}.token(t)); err == nil || !strings.Contains(err.Error(), "its parts do not lie in it") {
		t.Error(err)
	}
}

func TestKeytabsThatCannotBeUsedAreRefused(t *testing.T) {
	whole, err := os.ReadFile(string(keytabFile(t, 2, 18)))
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{"empty": {}, "text": []byte("hello, I am no keytab"), "half": whole[:len(whole)/2], "no keys": {5, 2}, "wrong lengths": {5, 2, 0, 0, 0, 40, 0, 9, 0xff, 0xff}} {
		file := filepath.Join(t.TempDir(), "keytab")
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := New(Config{Keytab: setting.File(file)}, nil); err == nil || !strings.Contains(err.Error(), "keytab") {
			t.Errorf("New with a keytab that is %s: %v, want an error", name, err)
		}
	}
	if _, err := New(Config{Keytab: keytabFile(t, 2, 18), Service: "HTTP/other.example"}, nil); err == nil || !strings.Contains(err.Error(), "which has HTTP/proxy.example") {
		t.Error(err)
	}
	if _, err := New(Config{}, nil); err == nil {
		t.Error("New without a keytab returned no error")
	}
}

func FuzzAccept(f *testing.F) {
	a := acceptor(f, Config{Keytab: keytabFile(f, 2, 18)})
	f.Add(ticket{}.token(f))
	f.Add([]byte("NTLMSSP\x00\x01\x00\x00\x00"))
	plain, _ := gss(f, ticket{kvno: 9}.request(f))
	f.Add(plain)
	f.Fuzz(func(t *testing.T, token []byte) {
		l, err := a.Accept(from, token)
		if err == nil && l.User != "anna" {
			t.Errorf("the token signs in another user: %+v", l)
		}
	})
}

func FuzzPAC(f *testing.F) {
	pac, _ := hex.DecodeString(testdata.MarshaledPAC_AD_WIN2K_PAC)
	f.Add(pac)
	key := pacKey(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		func() {
			defer func() { recover() }() // as Accept does; it must not allocate as much as a length claims
			_, _, _ = logon(b, key)
		}()
	})
}
