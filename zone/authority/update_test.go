//go:build !small

package authority

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	miekg "github.com/miekg/dns"

	"shuultuur/lib/dns"
	"shuultuur/lib/redis"
	"shuultuur/lib/setting"
	"shuultuur/lib/wait/waittest"
	"shuultuur/nameserver"
	"shuultuur/test/peer"
	"shuultuur/test/redistest"
	"shuultuur/zone"
	"shuultuur/zone/redins"
	"shuultuur/zone/sign"
	"shuultuur/zone/transfer"
)

const (
	updateKey    = "updater."
	updateSecret = "c2hhcmVkIHNlY3JldCBvZiB0d28gc2VydmVycyE="
)

// updatable are settings in which one key may update example.test. and fetch all zones.
func updatable(files ...zone.File) Config {
	return Config{Files: zone.Config{Files: files}, Transfer: transfer.Config{
		Keys:   []transfer.KeyConfig{{Name: updateKey, Secret: updateSecret}, {Name: "other.", Secret: updateSecret}},
		Allow:  []transfer.Allow{{Networks: setting.Networks{netip.MustParsePrefix("127.0.0.0/8")}}},
		Update: []transfer.Update{{Zones: []string{"example.test", "redis.example", "fetched.example"}, Key: updateKey}},
	}}
}

// listen serves an authority at an address until the test ends or stop is called.
func listen(t testing.TB, at string, cfg Config, redis *redins.Config) (a *Authority, addr string, stop func()) {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	a, err := New(cfg, redis, func() Upstream { return nil }, nil, log)
	if err != nil {
		t.Fatal(err)
	}
	names, err := nameserver.New(nameserver.Config{Listen: []string{at}}, log, nil)
	if err != nil {
		t.Fatal(err)
	}
	names.SetResponders(a, a, a.Outside())
	if err := names.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = a.Run(ctx) })
	wg.Go(func() { _ = names.Run(ctx) })
	a.Ready()
	stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(stop)
	return a, names.Addrs(dns.TCP)[0].String(), stop
}

// updatedZone serves a zone file and returns its path and the address of the server.
func updatedZone(t testing.TB, text string) (file, addr string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "a.zone")
	if err := os.WriteFile(file, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
	_, addr, _ = listen(t, "127.0.0.1:0", updatable(zone.File{Path: setting.Source(file), Origin: "example.test."}), nil)
	return file, addr
}

// An exchange of a message, signed with a key if it is not "".
func exchange(t testing.TB, addr, key string, m *miekg.Msg) int {
	t.Helper()
	m = m.Copy()
	m.Id = miekg.Id()
	c := &miekg.Client{Net: "tcp", Timeout: time.Minute, TsigSecret: map[string]string{key: updateSecret}}
	if key != "" {
		m.SetTsig(key, miekg.HmacSHA256, 300, time.Now().Unix())
	}
	r, _, err := c.Exchange(m, addr)
	if err != nil && (r == nil || r.Rcode == miekg.RcodeSuccess) {
		t.Fatalf("exchange with %s: %v\n%v", addr, err, m)
	}
	return r.Rcode
}

func rrOf(t testing.TB, text string) miekg.RR {
	t.Helper()
	rr, err := miekg.NewRR(text)
	if err != nil {
		t.Fatal(err)
	}
	return rr
}

// bare returns a record of a message without data, as prerequisites and deletions have.
func bare(name string, typ, class uint16) miekg.RR {
	return &miekg.ANY{Hdr: miekg.RR_Header{Name: name, Rrtype: typ, Class: class}}
}

// none returns a record with class NONE, whose TTL is 0.
func none(rr miekg.RR) miekg.RR {
	rr.Header().Class, rr.Header().Ttl = miekg.ClassNONE, 0
	return rr
}

func ttl0(rr miekg.RR) miekg.RR {
	rr.Header().Ttl = 0
	return rr
}

func message(before, change []miekg.RR) *miekg.Msg {
	m := new(miekg.Msg).SetUpdate("example.test.")
	m.Answer, m.Ns = before, change
	return m
}

func TestUpdatesAnswerAsRFC2136Says(t *testing.T) {
	const text = apex + "ns A 192.0.2.1\nwww A 192.0.2.2\nwww A 192.0.2.3\nalias CNAME www\nmail MX 10 Ns.Example.test.\n"
	_, addr := updatedZone(t, text)
	add := rrOf(t, "x.example.test. 60 A 192.0.2.9")
	gone := func(name string) []miekg.RR { return []miekg.RR{bare(name, miekg.TypeANY, miekg.ClassANY)} }
	for _, c := range []struct {
		name   string
		before []miekg.RR
		change []miekg.RR
		want   int
	}{
		{"nothing", nil, nil, miekg.RcodeSuccess},
		{"a name is in use", []miekg.RR{bare("www.example.test.", miekg.TypeANY, miekg.ClassANY)}, nil, miekg.RcodeSuccess},
		{"a name in other case is in use", []miekg.RR{bare("WWW.example.TEST.", miekg.TypeANY, miekg.ClassANY)}, nil, miekg.RcodeSuccess},
		{"a name is not in use", []miekg.RR{bare("no.example.test.", miekg.TypeANY, miekg.ClassANY)}, nil, miekg.RcodeNameError},
		{"a name must not be in use", []miekg.RR{bare("www.example.test.", miekg.TypeANY, miekg.ClassNONE)}, nil, miekg.RcodeYXDomain},
		{"a free name must not be in use", []miekg.RR{bare("no.example.test.", miekg.TypeANY, miekg.ClassNONE)}, nil, miekg.RcodeSuccess},
		{"a set exists", []miekg.RR{bare("www.example.test.", miekg.TypeA, miekg.ClassANY)}, nil, miekg.RcodeSuccess},
		{"a set does not exist", []miekg.RR{bare("www.example.test.", miekg.TypeTXT, miekg.ClassANY)}, nil, miekg.RcodeNXRrset},
		{"a set must not exist", []miekg.RR{bare("www.example.test.", miekg.TypeA, miekg.ClassNONE)}, nil, miekg.RcodeYXRrset},
		{"a missing set must not exist", []miekg.RR{bare("www.example.test.", miekg.TypeTXT, miekg.ClassNONE)}, nil, miekg.RcodeSuccess},
		{"a whole set", []miekg.RR{rrOf(t, "www.example.test. 0 A 192.0.2.3"), rrOf(t, "www.example.test. 0 A 192.0.2.2")}, nil, miekg.RcodeSuccess},
		{"a record twice", []miekg.RR{rrOf(t, "www.example.test. 0 A 192.0.2.3"), rrOf(t, "www.example.test. 0 A 192.0.2.3")}, nil, miekg.RcodeNXRrset},
		{"half a set", []miekg.RR{rrOf(t, "www.example.test. 0 A 192.0.2.3")}, nil, miekg.RcodeNXRrset},
		{"a set and more", []miekg.RR{rrOf(t, "www.example.test. 0 A 192.0.2.3"), rrOf(t, "www.example.test. 0 A 192.0.2.2"), rrOf(t, "www.example.test. 0 A 192.0.2.4")}, nil, miekg.RcodeNXRrset},
		{"a set with another case", []miekg.RR{rrOf(t, "mail.example.test. 0 MX 10 ns.EXAMPLE.test.")}, nil, miekg.RcodeSuccess},
		{"a set that does not exist", []miekg.RR{rrOf(t, "no.example.test. 0 A 192.0.2.3")}, nil, miekg.RcodeNXRrset},
		{"a prerequisite with a TTL", []miekg.RR{rrOf(t, "www.example.test. 60 A 192.0.2.3")}, nil, miekg.RcodeFormatError},
		{"a prerequisite outside", []miekg.RR{bare("www.example.org.", miekg.TypeANY, miekg.ClassANY)}, nil, miekg.RcodeNotZone},
		{"a prerequisite of another class", []miekg.RR{bare("www.example.test.", miekg.TypeA, miekg.ClassCHAOS)}, nil, miekg.RcodeFormatError},
		{"a prerequisite of any type with the zone's class", []miekg.RR{bare("www.example.test.", miekg.TypeANY, miekg.ClassINET)}, nil, miekg.RcodeFormatError},
		{"a prerequisite with data that must not have any", []miekg.RR{none(rrOf(t, "www.example.test. A 192.0.2.3"))}, nil, miekg.RcodeFormatError},
		{"prerequisites come before changes", []miekg.RR{bare("no.example.test.", miekg.TypeANY, miekg.ClassANY)}, []miekg.RR{bare("www.example.org.", miekg.TypeA, miekg.ClassANY)}, miekg.RcodeNameError},
		{"a change outside", nil, []miekg.RR{rrOf(t, "example.org. 60 A 192.0.2.9")}, miekg.RcodeNotZone},
		{"a change of the parent", nil, []miekg.RR{rrOf(t, "test. 60 A 192.0.2.9")}, miekg.RcodeNotZone},
		{"a change of another class", nil, []miekg.RR{&miekg.TXT{Hdr: miekg.RR_Header{Name: "x.example.test.", Rrtype: miekg.TypeTXT, Class: miekg.ClassCHAOS}, Txt: []string{"a"}}}, miekg.RcodeFormatError},
		{"a deletion with a TTL", nil, []miekg.RR{&miekg.ANY{Hdr: miekg.RR_Header{Name: "www.example.test.", Rrtype: miekg.TypeA, Class: miekg.ClassANY, Ttl: 60}}}, miekg.RcodeFormatError},
		{"a deletion of a record with a TTL", nil, []miekg.RR{func() miekg.RR { rr := none(rrOf(t, "www.example.test. A 192.0.2.3")); rr.Header().Ttl = 1; return rr }()}, miekg.RcodeFormatError},
		{"a record of any type", nil, []miekg.RR{bare("www.example.test.", miekg.TypeANY, miekg.ClassINET)}, miekg.RcodeFormatError},
		{"a deletion of AXFR", nil, []miekg.RR{bare("www.example.test.", miekg.TypeAXFR, miekg.ClassANY)}, miekg.RcodeFormatError},
		{"a deletion of a record of any type", nil, []miekg.RR{bare("www.example.test.", miekg.TypeANY, miekg.ClassNONE)}, miekg.RcodeFormatError},
		{"an address without data", nil, []miekg.RR{bare("www.example.test.", miekg.TypeA, miekg.ClassINET)}, miekg.RcodeFormatError},
		{"nothing of a message with a mistake is done", nil, append(gone("www.example.test."), rrOf(t, "example.org. 60 A 192.0.2.9")), miekg.RcodeNotZone},
		{"the SOA and the last name server stay", nil, append(gone("example.test."), bare("example.test.", miekg.TypeSOA, miekg.ClassANY), none(rrOf(t, "example.test. NS ns.example.test.")), none(rrOf(t, "example.test. SOA ns.example.test. hostmaster.example.test. 7 3600 600 86400 300"))), miekg.RcodeSuccess},
		{"a record beside an alias is left out", nil, []miekg.RR{rrOf(t, "alias.example.test. 60 A 192.0.2.9"), rrOf(t, "www.example.test. 60 CNAME ns.example.test.")}, miekg.RcodeSuccess},
		{"an SOA elsewhere is left out", nil, []miekg.RR{rrOf(t, "www.example.test. 60 SOA ns.example.test. hostmaster.example.test. 99 3600 600 86400 300")}, miekg.RcodeSuccess},
		{"an SOA with a smaller serial is left out", nil, []miekg.RR{rrOf(t, "example.test. 60 SOA a.example.test. hostmaster.example.test. 5 3600 600 86400 300")}, miekg.RcodeSuccess},
		{"what is missing can be deleted", nil, append(gone("no.example.test."), none(rrOf(t, "www.example.test. A 192.0.2.77"))), miekg.RcodeSuccess},
		{"there already", nil, []miekg.RR{rrOf(t, "www.example.test. 300 A 192.0.2.3")}, miekg.RcodeSuccess},
	} {
		if got := exchange(t, addr, updateKey, message(c.before, c.change)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, miekg.RcodeToString[got], miekg.RcodeToString[c.want])
		}
	}
	z := fetch(t, addr)
	want := fetchText(text)
	if !slices.Equal(z, want) {
		t.Errorf("the zone has changed: got\n%s\nwant\n%s", strings.Join(z, "\n"), strings.Join(want, "\n"))
	}
	if got := exchange(t, addr, "", message(nil, []miekg.RR{add})); got != miekg.RcodeRefused {
		t.Errorf("without a signature: %s", miekg.RcodeToString[got])
	}
	if got := exchange(t, addr, "other.", message(nil, []miekg.RR{add})); got != miekg.RcodeRefused {
		t.Errorf("with a key that may not: %s", miekg.RcodeToString[got])
	}
	for _, other := range []func(m *miekg.Msg){
		func(m *miekg.Msg) { m.Question[0].Name = "example.org." },
		func(m *miekg.Msg) { m.Question[0].Name = "www.example.test." },
		func(m *miekg.Msg) { m.Question[0].Qclass = miekg.ClassCHAOS },
	} {
		m := message(nil, []miekg.RR{add})
		other(m)
		if got := exchange(t, addr, updateKey, m); got != miekg.RcodeNotAuth {
			t.Errorf("%v: %s, want NOTAUTH", m.Question[0], miekg.RcodeToString[got])
		}
	}
	m := message(nil, []miekg.RR{add})
	m.Question[0].Qtype = miekg.TypeA
	if got := exchange(t, addr, updateKey, m); got != miekg.RcodeFormatError {
		t.Errorf("a zone that is not asked for with SOA: %s", miekg.RcodeToString[got])
	}
	m.Question = nil
	if got := exchange(t, addr, updateKey, m); got != miekg.RcodeFormatError {
		t.Errorf("without a zone: %s", miekg.RcodeToString[got])
	}
}

// fetch returns the records of example.test. as a server sends them, sorted, without the second SOA.
func fetch(t testing.TB, addr string) (all []string) {
	t.Helper()
	m := new(miekg.Msg).SetAxfr("example.test.")
	tr := &miekg.Transfer{ReadTimeout: time.Minute}
	in, err := tr.In(m, addr)
	if err != nil {
		t.Fatal(err)
	}
	for e := range in {
		if e.Error != nil {
			t.Fatal(e.Error)
		}
		for _, rr := range e.RR {
			all = append(all, strings.ToLower(rr.String()))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// withoutTTL leaves out TTLs and the SOA record.
func withoutTTL(all []string) (out []string) {
	for _, line := range all {
		fields := strings.Split(line, "\t")
		if fields[3] != "soa" {
			out = append(out, strings.Join(slices.Delete(fields, 1, 2), "\t"))
		}
	}
	slices.Sort(out)
	return out
}

func fetchText(text string) (all []string) {
	z, err := zone.Read(strings.NewReader(text), "example.test.", "")
	if err != nil {
		panic(err)
	}
	for _, rr := range z.Records {
		all = append(all, strings.ReplaceAll(strings.ToLower(rr.String()), `\$`, "$"))
	}
	slices.Sort(all)
	return all
}

// TestAnUpdateChangesItsLinesOfAFile: comments and all other lines stay.
func TestAnUpdateChangesItsLinesOfAFile(t *testing.T) {
	raised := strings.Replace(apex, " 7 ", " 8 ", 1)
	a := rrOf(t, "www.example.test. 60 A 192.0.2.9")
	for _, c := range []struct {
		name, text string
		change     []miekg.RR
		want       string
	}{
		{"added at the end", apex + "ns A 192.0.2.1", []miekg.RR{a}, raised + "ns A 192.0.2.1\nwww 60 A 192.0.2.9\n"},
		{"added beside its name", apex + "ns A 192.0.2.1 ; here\n\n; mail\nmail A 192.0.2.3\n", []miekg.RR{rrOf(t, "ns.example.test. 300 AAAA 2001:db8::1")}, raised + "ns A 192.0.2.1 ; here\nns 300 AAAA 2001:db8::1\n\n; mail\nmail A 192.0.2.3\n"},
		{"several, in several places", apex + "ns A 192.0.2.1\nold A 192.0.2.3 ; gone\n TXT stays\n; the end\n", []miekg.RR{bare("old.example.test.", miekg.TypeA, miekg.ClassANY), a, rrOf(t, "ns.example.test. 300 TXT x")}, raised + "ns A 192.0.2.1\nns 300 TXT \"x\"\nold.example.test. TXT stays\nwww 60 A 192.0.2.9\n; the end\n"},
		{"of $GENERATE", apex + "ns A 192.0.2.1\n$GENERATE 1-3 pc$ A 192.0.2.$\n", []miekg.RR{bare("pc2.example.test.", miekg.TypeA, miekg.ClassANY)}, raised + "ns A 192.0.2.1\npc1 300 A 192.0.2.1\npc3 300 A 192.0.2.3\n"},
		{"another TTL", apex + "ns A 192.0.2.1\nwww A 192.0.2.9 ; the web\nwww A 192.0.2.8\n", []miekg.RR{a}, raised + "ns A 192.0.2.1\nwww 60 A 192.0.2.9 ; the web\nwww 60 A 192.0.2.8\n"},
		{"another alias", apex + "ns A 192.0.2.1\nwww CNAME ns ; the web\n", []miekg.RR{rrOf(t, "www.example.test. 300 CNAME example.org.")}, raised + "ns A 192.0.2.1\nwww 300 CNAME example.org. ; the web\n"},
		{"another SOA", apex + "ns A 192.0.2.1\n", []miekg.RR{rrOf(t, "example.test. 300 SOA ns.example.test. root.example.test. 20 3600 600 86400 300")}, strings.Replace(apex, "@ SOA ns hostmaster 7", "@ 300 SOA ns.example.test. root.example.test. 20", 1) + "ns A 192.0.2.1\n"},
		{"without $TTL, where lines have that of the last", "@ 60 SOA ns hostmaster 7 3600 600 86400 300\n@ NS ns\nns A 192.0.2.1\nold 300 A 192.0.2.2\nlast A 192.0.2.3\n", []miekg.RR{bare("old.example.test.", miekg.TypeANY, miekg.ClassANY)}, "example.test. 60 SOA ns.example.test. hostmaster.example.test. 8 3600 600 86400 300\nexample.test. 60 NS ns.example.test.\nns.example.test. 60 A 192.0.2.1\nlast.example.test. 300 A 192.0.2.3\n"},
		{"below $ORIGIN", apex + "ns A 192.0.2.1\n$ORIGIN lab.example.test.\nwww A 192.0.2.2\n", []miekg.RR{a}, raised + "ns A 192.0.2.1\n$ORIGIN lab.example.test.\nwww A 192.0.2.2\nwww.example.test. 60 A 192.0.2.9\n"},
		{"a name that begins like a directive", apex + "ns A 192.0.2.1\n", []miekg.RR{rrOf(t, `\$ttl.example.test. 60 A 192.0.2.9`)}, raised + "ns A 192.0.2.1\n\\$ttl 60 A 192.0.2.9\n"},
		{"odd data", apex + "ns A 192.0.2.1\n", []miekg.RR{rrOf(t, `t.example.test. 60 TXT "a \"b\"; \\ \200" ""`), rrOf(t, `u.example.test. 60 TYPE65400 \# 3 010203`)}, raised + "ns A 192.0.2.1\nt 60 TXT \"a \\\"b\\\"; \\\\ \\200\" \"\"\nu 60 TYPE65400 \\# 3 010203\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file, addr := updatedZone(t, c.text)
			if got := exchange(t, addr, updateKey, message(nil, c.change)); got != miekg.RcodeSuccess {
				t.Fatalf("answer %s", miekg.RcodeToString[got])
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if string(text) != c.want {
				t.Errorf("the file has\n%q\nwant\n%q", text, c.want)
			}
			if got, want := fetch(t, addr), fetchText(string(text)); !slices.Equal(got, want) {
				t.Errorf("served is\n%s\nand the file has\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}

func TestUpdatesOfIncludedRecordsAreRefused(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "more"), "inside A 192.0.2.5\n")
	file := filepath.Join(dir, "a.zone")
	write(t, file, apex+"ns A 192.0.2.1\n$INCLUDE more\n")
	_, addr, _ := listen(t, "127.0.0.1:0", updatable(zone.File{Path: setting.Source(file), Origin: "example.test."}), nil)
	if got := exchange(t, addr, updateKey, message(nil, []miekg.RR{bare("inside.example.test.", miekg.TypeA, miekg.ClassANY)})); got != miekg.RcodeRefused {
		t.Errorf("deleting an included record: %s", miekg.RcodeToString[got])
	}
	if got := exchange(t, addr, updateKey, message(nil, []miekg.RR{rrOf(t, "x.example.test. 60 A 192.0.2.9")})); got != miekg.RcodeSuccess {
		t.Errorf("adding beside an included file: %s", miekg.RcodeToString[got])
	}
	if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), "$INCLUDE more\nx 60 A") {
		t.Errorf("the file is %q, %v", text, err)
	}
}

// others start servers beside us, with the same zone, and return their addresses.
func others(t *testing.T, text string) map[string]string {
	t.Helper()
	dir, all := t.TempDir(), map[string]string{}
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	port := peer.Port(t)
	peer.Start(t, "named", "-g", "-c", file("named.conf", fmt.Sprintf(`
options { directory %q; listen-on port %s { 127.0.0.1; }; listen-on-v6 { none; }; pid-file none; session-keyfile none; recursion no; dnssec-validation no; notify no; allow-transfer { any; }; check-names primary ignore; check-integrity no; };
controls { };
key updater { algorithm hmac-sha256; secret %q; };
zone example.test { type primary; file %q; allow-update { key updater; }; };
`, dir, port, updateSecret, file("bind.zone", text))))
	all["BIND"] = "127.0.0.1:" + port
	port = peer.Port(t)
	peer.Start(t, "knotd", "-c", file("knot.conf", fmt.Sprintf(`
server:
    rundir: %q
    listen: 127.0.0.1@%s
database:
    storage: %q
key:
  - id: updater
    algorithm: hmac-sha256
    secret: %s
acl:
  - id: update
    key: updater
    action: update
  - id: fetch
    address: 127.0.0.1
    action: transfer
template:
  - id: default
    semantic-checks: off
zone:
  - domain: example.test
    file: %q
    acl: [update, fetch]
`, dir, port, dir, updateSecret, file("knot.zone", text))))
	all["Knot"] = "127.0.0.1:" + port
	for name, addr := range all {
		waittest.Until(t, name+" answers", func() bool {
			r, _, err := new(miekg.Client).Exchange(new(miekg.Msg).SetQuestion("example.test.", miekg.TypeSOA), addr)
			return err == nil && len(r.Answer) > 0
		})
	}
	return all
}

// randomUpdate returns a message with prerequisites and changes of all kinds.
func randomUpdate(r *rand.Rand) *miekg.Msg {
	pick := func(all ...string) string { return all[r.IntN(len(all))] }
	outside := r.IntN(20) == 0
	name := func() string {
		if outside && r.IntN(4) == 0 {
			return pick("example.org.", "test.")
		}
		return pick("example.test.", "a.example.test.", "b.example.test.", "B.example.test.", "c.example.test.", "*.example.test.", "x.sub.example.test.", "sub.example.test.")
	}
	data := func() string {
		return pick("A 192.0.2.1", "A 192.0.2.2", "A 192.0.2.3", "AAAA 2001:db8::1", "AAAA 2001:db8::2", "TXT x", "TXT \"x\" y", "TXT z",
			"CNAME a.example.test.", "CNAME b.example.test.", "MX 10 a.example.test.", "MX 10 A.example.test.", "MX 20 b.example.test.", "NS ns.example.org.", "NS b.example.org.", "SRV 0 0 80 a.example.test.", "TYPE65400 \\# 2 0102")
	}
	types := []uint16{miekg.TypeA, miekg.TypeAAAA, miekg.TypeTXT, miekg.TypeCNAME, miekg.TypeMX, miekg.TypeNS, miekg.TypeSOA, miekg.TypeSRV, 65400}
	some := func(ttl int) miekg.RR {
		owner, data := name(), data()
		for strings.HasPrefix(owner, "*") && strings.HasPrefix(data, "NS") { // BIND leaves them out
			owner = name()
		}
		if ttl > 0 { // to BIND, another case is a change
			owner, data = strings.ToLower(owner), strings.ReplaceAll(data, "A.", "a.")
		}
		rr, err := miekg.NewRR(fmt.Sprintf("%s %d IN %s", owner, ttl, data))
		if err != nil {
			panic(err)
		}
		return rr
	}
	typ := func() uint16 { return types[r.IntN(len(types))] }
	m := new(miekg.Msg).SetUpdate("example.test.")
	for range []int{0, 0, 0, 1, 1, 2}[r.IntN(6)] {
		if outside {
			break // BIND looks at the changes first, and RFC 2136 has it the other way round
		}
		switch r.IntN(6) {
		case 0:
			m.Answer = append(m.Answer, bare(name(), miekg.TypeANY, miekg.ClassANY))
		case 1:
			m.Answer = append(m.Answer, bare(name(), miekg.TypeANY, miekg.ClassNONE))
		case 2:
			m.Answer = append(m.Answer, bare(name(), typ(), miekg.ClassANY))
		case 3:
			m.Answer = append(m.Answer, bare(name(), typ(), miekg.ClassNONE))
		default:
			m.Answer = append(m.Answer, some(0))
		}
		if r.IntN(40) == 0 {
			m.Answer[len(m.Answer)-1].Header().Ttl = 5
		}
	}
	for range 1 + r.IntN(4) {
		switch r.IntN(12) {
		case 0:
			m.Ns = append(m.Ns, bare(name(), miekg.TypeANY, miekg.ClassANY))
		case 1, 2:
			m.Ns = append(m.Ns, bare(name(), typ(), miekg.ClassANY))
		case 3, 4:
			m.Ns = append(m.Ns, none(some(0)))
		case 5:
			if r.IntN(4) == 0 {
				rr, err := miekg.NewRR(fmt.Sprintf("example.test. 300 IN SOA ns.example.test. h%d.example.test. %d 3600 600 86400 300", r.IntN(3), r.IntN(3000)))
				if err != nil {
					panic(err)
				}
				m.Ns = append(m.Ns, rr)
			}
		default:
			m.Ns = append(m.Ns, some(60*(1+r.IntN(2))))
		}
	}
	return m
}

// TestRandomUpdatesMakeTheZonesOfBINDAndKnot: UPDATES sets how many are sent.
func TestRandomUpdatesMakeTheZonesOfBINDAndKnot(t *testing.T) {
	const text = "$TTL 300\n@ SOA ns.example.org. hostmaster 7 3600 600 86400 300\n@ NS ns.example.org.\n" // BIND refuses updates that leave name servers of the zone without addresses
	count := 500
	if n, err := strconv.Atoi(os.Getenv("UPDATES")); err == nil {
		count = n
	}
	servers := others(t, text)
	file, us := updatedZone(t, text)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	codes := map[int]int{}
	for n := range count {
		m := randomUpdate(r)
		before := fetch(t, us)
		got := exchange(t, us, updateKey, m)
		codes[got]++
		for name, addr := range servers {
			if name == "Knot" && got == miekg.RcodeNotZone {
				continue // it hangs up without an answer
			}
			if want := exchange(t, addr, updateKey, m); want != got {
				t.Fatalf("update %d: we answer %s, %s %s\nzone:\n%s\n%v", n, miekg.RcodeToString[got], name, miekg.RcodeToString[want], strings.Join(before, "\n"), m)
			}
			have, want := fetch(t, us), fetch(t, addr)
			if name == "Knot" { // which does not change the TTL of a record that is there already, and then no serial
				have, want = withoutTTL(have), withoutTTL(want)
			}
			if !slices.Equal(have, want) {
				t.Fatalf("update %d: we have\n%s\n%s has\n%s\nbefore\n%s\n%v", n, strings.Join(have, "\n"), name, strings.Join(want, "\n"), strings.Join(before, "\n"), m)
			}
		}
	}
	t.Logf("answers: %v", codes)
	written, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if have, want := fetch(t, us), fetchText(string(written)); !slices.Equal(have, want) {
		t.Errorf("we serve\n%s\nand the file has\n%s", strings.Join(have, "\n"), strings.Join(want, "\n"))
	}
}

func TestNsupdateAndKnsupdateUpdateAZone(t *testing.T) {
	file, addr := updatedZone(t, apex+"ns A 192.0.2.1\n")
	host, port, _ := net.SplitHostPort(addr)
	for i, program := range []string{"nsupdate", "knsupdate"} {
		send := func(lines string) (string, error) {
			cmd := peer.Command(t, program, "-y", "hmac-sha256:updater:"+updateSecret)
			cmd.Stdin = strings.NewReader(fmt.Sprintf("server %s %s\nzone example.test.\n%s\nsend\nanswer\n", host, port, lines))
			out, err := cmd.CombinedOutput()
			return string(out), err
		}
		mine := fmt.Sprintf("pc%d.example.test.", i)
		if out, err := send("prereq nxdomain " + mine + "\nupdate add " + mine + " 300 A 192.0.2.10\nupdate add " + mine + " 300 TXT \"lease of a client\""); err != nil || !strings.Contains(out, "NOERROR") {
			t.Errorf("%s: %v\n%s", program, err, out)
		}
		if out, _ := send("prereq nxdomain " + mine + "\nupdate add " + mine + " 300 A 192.0.2.11"); !strings.Contains(out, "YXDOMAIN") {
			t.Errorf("%s: a name in use: %s", program, out)
		}
		if out, err := send("prereq yxrrset " + mine + " A 192.0.2.10\nupdate delete " + mine + " A 192.0.2.10\nupdate add " + mine + " 300 A 192.0.2.11"); err != nil {
			t.Errorf("%s: %v\n%s", program, err, out)
		}
		text, err := os.ReadFile(file)
		if want := fmt.Sprintf("pc%d 300 A 192.0.2.11\n", i); err != nil || !strings.Contains(string(text), want) || strings.Contains(string(text), "192.0.2.10") {
			t.Errorf("%s: the file is\n%s", program, text)
		}
	}
}

func TestUpdatesOfZonesInRedisKeepWhatAZoneFileCannotHave(t *testing.T) {
	server := redistest.Start(t, "--notify-keyspace-events", "AK")
	server.Do(t, "SET", "redins:zones:redis.example.:config", `{"soa":{"ttl":300,"minttl":100,"mbox":"hostmaster.redis.example.","ns":"ns.redis.example.","refresh":44,"retry":55,"expire":66,"serial":7}}`)
	server.Do(t, "HSET", "redins:zones:redis.example.", "@", `{"ns":{"ttl":300,"records":[{"host":"ns.redis.example."}]}}`)
	server.Do(t, "HSET", "redins:zones:redis.example.", "www", `{"a":{"ttl":300,"filter":{"order":"weighted"},"records":[{"ip":"192.0.2.7","weight":9},{"ip":"192.0.2.8","weight":1}]}}`)
	server.Do(t, "SADD", "redins:zones", "redis.example.")
	a, addr, _ := listen(t, "127.0.0.1:0", updatable(), &redins.Config{Redis: redis.Config{Addresses: []string{server.Addr}}})
	m := message(nil, []miekg.RR{
		rrOf(t, "www.redis.example. 300 A 192.0.2.9"), none(rrOf(t, "www.redis.example. A 192.0.2.8")), rrOf(t, "new.redis.example. 60 MX 10 www.redis.example."),
		rrOf(t, "other.redis.example. 60 HINFO a b"),
	})
	m.Question[0].Name = "redis.example."
	if got := exchange(t, addr, updateKey, m); got != miekg.RcodeSuccess {
		t.Fatalf("answer %s", miekg.RcodeToString[got])
	}
	text, err := a.Text(t.Context(), "redis.example.", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"serial":8`, `{"ip":"192.0.2.7","weight":9}`, `"192.0.2.9"`, `"order":"weighted"`, "new {", "other {"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("Redis has no %s:\n%s", want, text)
		}
	}
	if strings.Contains(string(text), "192.0.2.8") {
		t.Errorf("Redis still has 192.0.2.8:\n%s", text)
	}
	r, _, err := new(miekg.Client).Exchange(new(miekg.Msg).SetQuestion("new.redis.example.", miekg.TypeMX), addr)
	if err != nil || len(r.Answer) != 1 {
		t.Errorf("the new name: %v, %v", r, err)
	}
	m = message([]miekg.RR{bare("new.redis.example.", miekg.TypeANY, miekg.ClassNONE)}, []miekg.RR{rrOf(t, "x.redis.example. 60 A 192.0.2.1")})
	m.Question[0].Name = "redis.example."
	if got := exchange(t, addr, updateKey, m); got != miekg.RcodeYXDomain {
		t.Errorf("a name in use: %s", miekg.RcodeToString[got])
	}
	server.Stop()
	m.Answer = nil
	if got := exchange(t, addr, updateKey, m); got != miekg.RcodeServerFailure {
		t.Errorf("without Redis: %s, want SERVFAIL", miekg.RcodeToString[got])
	}
}

// TestAnUpdateIsSignedJournalledAndAnnounced: a signed zone is signed again, a secondary hears of the
// change, and fetches the difference.
func TestAnUpdateIsSignedJournalledAndAnnounced(t *testing.T) {
	keys := t.TempDir()
	key, err := sign.Generate("example.test.", "ed25519", true)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := key.Write(keys); err != nil {
		t.Fatal(err)
	}
	heard, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer heard.Close()
	file := filepath.Join(t.TempDir(), "a.zone")
	write(t, file, apex+"ns A 192.0.2.1\n")
	cfg := updatable(zone.File{Path: setting.Source(file), Origin: "example.test."})
	cfg.Transfer.Sign = []transfer.Sign{{Zones: []string{"example.test"}, Config: sign.Config{Keys: []setting.Source{setting.Source(keys)}}}}
	cfg.Transfer.Notify = []transfer.Notify{{Address: heard.LocalAddr().String()}}
	a, addr, _ := listen(t, "127.0.0.1:0", cfg, nil)
	before := a.Served("example.test.", "").Info().Serial
	if got := exchange(t, addr, updateKey, message(nil, []miekg.RR{rrOf(t, "www.example.test. 60 A 192.0.2.9")})); got != miekg.RcodeSuccess {
		t.Fatalf("answer %s", miekg.RcodeToString[got])
	}
	q := new(miekg.Msg).SetQuestion("www.example.test.", miekg.TypeA)
	q.SetEdns0(1232, true)
	r, _, err := new(miekg.Client).Exchange(q, addr)
	if err != nil || len(r.Answer) != 2 || r.Answer[1].(*miekg.RRSIG).Verify(key.DNSKEY, r.Answer[:1]) != nil {
		t.Errorf("the new record with its signature: %v, %v", r, err)
	}
	now := a.Served("example.test.", "").Info().Serial
	in, err := new(miekg.Transfer).In(new(miekg.Msg).SetIxfr("example.test.", before, "ns.example.test.", "hostmaster.example.test."), addr)
	if err != nil {
		t.Fatal(err)
	}
	var difference []miekg.RR
	for e := range in {
		if e.Error != nil {
			t.Fatal(e.Error)
		}
		difference = append(difference, e.RR...)
	}
	if len(difference) < 4 || difference[1].Header().Rrtype != miekg.TypeSOA || difference[1].(*miekg.SOA).Serial != before {
		t.Errorf("IXFR from %d to %d: %v", before, now, difference)
	}
	waittest.Until(t, "the secondary hears of the serial", func() bool {
		buf := make([]byte, 512)
		_ = heard.SetReadDeadline(time.Now().Add(time.Minute))
		n, _, err := heard.ReadFrom(buf)
		var m miekg.Msg
		return err == nil && m.Unpack(buf[:n]) == nil && m.Opcode == miekg.OpcodeNotify && len(m.Answer) == 1 && m.Answer[0].(*miekg.SOA).Serial == now
	})
	for _, text := range []string{"x.example.test. 60 NSEC y.example.test. A", "x.example.test. 60 RRSIG A 15 3 60 20300101000000 20200101000000 1 example.test. AAAA"} {
		if got := exchange(t, addr, updateKey, message(nil, []miekg.RR{rrOf(t, text)})); got != miekg.RcodeRefused {
			t.Errorf("%s: %s, want REFUSED", text, miekg.RcodeToString[got])
		}
	}
}

func TestUpdatesOfFetchedAndOfSignedZonesAreRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.zone")
	write(t, file, apex+"ns A 192.0.2.1\n@ RRSIG SOA 15 2 300 20300101000000 20200101000000 1 example.test. AAAA\n")
	cfg := updatable(zone.File{Path: setting.Source(file), Origin: "example.test."})
	cfg.Transfer.Folder = setting.Folder(t.TempDir())
	cfg.Transfer.Secondaries = []transfer.Secondary{{Zone: "fetched.example", Primaries: []transfer.Primary{{Address: "127.0.0.1:1"}}}}
	_, addr, _ := listen(t, "127.0.0.1:0", cfg, nil)
	if got := exchange(t, addr, updateKey, message(nil, []miekg.RR{rrOf(t, "www.example.test. 60 A 192.0.2.9")})); got != miekg.RcodeRefused {
		t.Errorf("a zone that was signed elsewhere: %s", miekg.RcodeToString[got])
	}
	m := message(nil, []miekg.RR{rrOf(t, "www.fetched.example. 60 A 192.0.2.9")})
	m.Question[0].Name = "fetched.example."
	if got := exchange(t, addr, updateKey, m); got != miekg.RcodeRefused {
		t.Errorf("a secondary zone: %s", miekg.RcodeToString[got])
	}
}

// TestNothingAcknowledgedIsLostByAKill: a server that is killed at any moment has all updates that it
// has acknowledged when it starts again.
func TestNothingAcknowledgedIsLostByAKill(t *testing.T) {
	if dir := os.Getenv("UPDATES_KILLED"); dir != "" {
		cfg := updatable(zone.File{Path: setting.Source(filepath.Join(dir, "a.zone")), Origin: "example.test."})
		cfg.Transfer.Folder = setting.Folder(filepath.Join(dir, "kept"))
		listen(t, os.Getenv("UPDATES_AT"), cfg, nil)
		select {}
	}
	peer.NotQuick(t, "processes that are killed")
	dir, port := t.TempDir(), peer.Port(t)
	if err := os.WriteFile(filepath.Join(dir, "a.zone"), []byte(apex+"ns A 192.0.2.1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	addr := "127.0.0.1:" + port
	acknowledged := map[string]bool{}
	for round := range 5 {
		cmd := exec.Command(os.Args[0], "-test.run", "^TestNothingAcknowledgedIsLostByAKill$")
		cmd.Env = append(os.Environ(), "UPDATES_KILLED="+dir, "UPDATES_AT="+addr)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		waittest.Until(t, "the server answers", func() bool {
			r, _, err := new(miekg.Client).Exchange(new(miekg.Msg).SetQuestion("example.test.", miekg.TypeSOA), addr)
			return err == nil && len(r.Answer) > 0
		})
		have := strings.Join(fetch(t, addr), "\n")
		for name := range acknowledged {
			if !strings.Contains(have, name) {
				t.Errorf("round %d: %s was acknowledged and is lost", round, name)
			}
		}
		end := time.AfterFunc(time.Duration(100+rand.IntN(400))*time.Millisecond, func() { _ = cmd.Process.Kill() })
		for n := 0; ; n++ {
			name := fmt.Sprintf("r%d-%d.example.test.", round, n)
			m := message(nil, []miekg.RR{rrOf(t, name+" 60 A 192.0.2.9")})
			m.SetTsig(updateKey, miekg.HmacSHA256, 300, time.Now().Unix())
			c := &miekg.Client{Net: "tcp", Timeout: 10 * time.Second, TsigSecret: map[string]string{updateKey: updateSecret}}
			r, _, err := c.Exchange(m, addr)
			if err != nil || r.Rcode != miekg.RcodeSuccess {
				break
			}
			acknowledged[name] = true
		}
		end.Stop()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	t.Logf("%d updates were acknowledged", len(acknowledged))
	if len(acknowledged) == 0 {
		t.Error("no update was acknowledged")
	}
}

// TestAnUpdateThatHalvesAZoneIsKept: a file that is cut to less than half of its last copy counts as
// damaged at a start, but not after an update.
func TestAnUpdateThatHalvesAZoneIsKept(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.zone")
	write(t, file, apex+"ns A 192.0.2.1\n$TTL 60\nlong TXT "+strings.Repeat(`"`+strings.Repeat("x", 200)+`" `, 30)+"\n")
	cfg := updatable(zone.File{Path: setting.Source(file), Origin: "example.test."})
	cfg.Transfer.Folder = setting.Folder(filepath.Join(dir, "kept"))
	_, addr, stop := listen(t, "127.0.0.1:0", cfg, nil)
	waittest.Until(t, "there is a copy", func() bool { all, _ := filepath.Glob(filepath.Join(dir, "kept", "files", "*")); return len(all) == 1 })
	if got := exchange(t, addr, updateKey, message(nil, []miekg.RR{bare("long.example.test.", miekg.TypeANY, miekg.ClassANY)})); got != miekg.RcodeSuccess {
		t.Fatalf("answer %s", miekg.RcodeToString[got])
	}
	stop()
	a, _, _ := listen(t, "127.0.0.1:0", cfg, nil)
	if faults := a.Faults(); len(faults) > 0 {
		t.Errorf("after a restart: %v", faults)
	}
}
