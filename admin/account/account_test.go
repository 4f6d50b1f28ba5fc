package account

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// book returns a book and its clock, which the test sets.
func book(t testing.TB) (*Book, *time.Time) {
	t.Helper()
	b, err := Open(Folder(t.TempDir()), nil)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 5, 4, 9, 0, 0, 0, time.UTC)
	b.now = func() time.Time { return now }
	return b, &now
}

const long = "correct horse battery"

func TestTheFirstAccountIsAnOwnersAndTheLastOwnerStays(t *testing.T) {
	b, _ := book(t)
	for _, c := range []struct {
		do   string
		err  error
		want string
	}{
		{"first", b.Add("tea", Viewer, nil, ""), "first account is an owner's"},
		{"owner", b.Add("ann", Owner, nil, ""), ""},
		{"again", b.Add("ANN", Owner, nil, ""), ErrExists.Error()},
		{"helper of nothing", b.Add("tea", Helper, nil, ""), "looks after no group"},
		{"viewer of groups", b.Add("tea", Viewer, []string{"7a"}, ""), "groups are for helpers"},
		{"colon", b.Add("a:b", Viewer, nil, ""), "cannot be the name"},
		{"helper", b.Add("tea", Helper, []string{"7a"}, ""), ""},
		{"demote", b.Edit("ann", Viewer, nil), ErrLast.Error()},
		{"remove", b.Remove("ann"), ErrLast.Error()},
		{"short", b.SetPassword("ann", "123456789"), "10 or more"},
		{"name", b.SetPassword("ann", "annannannn"), ""},
		{"one letter", b.SetPassword("ann", "aaaaaaaaaaaa"), "too easy to guess"},
		{"common", b.SetPassword("ann", "Password123"), "most common"},
		{"nobody", b.Edit("bob", Viewer, nil), ErrNone.Error()},
	} {
		if c.want == "" && c.err != nil || c.want != "" && (c.err == nil || !strings.Contains(c.err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.do, c.err, c.want)
		}
	}
	if err := b.Remove("tea"); err != nil {
		t.Error(err)
	}
	if err := b.Remove("ann"); err != nil {
		t.Errorf("removing the last account: %v", err)
	}
}

func TestPasswordsAreArgon2id(t *testing.T) {
	h, err := hash("ann", long)
	if err != nil || !strings.HasPrefix(h, "$argon2id$v=19$m=47104,t=1,p=1$") {
		t.Fatalf("the hash of a password is %q, %v, want Argon2id with 46 MiB", h, err)
	}
	if !verify(h, long) || verify(h, long+"x") || verify("", long) || verify(h, strings.Repeat("x", maxPassword+1)) {
		t.Error("verify accepts a wrong password, or refuses the right one")
	}
	for _, bad := range []string{"x", "$argon2id$v=19$m=99999999,t=1,p=1$AA$AA", "$argon2id$v=19$m=8,t=0,p=1$AAAA$AAAAAAAAAAAAAAAAAAAAAAAA", "$2y$10$a$b$c"} {
		if verify(bad, long) {
			t.Errorf("verify accepts the stored form %q", bad)
		}
	}
}

// TestCodesAreThoseOfRFC6238 uses the vectors of its appendix B, of which it compares the last
// six digits.
func TestCodesAreThoseOfRFC6238(t *testing.T) {
	for at, want := range map[uint64]string{59: "94287082", 1111111109: "07081804", 1111111111: "14050471", 1234567890: "89005924", 2000000000: "69279037", 20000000000: "65353130"} {
		if got := code([]byte("12345678901234567890"), at/30, 8); got != want {
			t.Errorf("at %d: %s, want %s", at, got, want)
		}
	}
}

func TestSignInWithPasswordAndCode(t *testing.T) {
	b, now := book(t)
	if err := b.Add("ann", Owner, nil, long); err != nil {
		t.Fatal(err)
	}
	in := func(name, password, code string) error {
		_, err := b.SignIn(t.Context(), name, password, code, Origin{})
		return err
	}
	if err := in("ann", long, ""); err != nil {
		t.Fatal(err)
	}
	secret, address, err := b.Offer("ann", "Shuultuur")
	if err != nil || !strings.HasPrefix(address, "otpauth://totp/Shuultuur:ann?") || !strings.Contains(address, "secret="+secret) {
		t.Fatalf("offering one-time passwords: got address %q, %v, want one with the secret", address, err)
	}
	key, _ := b32.DecodeString(secret)
	at := func(d time.Duration) string { return code(key, uint64(now.Add(d).Unix())/30, 6) }
	if _, err := b.Confirm("ann", "000000"); err == nil && at(0) != "000000" {
		t.Error("Confirm accepts a wrong code")
	}
	codes, err := b.Confirm("ann", at(0))
	if err != nil || len(codes) != recoveryCodes {
		t.Fatalf("confirming one-time passwords: got recovery codes %q, %v, want %d", codes, err, recoveryCodes)
	}
	if _, _, err := b.Offer("ann", "Shuultuur"); err == nil {
		t.Error("an open session can replace the second factor without the password")
	}
	*now = now.Add(2 * time.Minute)
	for _, c := range []struct {
		name, code string
		want       error
	}{
		{"none", "", ErrCode}, {"old", at(-2 * time.Minute), ErrWrong}, {"right", at(0), nil}, {"again", at(0), ErrWrong},
		{"recovery", codes[3], nil}, {"recovery again", codes[3], ErrWrong},
	} {
		if err := in("ann", long, c.code); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	if err := in("ann", "wrong password", at(0)); !errors.Is(err, ErrWrong) {
		t.Errorf("wrong password: %v", err)
	}
}

func TestAnAccountIsBarredAfterManyWrongPasswords(t *testing.T) {
	b, now := book(t)
	if err := b.Add("ann", Owner, nil, ""); err != nil {
		t.Fatal(err)
	}
	for range maxWrong {
		b.wrong.Add("ann")
	}
	if _, err := b.SignIn(t.Context(), " Ann ", long, "", Origin{}); !errors.Is(err, ErrTooMany) {
		t.Errorf("got %v", err)
	}
	*now = now.Add(wrongTime)
	if _, err := b.SignIn(t.Context(), "ann", long, "", Origin{}); !errors.Is(err, ErrWrong) {
		t.Errorf("after %v: %v", wrongTime, err)
	}
}

// TestGuessesAtOnceAreCountedLikeOthers: of 80 wrong passwords or 60 codes at the same time, no more
// are tested than one after the other.
func TestGuessesAtOnceAreCountedLikeOthers(t *testing.T) {
	b, _ := book(t)
	const most = 4 // each takes a tenth of a second
	b.wrong.Most = most
	if err := b.Add("ann", Owner, nil, long); err != nil {
		t.Fatal(err)
	}
	secret, _, err := b.Offer("ann", "Shuultuur")
	if err != nil {
		t.Fatal(err)
	}
	key, err := b32.DecodeString(secret)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Confirm("ann", code(key, uint64(b.now().Unix())/stepTime, digits)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ password, code string }{"passwords": {"wrong password", ""}, "codes": {long, "000000"}, "own": {"wrong password", "has"}} {
		b.wrong.Forget("ann")
		var tested, refused atomic.Int64
		var all sync.WaitGroup
		for range 2 * most {
			all.Go(func() {
				var err error
				if c.code == "has" {
					if err = ErrWrong; b.wrong.Left("ann") > 0 {
						err = ErrTooMany
					}
					b.Has(t.Context(), "ann", c.password)
				} else {
					_, err = b.SignIn(t.Context(), "ann", c.password, c.code, Origin{})
				}
				switch {
				case errors.Is(err, ErrWrong):
					tested.Add(1)
				case errors.Is(err, ErrTooMany):
					refused.Add(1)
				}
			})
		}
		all.Wait()
		if c.code != "has" && (tested.Load() != most || refused.Load() != most) || b.wrong.Left("ann") == 0 {
			t.Errorf("%s: %d guesses at once were tested and %d refused, want %d each", name, tested.Load(), refused.Load(), most)
		}
	}
}

func TestSessionsEnd(t *testing.T) {
	b, now := book(t)
	if err := errors.Join(b.Add("ann", Owner, nil, ""), b.Add("tea", Helper, []string{"7a"}, "")); err != nil {
		t.Fatal(err)
	}
	begin := func(name string) string {
		t.Helper()
		s, err := b.Begin(name, "passkey", Origin{Addr: netip.MustParseAddr("10.0.0.1"), Agent: "browser"})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	holds := func(what, secret string, want bool) {
		t.Helper()
		if _, ok := b.BySession(secret, true); ok != want {
			t.Errorf("%s: the session holds: %v", what, ok)
		}
	}
	s := begin("tea")
	if who, ok := b.BySession(s, true); !ok || who.Role != Helper || who.Groups[0] != "7a" || who.Via != "session" {
		t.Errorf("%+v %v", who, ok)
	}
	if data, err := os.ReadFile(b.sessionFile()); err != nil || bytes.Contains(data, []byte(s)) {
		t.Errorf("the cookie is on the disk: %v", err)
	}
	holds("a guess", "x", false)
	*now = now.Add(29 * time.Minute)
	holds("in use", s, true)
	*now = now.Add(30 * time.Minute)
	holds("idle", s, false)
	s = begin("tea")
	for range 24 {
		*now = now.Add(29 * time.Minute)
		holds("kept busy", s, true)
	}
	*now = now.Add(29 * time.Minute)
	holds("older than 12 h", s, false)
	s = begin("tea")
	*now = now.Add(29 * time.Minute)
	if _, ok := b.BySession(s, false); !ok {
		t.Error("a request that a page makes by itself does not identify the user")
	}
	*now = now.Add(time.Minute)
	holds("used by a page alone", s, false)
	s = begin("tea")
	again, err := Open(b.dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	again.now = b.now
	if _, ok := again.BySession(s, true); !ok {
		t.Error("the session is gone after a restart")
	}
	if err := again.Edit("tea", Viewer, nil); err != nil { // as the command line does beside the gateway
		t.Fatal(err)
	}
	holds("another role", s, false)
	s = begin("ann")
	if ok, err := b.End(b.Sessions("ann")[0].ID, "tea"); ok || err != nil {
		t.Error("another account can end the session:", err)
	}
	if ok, err := b.End(b.Sessions("ann")[0].ID, "ann"); !ok || err != nil {
		t.Errorf("ending a session: got %v, %v, want true", ok, err)
	}
	holds("ended", s, false)
}

// If the provider names a user in no group with a role any more, the account is removed with
// its sessions and tokens. The last owner's account stays, without them.
func TestPeopleWithoutAGroupOfTheProviderAreSignedOut(t *testing.T) {
	b, _ := book(t)
	for _, role := range []Role{Owner, Viewer} {
		name := map[Role]string{Owner: "own", Viewer: "tea"}[role]
		if _, err := SignInAs(b, "is "+name, name, role, nil, Origin{}); err != nil {
			t.Fatal(err)
		}
	}
	for name, stays := range map[string]bool{"tea": false, "own": true} {
		secret, err := b.Begin(name, "passkey", Origin{})
		if err != nil {
			t.Fatal(err)
		}
		token, _, err := b.NewToken(name, "", []string{"read"}, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if err := EndSubject(b, "is "+name); err != nil {
			t.Fatalf("ending the access of %q: %v", name, err)
		}
		if _, ok := b.BySession(secret, true); ok {
			t.Errorf("the session of %s still works", name)
		}
		if _, ok := b.ByToken(token); ok {
			t.Errorf("the token of %s still works", name)
		}
		if _, err := b.One(name); (err == nil) != stays {
			t.Errorf("looking up the account of %s: %v", name, err)
		}
	}
	if err := EndSubject(b, "is nobody"); err != nil {
		t.Error(err)
	}
}

func TestTokensHaveScopeAndEnd(t *testing.T) {
	b, now := book(t)
	if err := b.Add("ann", Operator, nil, ""); err == nil {
		t.Fatal("Add makes a first account that is not an owner")
	}
	if err := errors.Join(b.Add("own", Owner, nil, ""), b.Add("ann", Operator, nil, "")); err != nil {
		t.Fatal(err)
	}
	for _, bad := range [][]string{nil, {"all"}, {"FETCH /x"}, {"GET x"}} {
		if _, _, err := b.NewToken("ann", "", bad, time.Hour); err == nil {
			t.Errorf("NewToken accepts the scope %q", bad)
		}
	}
	if _, _, err := b.NewToken("ann", "", []string{"read"}, MaxTokenLife+1); err == nil {
		t.Error("NewToken accepts a token that is valid for too long")
	}
	secret, _, err := b.NewToken("ann", "backup", []string{"GET /events", "POST /pause"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	who, ok := b.ByToken(secret)
	if !ok || who.Name != "ann" || who.Role != Operator {
		t.Fatalf("the account of a token is %+v, %v, want ann as operator", who, ok)
	}
	for path, want := range map[string]bool{"GET /events": true, "HEAD /events": true, "GET /events/x": true, "GET /eventsx": false, "POST /events": false, "POST /pause": true, "GET /pause": false} {
		method, at, _ := strings.Cut(path, " ")
		if got := who.Covers(method, at); got != want {
			t.Errorf("a token that covers %s: %v, want the opposite", path, got)
		}
	}
	if data, err := os.ReadFile(b.file()); err != nil || bytes.Contains(data, []byte(secret)) {
		t.Errorf("the file of accounts contains the token: %v", err)
	}
	if info, err := os.Stat(b.file()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file of accounts has the mode %v, %v, want -rw-------", info.Mode(), err)
	}
	if who, ok := b.ByToken(LocalKey(filepath.Dir(b.dir))); !ok || who.Role != Owner {
		t.Error("the key of this machine does not identify an owner")
	}
	*now = now.Add(time.Hour)
	if _, ok := b.ByToken(secret); ok {
		t.Error("an expired token still works")
	}
}

func TestTheAuditLogShowsEveryChange(t *testing.T) {
	write := func(t *testing.T) *Log {
		l := NewLog(t.TempDir())
		for i := range 5 {
			if err := l.Add(Entry{By: "ann", Role: Owner, Action: "look", Details: fmt.Sprintf("user:pupil%d", i)}); err != nil {
				t.Fatal(err)
			}
		}
		return l
	}
	l := write(t)
	if v, err := l.Verify(); err != nil || v.Broken != "" || v.Entries != 5 {
		t.Fatalf("verifying five entries: %+v, %v", v, err)
	}
	if all, err := l.Entries(0, 2); err != nil || len(all) != 2 || all[0].Seq != 5 || all[1].Seq != 4 {
		t.Errorf("the newest two entries are %+v, %v", all, err)
	}
	if all, err := l.Entries(4, 9); err != nil || len(all) != 3 || all[0].Seq != 3 {
		t.Errorf("the entries before the fourth are %+v, %v", all, err)
	}
	for name, change := range map[string]func([]string) []string{
		"changed":           func(l []string) []string { l[2] = strings.Replace(l[2], `"ann"`, `"eve"`, 1); return l },
		"details":           func(l []string) []string { l[2] = strings.Replace(l[2], "pupil2", "pupil9", 1); return l },
		"left out":          func(l []string) []string { return slices.Delete(l, 2, 3) },
		"cut off":           func(l []string) []string { return l[:4] },
		"emptied":           func([]string) []string { return nil },
		"swapped":           func(l []string) []string { l[1], l[2] = l[2], l[1]; return l },
		"no entry":          func(l []string) []string { l[0] = "{"; return l },
		"repeated":          func(l []string) []string { return slices.Insert(l, 2, l[2]) },
		"a field more":      func(l []string) []string { l[2] = strings.Replace(l[2], "{", `{"note":"x",`, 1); return l },
		"a key in capitals": func(l []string) []string { l[2] = strings.Replace(l[2], `"by"`, `"BY"`, 1); return l },
		"a blank":           func(l []string) []string { l[2] = strings.Replace(l[2], ":", ": ", 1); return l },
		"details removed by hand": func(l []string) []string {
			l[2], _, _ = strings.Cut(l[2], `,"salt"`)
			l[2] += `,"erased":"2026-01-01T00:00:00Z"}`
			return l
		},
		"details replaced, as if erased": func(l []string) []string {
			l[2] = strings.Replace(strings.Replace(l[2], "pupil2", "pupil9", 1), "}", `,"erased":"2026-01-01T00:00:00Z"}`, 1)
			return l
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := write(t)
			file := filepath.Join(l.dir, auditFile)
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			lines := change(strings.Split(strings.TrimSpace(string(text)), "\n"))
			if err := os.WriteFile(file, []byte(strings.Join(append(lines, ""), "\n")), 0o600); err != nil {
				t.Fatal(err)
			}
			if v, err := l.Verify(); err != nil || v.Broken == "" {
				t.Errorf("Verify does not notice the change: %+v, %v", v, err)
			}
			if err := l.Add(Entry{By: "eve"}); err != nil {
				t.Fatal(err)
			}
			if v, err := l.Verify(); err != nil || v.Broken == "" {
				t.Errorf("after one more entry Verify does not notice the change: %+v, %v", v, err)
			}
		})
	}
	// Entries are replaced by other and more ones, with the old head.
	other := write(t)
	kept, err := os.ReadFile(filepath.Join(other.dir, headFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(filepath.Join(other.dir, auditFile)), os.Remove(filepath.Join(other.dir, headFile))); err != nil {
		t.Fatal(err)
	}
	for range 7 {
		if err := other.Add(Entry{By: "eve"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(other.dir, headFile), kept, 0o600); err != nil {
		t.Fatal(err)
	}
	if v, err := other.Verify(); err != nil || !strings.Contains(v.Broken, "entry 5 is not the one that was written") {
		t.Errorf("a longer log with the old head: %+v, %v", v, err)
	}
	// The log and its head are gone.
	bare := NewLog(t.TempDir())
	if v, err := bare.Verify(); err != nil || v.Broken != "" {
		t.Errorf("an empty log without accounts: %+v, %v", v, err)
	}
	if err := os.WriteFile(filepath.Join(bare.dir, "accounts.json"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if v, err := bare.Verify(); err != nil || v.Broken == "" {
		t.Errorf("a missing log although there are accounts: %+v, %v", v, err)
	}
	// One crash cuts a line off, another comes before the head is written.
	file := filepath.Join(l.dir, auditFile)
	head, err := os.ReadFile(filepath.Join(l.dir, headFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Add(Entry{By: "ann"}); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString(`{"seq":7,"by`)
		err = errors.Join(err, f.Close(), os.WriteFile(filepath.Join(l.dir, headFile), head, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Add(Entry{By: "ann"}); err != nil {
		t.Fatal(err)
	}
	if v, err := l.Verify(); err != nil || v.Broken != "" || v.Entries != 7 {
		t.Errorf("after a crash: %+v, %v", v, err)
	}
	// A crash comes before the head of several entries is written.
	if head, err = os.ReadFile(filepath.Join(l.dir, headFile)); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := l.Add(Entry{By: "ann"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(l.dir, headFile), head, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := l.Add(Entry{By: "ann"}); err != nil {
		t.Fatal(err)
	}
	if v, err := l.Verify(); err != nil || v.Broken != "" || v.Entries != 11 {
		t.Errorf("after a crash before the head of several entries: %+v, %v", v, err)
	}
}

// The log has concurrent actions in some order, and none is missing.
func TestEntriesThatComeTogether(t *testing.T) {
	l := NewLog(t.TempDir())
	var all sync.WaitGroup
	for n := range 200 {
		all.Go(func() {
			if err := l.Add(Entry{By: fmt.Sprint(n), Details: "x"}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if v, err := l.Verify(); err != nil || v.Broken != "" || v.Entries != 200 {
		t.Errorf("verifying 200 concurrent entries: %+v, %v", v, err)
	}
	entries, err := l.Entries(0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]bool{}
	for _, e := range entries {
		by[e.By] = true
	}
	if len(by) != 200 {
		t.Errorf("the log has %d of 200 concurrent entries", len(by))
	}
}

func TestDetailsCanBeErasedAndTheChainHolds(t *testing.T) {
	l := NewLog(t.TempDir())
	for _, d := range []string{"user:anna", "user:ben", "client:10.1.2.3"} {
		if err := l.Add(Entry{By: "lead", Action: "look", Details: d}); err != nil {
			t.Fatal(err)
		}
	}
	about := func(d string) bool { return strings.Contains(d, "anna") || strings.Contains(d, "10.1.2.3") }
	if n, err := l.Erase(about, true); n != 2 || err != nil {
		t.Fatalf("a dry run of erasing details counts %d entries, %v, want 2", n, err)
	}
	if v, err := l.Verify(); err != nil || v.Erased != 0 || v.Entries != 3 {
		t.Errorf("after a count: %+v, %v; want 3 entries and none erased", v, err)
	}
	n, err := l.Erase(about, false)
	if n != 2 || err != nil {
		t.Fatalf("erasing details: got %d entries, %v, want 2", n, err)
	}
	text, err := os.ReadFile(filepath.Join(l.dir, auditFile))
	if err != nil || bytes.Contains(text, []byte("anna")) || bytes.Contains(text, []byte("10.1.2.3")) || !bytes.Contains(text, []byte("ben")) {
		t.Errorf("after the erasure the log is %s, %v", text, err)
	}
	if v, err := l.Verify(); err != nil || v.Broken != "" || v.Erased != 2 || v.Entries != 4 {
		t.Errorf("verifying after the erasure: %+v, %v; want 2 erased", v, err)
	}
	if err := l.Add(Entry{By: "lead"}); err != nil {
		t.Fatal(err)
	}
	if v, err := l.Verify(); err != nil || v.Broken != "" {
		t.Errorf("verifying after one more entry: %+v, %v", v, err)
	}
}

// device makes passkeys as an authenticator and its browser do.
type device struct {
	key    *ecdsa.PrivateKey
	count  uint32
	origin string
	id     string
}

func (d *device) proof(t testing.TB, kind, challenge string, flags byte) *Proof {
	t.Helper()
	b64 := base64.RawURLEncoding.EncodeToString
	client := fmt.Sprintf(`{"type":%q,"challenge":%q,"origin":%q,"crossOrigin":false}`, kind, challenge, d.origin)
	id := sha256.Sum256([]byte(d.id))
	auth := append(id[:], flags)
	auth = binary.BigEndian.AppendUint32(auth, d.count)
	sum := sha256.Sum256([]byte(client))
	whole := sha256.Sum256(append(slices.Clone(auth), sum[:]...))
	signature, err := ecdsa.SignASN1(rand.Reader, d.key, whole[:])
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(&d.key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	return &Proof{ID: b64(bytes.Repeat([]byte{7}, 32)), Name: "phone", PublicKey: b64(der), ClientData: b64([]byte(client)), AuthData: b64(auth), Signature: b64(signature)}
}

func TestPasskeys(t *testing.T) {
	b, now := book(t)
	if err := b.Add("ann", Owner, nil, ""); err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	const here, id, both = "https://filter.example:8081", "filter.example", flagPresent | flagVerified
	d := &device{key: key, count: 1, origin: here, id: id}
	if err := b.AddPasskey("ann", d.proof(t, "webauthn.create", "not ours", both), here, id); err == nil {
		t.Error("AddPasskey accepts a challenge that is not ours")
	}
	if err := b.AddPasskey("ann", d.proof(t, "webauthn.create", b.Challenge(""), both), here, id); err == nil {
		t.Error("AddPasskey accepts a challenge for another account")
	}
	if err := b.AddPasskey("ann", d.proof(t, "webauthn.create", b.Challenge("ann"), both), here, id); err != nil {
		t.Fatal(err)
	}
	in := func(p *Proof) error {
		_, _, err := b.SignInPasskey(p, here, id, Origin{})
		return err
	}
	c := b.Challenge("")
	d.count = 2
	p := d.proof(t, "webauthn.get", c, both)
	if name, secret, err := b.SignInPasskey(p, here, id, Origin{}); err != nil || name != "ann" {
		t.Fatalf("signing in with a passkey: got %q, %v, want ann", name, err)
	} else if who, ok := b.BySession(secret, true); !ok || who.Name != "ann" {
		t.Errorf("the session of a passkey: got %+v, %v, want ann", who, ok)
	}
	if in(p) == nil {
		t.Error("the same proof signs in twice")
	}
	d.count = 3
	late := b.Challenge("")
	*now = now.Add(challengeTime + 1)
	other := *d
	other.origin = "https://evil.example"
	elsewhere := *d
	elsewhere.id = "evil.example"
	forged := d.proof(t, "webauthn.get", b.Challenge(""), both)
	forged.Signature = p.Signature
	unknown := d.proof(t, "webauthn.get", b.Challenge(""), both)
	unknown.ID = "AAAA"
	copied := *d
	copied.count = 2
	for name, p := range map[string]*Proof{
		"late": d.proof(t, "webauthn.get", late, both), "origin": other.proof(t, "webauthn.get", b.Challenge(""), both),
		"site": elsewhere.proof(t, "webauthn.get", b.Challenge(""), both), "type": d.proof(t, "webauthn.create", b.Challenge(""), both),
		"nobody there": d.proof(t, "webauthn.get", b.Challenge(""), flagPresent), "forged": forged, "unknown": unknown,
		"copied": copied.proof(t, "webauthn.get", b.Challenge(""), both), "empty": {},
	} {
		if in(p) == nil {
			t.Errorf("a proof with another %s signs in", name)
		}
	}
	if err := in(d.proof(t, "webauthn.get", b.Challenge(""), both)); err != nil {
		t.Error(err)
	}
	if err := b.EndPasskey("ann", p.ID); err != nil {
		t.Error(err)
	}
	d.count = 9
	if in(d.proof(t, "webauthn.get", b.Challenge(""), both)) == nil {
		t.Error("a removed passkey signs in")
	}
}

func FuzzProof(f *testing.F) {
	f.Add("webauthn.get", []byte(`{"type":"webauthn.get"}`), make([]byte, 37), []byte{1})
	f.Add("webauthn.create", []byte(`{`), []byte{}, []byte("x"))
	f.Fuzz(func(t *testing.T, kind string, client, auth, key []byte) {
		b, err := Open(filepath.Join(os.TempDir(), "no such folder"), nil)
		if err != nil {
			t.Fatal(err)
		}
		b64 := base64.RawURLEncoding.EncodeToString
		p := &Proof{ID: string(key), ClientData: b64(client), AuthData: b64(auth), PublicKey: b64(key)}
		if _, _, _, err := b.checked(p, kind, "", site{"https://a", "a"}); err == nil {
			t.Error("a proof for an unknown challenge is accepted")
		}
		if k, err := publicKey(key); err == nil && k == nil {
			t.Error("publicKey returns neither a key nor an error")
		}
		verify(string(client), string(auth))
	})
}
