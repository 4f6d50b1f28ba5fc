package validate

import (
	"context"
	"crypto"
	"encoding/base64"
	"errors"
	"fmt"
	miekg "github.com/miekg/dns"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"shuultuur/lib/setting"
)

// A root is a signed root zone in memory.
type root struct {
	t    testing.TB
	key  *miekg.DNSKEY
	sign crypto.Signer
	keys []miekg.RR // more of them

	mu    sync.Mutex
	asked map[string]int
}

func newRoot(t testing.TB) *root {
	t.Helper()
	r := &root{t: t, asked: map[string]int{}}
	r.key = &miekg.DNSKEY{Hdr: miekg.RR_Header{Name: ".", Rrtype: miekg.TypeDNSKEY, Class: miekg.ClassINET, Ttl: 300}, Flags: 257, Protocol: 3, Algorithm: miekg.ED25519}
	k, err := r.key.Generate(256)
	if err != nil {
		t.Fatal(err)
	}
	r.sign = k.(crypto.Signer)
	return r
}

func (r *root) rr(s string) miekg.RR {
	rr, err := miekg.NewRR(s)
	if err != nil {
		r.t.Fatal(err)
	}
	return rr
}

// signed returns a set with its signature.
func (r *root) signed(set ...miekg.RR) []miekg.RR {
	now := time.Now()
	sig := &miekg.RRSIG{Hdr: miekg.RR_Header{Ttl: 300}, Algorithm: miekg.ED25519, SignerName: ".", KeyTag: r.key.KeyTag(),
		Inception: uint32(now.Add(-time.Hour).Unix()), Expiration: uint32(now.Add(time.Hour).Unix())}
	if err := sig.Sign(r.sign, set); err != nil {
		r.t.Fatal(err)
	}
	return append(set, sig)
}

// message returns an answer with the given sections.
func message(name string, qtype uint16, rcode int, answer, authority []miekg.RR) *miekg.Msg {
	m := new(miekg.Msg).SetQuestion(name, qtype)
	m.Response, m.Rcode, m.Answer, m.Ns = true, rcode, answer, authority
	return m
}

// ask answers for DNSKEY of the root; of everything else it proves that it
// does not exist.
func (r *root) ask(ctx context.Context, name []byte, qtype uint16) ([]byte, error) {
	host, _, err := miekg.UnpackDomainName(name, 0)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.asked[fmt.Sprint(host, miekg.Type(qtype))]++
	r.mu.Unlock()
	if qtype == miekg.TypeDNSKEY {
		return message(host, qtype, 0, r.signed(append([]miekg.RR{r.key}, r.keys...)...), nil).Pack()
	}
	return message(host, qtype, miekg.RcodeNameError, nil, r.signed(r.rr(". 60 NSEC . NS SOA RRSIG NSEC DNSKEY"))).Pack()
}

func (r *root) validator() *Validator {
	v, err := New(Config{Anchors: []string{r.key.ToDS(miekg.SHA256).String()}}, r.ask)
	if err != nil {
		r.t.Fatal(err)
	}
	return v
}

func (r *root) validate(m *miekg.Msg) (*Validator, *work, error) {
	v := r.validator()
	w := &work{mostQuestions, mostSignatures, mostFailures, mostHashes}
	return v, w, v.message(context.Background(), w, m, "", new(Result))
}

func TestSignedByTheRoot(t *testing.T) {
	r := newRoot(t)
	a := r.signed(r.rr("www. 60 A 192.0.2.1"))
	if _, _, err := r.validate(message("WWW.", miekg.TypeA, 0, a, nil)); err != nil {
		t.Errorf("a good answer: %v", err)
	}
	a[0].(*miekg.A).A[3]++
	if _, _, err := r.validate(message("www.", miekg.TypeA, 0, a, nil)); err == nil {
		t.Error("validate accepted a changed answer")
	}
}

func TestRecordsOfANameThatDoesNotExistAreBogus(t *testing.T) {
	r := newRoot(t)
	a := r.signed(r.rr("www. 60 A 192.0.2.1"))
	if _, _, err := r.validate(message("www.", miekg.TypeA, miekg.RcodeNameError, a, nil)); ede(err) != edeBogus {
		t.Errorf("NXDOMAIN with records: got %v, want bogus", err)
	}
}

// ede returns the Extended DNS Error of a bogus answer, 0 for others.
func ede(err error) uint16 {
	if f := faultOf(err); f != nil {
		return f.ede
	}
	return 0
}

// CVE-2023-50387: many keys of one tag, many signatures by it, many sets.
func TestManyKeysAndSignaturesTakeBoundedWork(t *testing.T) {
	r := newRoot(t)
	// A tag is a sum of 16-bit words, which exchanging words does not change.
	public, err := base64.StdEncoding.DecodeString(r.key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		b := slices.Clone(public)
		at := 2 * (i + 1)
		b[0], b[1], b[at], b[at+1] = b[at], b[at+1], b[0], b[1]
		k := *r.key
		if k.PublicKey = base64.StdEncoding.EncodeToString(b); k.KeyTag() != r.key.KeyTag() {
			t.Fatal("the second key has another tag than the first")
		}
		r.keys = append(r.keys, &k)
	}
	var answer []miekg.RR
	for i := range 40 {
		set := r.signed(r.rr(fmt.Sprintf("www. 60 TYPE%d \\# 1 00", 1000+i)))
		sig := set[1].(*miekg.RRSIG)
		answer = append(answer, set[0])
		for j := range 30 {
			bad := *sig
			bad.Expiration -= uint32(j + 1) // another signature that is wrong
			answer = append(answer, &bad)
		}
	}
	v, w, err := r.validate(message("www.", miekg.TypeANY, 0, answer, nil))
	if ede(err) == 0 {
		t.Errorf("too many bad signatures or keys: got %v, want bogus", err)
	}
	if used := mostSignatures - w.signatures; used > mostFailures+mostKeys || used < 2 {
		t.Errorf("%d signatures were tried, want at most %d that are wrong", used, mostFailures)
	}
	if w.failures < 0 {
		t.Errorf("%d more signatures were tried than the limit allows", -w.failures)
	}
	// A set alone does not use it up, so that a valid signature among it is found.
	one := append(answer[:4:4], r.signed(r.rr("www. 60 TYPE1000 \\# 1 00"))[1])
	if _, _, err := r.validate(message("www.", 1000, 0, one, nil)); err != nil {
		t.Errorf("three wrong signatures and a right one: %v", err)
	}
	_ = v
}

// CVE-2023-50868: hashes of long names with many iterations.
func TestHashesAreBounded(t *testing.T) {
	r := newRoot(t)
	long := strings.Repeat("a.", 120)
	for _, x := range []struct {
		iterations int
		ede        uint16
	}{{0, edeNSECMissing}, {mostIterations, edeNSECMissing}, {mostIterations + 1, 0}, {65535, 0}} {
		owner := miekg.HashName("elsewhere.", miekg.SHA1, 0, "") + "."
		set := r.signed(r.rr(fmt.Sprintf("%s 60 NSEC3 1 0 %d - %s A", owner, x.iterations, owner[:32])))
		_, w, err := r.validate(message(long, miekg.TypeA, miekg.RcodeNameError, nil, set))
		if ede(err) != x.ede || x.ede == 0 && !errors.Is(err, errInsecure) {
			t.Errorf("%d iterations: got %v, want error %d", x.iterations, err, x.ede)
		}
		if w.hashes < 0 {
			t.Errorf("%d iterations: %d hashes were computed, more than the limit", x.iterations, mostHashes-w.hashes)
		}
	}
}

func TestQuestionsAreBounded(t *testing.T) {
	r := newRoot(t)
	v, _, err := r.validate(message(strings.Repeat("a.", 120), miekg.TypeA, 0, []miekg.RR{r.rr(strings.Repeat("a.", 120) + " 60 A 192.0.2.1")}, nil))
	if ede(err) == 0 || v.Counts.Limited.Load() == 0 {
		t.Errorf("deep name: got %v, %d limits counted; want bogus and some", err, v.Counts.Limited.Load())
	}
	if n := v.Counts.Questions.Load(); n > mostQuestions {
		t.Errorf("%d queries for one validation, more than mostQuestions", n)
	}
}

func TestKeysAreAskedForOnce(t *testing.T) {
	r := newRoot(t)
	v := r.validator()
	a := r.signed(r.rr("www. 60 A 192.0.2.1"))
	var wg sync.WaitGroup
	for range 50 {
		m := message("www.", miekg.TypeA, 0, []miekg.RR{miekg.Copy(a[0]), miekg.Copy(a[1])}, nil)
		wg.Go(func() {
			if res := v.Validate(context.Background(), m, ""); res.Status != Secure {
				t.Errorf("Validate: got %+v, want secure", res)
			}
		})
	}
	wg.Wait()
	if n := r.asked[".DNSKEY"]; n != 1 {
		t.Errorf("%d queries for the root's keys, want 1", n)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	m := memory{entries: map[setKey]entry{}, flights: map[setKey]chan struct{}{}}
	for i := range mostEntries + 500 {
		if _, err := m.get(context.Background(), setKey{fmt.Sprint(i), 1}, time.Now, func() (entry, error) { return entry{ttl: time.Hour}, nil }); err != nil {
			t.Fatal(err)
		}
	}
	if len(m.entries) > mostEntries {
		t.Errorf("the memory has %d entries, want at most %d", len(m.entries), mostEntries)
	}
}

func TestFailuresToAskAreNotRemembered(t *testing.T) {
	r := newRoot(t)
	broken := true
	v, err := New(Config{Anchors: []string{r.key.ToDS(miekg.SHA256).String()}}, func(ctx context.Context, name []byte, qtype uint16) ([]byte, error) {
		if broken {
			return nil, context.DeadlineExceeded
		}
		return r.ask(ctx, name, qtype)
	})
	if err != nil {
		t.Fatal(err)
	}
	m := func() *miekg.Msg { return message("www.", miekg.TypeA, 0, r.signed(r.rr("www. 60 A 192.0.2.1")), nil) }
	if res := v.Validate(context.Background(), m(), ""); res.Status != Bogus || res.EDE != edeNoUpstream {
		t.Errorf("without upstreams: got %+v, want bogus with the error no upstream", res)
	}
	broken = false
	if res := v.Validate(context.Background(), m(), ""); res.Status != Secure {
		t.Errorf("after the upstreams came back: got %+v, want secure", res)
	}
}

func TestTTLEndsWithTheSignature(t *testing.T) {
	r := newRoot(t)
	a := r.signed(r.rr("www. 300 A 192.0.2.1"))
	a[0].Header().Ttl = 86400
	m := message("www.", miekg.TypeA, 0, a, nil)
	if _, _, err := r.validate(m); err != nil || m.Answer[0].Header().Ttl != 300 {
		t.Errorf("%v; TTL %d, want the signed one", err, m.Answer[0].Header().Ttl)
	}
}

func TestNegativeAnchorsAreNotValidated(t *testing.T) {
	r := newRoot(t)
	v := r.validator()
	v.negative["corp."] = true
	for name, want := range map[string]Status{"www.corp.": Insecure, "corp.": Insecure, "xcorp.": Bogus} {
		if res := v.Validate(context.Background(), message(name, miekg.TypeA, 0, []miekg.RR{r.rr(name + " 60 A 192.0.2.1")}, nil), ""); res.Status != want {
			t.Errorf("%s: got %+v, want %v", name, res, want)
		}
	}
}

// TestTimeServersAreFoundByAMachineWithAWrongClock: everything else stays bogus, and with a right clock an
// answer whose signature is out of date does, too.
func TestTimeServersAreFoundByAMachineWithAWrongClock(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for _, tt := range []struct {
		name   string
		off    time.Duration // of the clock
		forged bool          // the root's keys are not signed by the anchor
		want   Status
	}{
		{"0.debian.pool.ntp.org.", -56 * year, false, Insecure}, {"POOL.ntp.org.", -year, false, Insecure}, {"time.cloudflare.com.", year, false, Insecure},
		{"pool.ntp.org.", 0, false, Bogus}, {"xpool.ntp.org.", -year, false, Bogus}, {"ntp.org.", -year, false, Bogus}, {"www.bank.example.", year, false, Bogus},
		{"pool.ntp.org.", -year, true, Bogus}, {"pool.ntp.org.", year, true, Bogus},
	} {
		r := newRoot(t)
		v := r.validator()
		if tt.forged {
			other := newRoot(t)
			r.sign = other.sign
		}
		v.now = func() time.Time { return time.Now().Add(tt.off) }
		m := message(tt.name, miekg.TypeA, 0, []miekg.RR{r.rr(tt.name + " 60 A 192.0.2.1")}, nil)
		if res := v.Validate(t.Context(), m, ""); res.Status != tt.want {
			t.Errorf("%s with the clock off by %v: got %+v, want %v", tt.name, tt.off, res, tt.want)
		}
	}
	// A signature out of date, while the root's keys are valid.
	r := newRoot(t)
	v := r.validator()
	old := r.signed(r.rr("pool.ntp.org. 60 A 192.0.2.1"))
	old[1].(*miekg.RRSIG).Expiration = uint32(time.Now().Add(-30 * 24 * time.Hour).Unix())
	if res := v.Validate(t.Context(), message("pool.ntp.org.", miekg.TypeA, 0, old, nil), ""); res.Status != Bogus {
		t.Errorf("an old signature with a right clock: got %+v, want bogus", res)
	}
}

func TestMistakesInAnchorsAreNamed(t *testing.T) {
	for _, x := range []struct {
		cfg       Config
		key, want string
	}{
		{Config{Anchors: []string{". DS what"}}, "trust-anchors[0]", "not a record"},
		{Config{Anchors: []string{rootAnchors[0], ". A 192.0.2.1"}}, "trust-anchors[1]", "neither a DS"},
		{Config{Anchors: []string{". DS 1 5 1 0000000000000000000000000000000000000000"}}, "trust-anchors[0]", "not supported"},
		{Config{Anchors: []string{""}}, "trust-anchors[0]", "empty"},
		{Config{Negative: []string{"a..b"}}, "negative-trust-anchors[0]", "not a domain"},
	} {
		_, err := New(x.cfg, nil)
		var s *setting.Error
		if !errors.As(err, &s) || s.Key != x.key || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%+v: %v; want a mistake at %q that says %q", x.cfg, err, x.key, x.want)
		}
	}
	if v, err := New(Config{}, nil); err != nil || len(v.anchors["."].ds) != 2 {
		t.Errorf("New without settings: error %v, or not the root's two anchors", err)
	}
}

func TestOrderOfNames(t *testing.T) {
	// RFC 4034 section 6.1.
	names := []string{"example.", "a.example.", "yljkjljk.a.example.", "Z.a.example.", "zABC.a.EXAMPLE.", "z.example.", "\\001.z.example.", "*.z.example.", "\\200.z.example."}
	for i := range names[1:] {
		if compare(labels(names[i]), labels(names[i+1])) >= 0 {
			t.Errorf("compare: %s does not sort before %s", names[i], names[i+1])
		}
	}
}

func TestOddKeysAndSignaturesOnlyFail(t *testing.T) {
	r := newRoot(t)
	v := r.validator()
	set := r.signed(r.rr("www. 60 A 192.0.2.1"))
	rnd := rand.New(rand.NewPCG(1, 1))
	bytes := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			n := rnd.Uint32()
			b[i] = byte(n & (n >> 8)) // more zeros than ones
		}
		return base64.StdEncoding.EncodeToString(b)
	}
	for _, algorithm := range []uint8{miekg.RSASHA256, miekg.RSASHA512, miekg.ECDSAP256SHA256, miekg.ECDSAP384SHA384, miekg.ED25519} {
		for _, n := range []int{0, 1, 2, 3, 4, 5, 31, 32, 33, 63, 64, 65, 95, 96, 97, 128, 259, 260, 1024} {
			for _, m := range []int{0, 1, 32, 64, 96, 128, 256} {
				k := *r.key
				k.Algorithm, k.PublicKey = algorithm, bytes(n)
				sig := *set[1].(*miekg.RRSIG)
				sig.Algorithm, sig.KeyTag, sig.Signature = algorithm, k.KeyTag(), bytes(m)
				w := &work{signatures: 1, failures: 1}
				if err := v.try(w, &rrset{name: "www.", rtype: miekg.TypeA, rrs: set[:1]}, &sig, []*miekg.DNSKEY{&k}); err == nil {
					t.Errorf("algorithm %d, key of %d bytes: a meaningless signature of %d bytes is valid", algorithm, n, m)
				}
			}
		}
	}
}

// FuzzValidate has no message validated that the root has not signed.
func FuzzValidate(f *testing.F) {
	r := newRoot(f)
	v := r.validator()
	for _, m := range []*miekg.Msg{
		message("www.", miekg.TypeA, 0, r.signed(r.rr("www. 60 A 192.0.2.1")), nil),
		message("x.www.", miekg.TypeA, 0, append(r.signed(r.rr("www. 60 DNAME a.")), r.rr("x.www. 60 CNAME x.a.")), nil),
		message("none.", miekg.TypeA, 3, nil, r.signed(r.rr(". 60 NSEC . NS SOA RRSIG NSEC DNSKEY"))),
		message("none.", miekg.TypeA, 3, nil, r.signed(r.rr(miekg.HashName("elsewhere.", miekg.SHA1, 0, "")+". 60 NSEC3 1 1 0 - "+miekg.HashName("a.", miekg.SHA1, 0, "")+" A"))),
	} {
		out, err := m.Pack()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(out)
	}
	f.Fuzz(func(t *testing.T, msg []byte) {
		m := new(miekg.Msg)
		if m.Unpack(msg) != nil {
			return
		}
		if res := v.Validate(context.Background(), m, ""); res.Status != Secure {
			return
		}
		for _, rr := range m.Answer {
			if a, ok := rr.(*miekg.A); ok && a.Hdr.Name == strings.ToLower(m.Question[0].Name) && (a.A.String() != "192.0.2.1" || a.Hdr.Name != "www.") {
				t.Fatalf("an answer with the forged record %v is secure", a)
			}
		}
	})
}

func TestAnAnchorOfADomainLeavesTheRootsKeys(t *testing.T) {
	r := newRoot(t)
	local := &miekg.DNSKEY{Hdr: miekg.RR_Header{Name: "lan.", Rrtype: miekg.TypeDNSKEY, Class: 1}, Flags: 257, Protocol: 3, Algorithm: miekg.ED25519}
	if _, err := local.Generate(256); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		anchors []string
		name    string
		want    string
	}{
		{nil, "www.example.", "."},
		{[]string{local.ToDS(miekg.SHA256).String()}, "www.example.", "."},
		{[]string{local.ToDS(miekg.SHA256).String()}, "www.lan.", "lan."},
	} {
		v, err := New(Config{Anchors: x.anchors}, r.ask)
		if err != nil {
			t.Fatal(err)
		}
		if got := v.anchorOf(x.name); got != x.want {
			t.Errorf("with %d anchors, that of %s is %q, want %q", len(x.anchors), x.name, got, x.want)
		}
		if n := len(v.anchors["."].ds); n != len(rootAnchors) {
			t.Errorf("%d keys of the root, want %d", n, len(rootAnchors))
		}
	}
	mine := r.key.ToDS(miekg.SHA256).String()
	v, err := New(Config{Anchors: []string{mine}}, r.ask)
	if err != nil || len(v.anchors["."].ds) != 1 {
		t.Errorf("an anchor of the root replaces the others: %v, %v", v.anchors, err)
	}
}
