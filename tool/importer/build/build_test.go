package build_test

import (
	"bytes"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"shuultuur/intercept"
	"shuultuur/lib/setting"
	"shuultuur/list"
	"shuultuur/test/cert"
	"shuultuur/tool/importer/build"
	"shuultuur/tool/importer/importertest"
	"shuultuur/tool/importer/input"
	"shuultuur/tool/importer/report"
)

// newWork begins an import into a new folder.
func newWork(t *testing.T) *build.Work {
	t.Helper()
	return build.New(t.Context(), "another program", "/etc/another", t.TempDir())
}

// written completes an import and returns the settings.
func written(t *testing.T, w *build.Work) string {
	t.Helper()
	if err := w.Write(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(w.To, build.SettingsFile))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// expect reports texts that are not in what was written.
func expect(t *testing.T, got string, want ...string) {
	t.Helper()
	for _, s := range want {
		if !strings.Contains(got, s) {
			t.Errorf("there is no %q in\n%s", s, got)
		}
	}
}

// kinds counts the notes of a kind.
func kinds(w *build.Work, k report.Kind) (n int) {
	for i := range w.Report.Notes {
		if w.Report.Notes[i].Kind == k {
			n++
		}
	}
	return n
}

var at = report.Place{File: "conf", Line: 3, Text: "option"}

func TestAnImportOfNothingIsWhole(t *testing.T) {
	t.Parallel()
	w := newWork(t)
	text := written(t, w)
	expect(t, text, "another program", "127.0.0.1:8080", "events.db", "data: data")
	if strings.Contains(text, "lists:") || strings.Contains(text, "dns:") || strings.Contains(text, "policies:") {
		t.Errorf("there are settings for what was not there:\n%s", text)
	}
	for _, name := range []string{"report.txt", "report.html"} {
		if _, err := os.Stat(filepath.Join(w.To, name)); err != nil {
			t.Error(err)
		}
	}
}

func TestNamesAndListsBecomeOnePolicy(t *testing.T) {
	t.Parallel()
	dir := importertest.Folder(t, map[string]string{"main.conf": "block games.example\nallow chess.games.example\nlist https://lists.example/ads.txt\nlist FROM\ninclude none*\nodd\nunknown x\n", "hosts": "0.0.0.0 ads.example # note\n*.track.example\n\n"})
	file := filepath.Join(dir, "main.conf")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(b), "FROM", "file://"+filepath.Join(dir, "hosts"))), 0o644); err != nil {
		t.Fatal(err)
	}
	w := newWork(t)
	files := &input.OptionFiles{Separator: " ", Included: func(dir, key, value string) ([]string, bool) {
		if key != "include" {
			return nil, false
		}
		return input.Glob(dir, value), true
	}}
	err = build.ReadOptions(w, file, files, func(p *build.Plain, _ report.Place, key, value string) *report.Note {
		switch key {
		case "block":
			return p.AddNames(true, value)
		case "allow":
			return p.AddNames(false, value)
		case "list":
			p.Unfiltered(netip.MustParsePrefix("10.0.0.0/24"))
			return p.List(true, value)
		case "include":
			return p.Included(files, key, value)
		}
		return report.None("")
	})
	if err != nil {
		t.Fatal(err)
	}
	text := written(t, w)
	expect(t, text, "https://lists.example/ads.txt", "unfiltered", "10.0.0.0/24", "category/blocked", "category/allowed")
	if block, allow := strings.Index(text, "action: block"), strings.Index(text, "action: allow"); allow < 0 || block < allow {
		t.Error("what is allowed does not come before what is blocked")
	}
	lines, err := os.ReadFile(filepath.Join(w.To, "lists", "blocked"))
	if want := "||games.example^\nads.example\n||track.example^\n"; err != nil || string(lines) != want {
		t.Errorf("the list is %q, %v, want %q", lines, err, want)
	}
	if lost := kinds(w, report.Lost); lost != 2 {
		t.Errorf("%d options are lost, want two:\n%v", lost, w.Report.Notes)
	}
}

func TestAListThatIsNotThereOrEmptyIsReported(t *testing.T) {
	t.Parallel()
	w := newWork(t)
	dir := importertest.Folder(t, map[string]string{"none": "# nothing\n", "two": "a.example\na.example\nb.example\n"})
	add := func(name, file string) string {
		t.Helper()
		name, err := w.AddList(name, list.Config{Path: setting.Source(filepath.Join(dir, file)), Format: list.Domains}, at)
		if err != nil {
			t.Fatal(err)
		}
		return name
	}
	if name := add("a", "none"); name != "" || kinds(w, report.Empty) != 1 {
		t.Errorf("an empty list is called %q", name)
	}
	if _, err := w.AddList("a", list.Config{Path: setting.Source(filepath.Join(dir, "missing")), Format: list.Domains}, at); err == nil {
		t.Error("an import goes on without a list that cannot be read")
	}
	first, second := add("Ads & more!", "two"), add("Ads & more!", "two")
	if first != "Ads---more" || second != first+"-2" {
		t.Errorf("two lists of one name are called %q and %q", first, second)
	}
	if w.Report.Entries != 4 || w.Report.Duplicates != 2 {
		t.Errorf("the report counts %d entries and %d duplicates, want 4 and 2", w.Report.Entries, w.Report.Duplicates)
	}
	if got := w.FreeName("--!--"); got != "list" {
		t.Errorf("a name without letters becomes %q", got)
	}
}

func TestServicesAreThoseOfTheCatalogue(t *testing.T) {
	t.Parallel()
	w := newWork(t)
	services, note := build.Services([]string{"YouTube", "riot_games", "youtube", "of next year"})
	if want := []string{"youtube", "riot-games"}; !slices.Equal(services, want) || note.Kind != report.Changed || !strings.Contains(note.Why, "of next year") {
		t.Errorf("the services are %q, the note is %+v", services, note)
	}
	if services, note := build.Services([]string{"unknown"}); services != nil || note.Kind != report.Lost {
		t.Errorf("an unknown service: %q, %+v", services, note)
	}
	if services, note := build.Services(nil); services != nil || note.Kind != report.Carried {
		t.Errorf("no service: %q, %+v", services, note)
	}
	p := w.MainPolicy()
	p.Rules = append(p.Rules, build.ServiceRule(services, nil))
	expect(t, written(t, w), "service: [youtube, riot-games]")
}

func TestNamesOfTheNetwork(t *testing.T) {
	t.Parallel()
	w := newWork(t)
	w.HostsLine(at, "10.0.0.1 Gate.example gate # note")
	w.HostsLine(at, "10.0.0.2 gate.example.")
	w.HostsLine(at, "10.0.0.1 gate.example")
	w.HostsLine(at, "10.0.0.3")
	w.HostsLine(at, "# nothing")
	w.HostsLine(at, "")
	w.Host(at, "www.example", "gate.example.")
	w.Host(at, "www.example", "10.0.0.1") // has another name already
	w.Host(at, "gate", "www.example")     // has an address already
	w.Host(at, "a b", "10.0.0.1")
	w.Host(at, "", "10.0.0.1")
	hosts := w.Set.UseDNS().Names.Hosts
	for name, want := range map[string]string{"gate.example": "10.0.0.1 10.0.0.2", "gate": "10.0.0.1", "www.example": "gate.example"} {
		if got := strings.Join(hosts[name], " "); got != want {
			t.Errorf("%s leads to %q, want %q", name, got, want)
		}
	}
	if len(hosts) != 3 || kinds(w, report.Lost) != 2 || kinds(w, report.Line) != 3 {
		t.Errorf("%d names, %d lost, %d lines without effect; want 3, 2, 3", len(hosts), kinds(w, report.Lost), kinds(w, report.Line))
	}
	w.Route(at, "corp.example", build.ServerAddress("10.0.0.53#5353@eth0"))
	w.Route(at, "corp.example", build.ServerAddress("x"))
	p := &build.Plain{Work: w}
	for _, s := range []string{"1.1.1.1", "udp://9.9.9.9", "tcp+udp:9.9.9.10", "udp:9.9.9.11:5353", "tcp-tls:dns.example:853", "1.0.0.1#5353", "9.9.9.9@853#dns.quad9.net", "1.1.1.1", "sdns://AA", ""} {
		p.Upstream(s)
	}
	p.Bootstrap("9.9.9.9")
	if n := p.Bootstrap("dns.example"); n.Kind != report.Lost {
		t.Errorf("a bootstrap server with a name: %+v", n)
	}
	f := w.Set.UseDNS().Forward
	if got, want := strings.Join(f.Upstreams, " "), "1.1.1.1 9.9.9.9 9.9.9.10 9.9.9.11:5353 tls://dns.example:853 1.0.0.1:5353 tls://9.9.9.9:853"; got != want {
		t.Errorf("the upstreams are %s, want %s", got, want)
	}
	if got := strings.Join(f.Routes["corp.example"], " "); got != "10.0.0.53" && got != "10.0.0.53:5353" {
		t.Errorf("the route goes to %q", got)
	}
	p.RefuseType("any")
	p.RefuseType("HTTPS")
	p.PrivateNames([]string{" lan ", "", "corp.example"})
	p.Listen("53, 127.0.0.1:5353")
	expect(t, written(t, w), "types of records", "ANY", "HTTPS", "corp.example", ":53", "127.0.0.1:5353")
}

func TestServersByTheirSyntax(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"192.0.2.1": "192.0.2.1", "192.0.2.1#53": "192.0.2.1", "192.0.2.1#5353": "192.0.2.1:5353", "2001:db8::1#54": "[2001:db8::1]:54", " 192.0.2.1@eth0": "192.0.2.1", "dns.example": "", "": "", "#53": ""} {
		if got := build.ServerAddress(in); got != want {
			t.Errorf("ServerAddress(%q) = %q, want %q", in, got, want)
		}
	}
	for in, want := range map[string]string{"https://lists.example/a/ads.txt?x": "lists.example-ads", "https://lists.example": "lists.example-", "://": ""} {
		if got := build.AddressName(in); strings.TrimSuffix(got, ".") != want {
			t.Errorf("AddressName(%q) = %q, want %q", in, got, want)
		}
	}
	for in, want := range map[string]bool{"https://a.example/?u={url}&c={category}": true, "http://a.example": true, "https://a.example/{other}": false, "ftp://a.example": false, "/block": false, "https:///x": false} {
		if got := build.PlainURL(in); got != want {
			t.Errorf("PlainURL(%q) = %v, want %v", in, got, want)
		}
	}
	for in, want := range map[string]string{`^www\.a$`: `^www\.a(?:/|$)`, `a`: `^[^/]*a`, `^a`: `^a`, `^a|b$`: `(?:^a|^[^/]*b(?:/|$))`, `(a|b)[|]\|`: `^[^/]*(a|b)[|]\|`} {
		if got := build.HostExpression(in); got != want {
			t.Errorf("HostExpression(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestSizesAndTimesKeepTheirBounds(t *testing.T) {
	t.Parallel()
	w := newWork(t)
	for value, want := range map[string]report.Kind{"1232": report.Carried, "65535": report.Carried, "511": report.Lost, "x": report.Lost, "": report.Lost} {
		if n := build.UdpSize(w, value); n.Kind != want {
			t.Errorf("a reply of %q bytes: %v, want %v", value, n.Kind, want)
		}
	}
	for n, want := range map[int64]report.Kind{0: report.Carried, -1: report.Lost, 1: report.Changed, 64 << 20: report.Carried, 1 << 41: report.Lost} {
		if got := w.Set.CacheSize(n); got.Kind != want {
			t.Errorf("a cache of %d bytes: %v, want %v", n, got.Kind, want)
		}
	}
	w.Set.CacheEntries("10000")
	if got := w.Set.UseDNS().Cache.Size; got != 10_000<<10 {
		t.Errorf("a cache of 10000 answers has %d bytes", got)
	}
	for value, want := range map[string]report.Kind{"0": report.Carried, "-1": report.Lost, "": report.Lost, "x": report.Lost, "99999999999": report.Lost} {
		w.Set.UseDNS().Cache.Size = 0
		if got := w.Set.CacheEntries(value); got.Kind != want || w.Set.UseDNS().Cache.Size.Off() != (value == "0") {
			t.Errorf("a cache of %q answers: %v and %v, want %v", value, got.Kind, w.Set.UseDNS().Cache.Size, want)
		}
	}
	var d setting.Duration
	for _, c := range []struct {
		value string
		want  report.Kind
		d     time.Duration
	}{{"30", report.Carried, 30 * time.Minute}, {"1000000", report.Changed, build.Week}, {"0", report.Lost, build.Week}, {"x", report.Lost, build.Week}} {
		if n := build.TakeTime(c.value, "dns: x", time.Minute, build.Week, &d); n.Kind != c.want || time.Duration(d) != c.d {
			t.Errorf("%q minutes: %v, %v, want %v, %v", c.value, n.Kind, d, c.want, c.d)
		}
	}
}

func TestTimesWhenServicesAreBlocked(t *testing.T) {
	t.Parallel()
	all := map[string]any{"s.time_zone": "Local", "s.mon.start": "8h", "s.mon.end": "16h30m", "s.tue.start": 0, "s.tue.end": 86_400_000, "s.wed.start": "20h", "s.wed.end": "8h", "s.thu.end": "x"}
	when := build.BlockedTimes(all, "s.")
	if len(when) != 6 || when[0].Days != "mon" || when[0].Hours != "00:00-08:00,16:30-24:00" || when[1].Days != "wed" || when[1].Hours != "" || when[0].Zone != "" {
		t.Errorf("the times are %+v", when)
	}
	if when := build.BlockedTimes(nil, "s."); when != nil {
		t.Errorf("without times they are %+v, want none", when)
	}
}

func TestClientsAreKnownByTheirAddress(t *testing.T) {
	t.Parallel()
	leases := map[string]string{"aa:bb:cc:dd:ee:ff": "10.0.0.7"}
	for id, want := range map[string]string{" 10.0.0.1 ": "10.0.0.1", "10.0.0.9/8": "10.0.0.0/8", "::ffff:10.0.0.1": "10.0.0.1", "AA-BB-CC-DD-EE-FF": "10.0.0.7", "aa:bb:cc:dd:ee:00": "", "phone": "", "": ""} {
		got, why := build.ClientNetwork(id, leases)
		if got != want || want == "" && why == "" {
			t.Errorf("the client %q is %q (%s), want %q", id, got, why, want)
		}
	}
	w := newWork(t)
	w.LeaseNames(at, nil)
	w.LeaseNames(at, map[string]string{"10.0.0.8": "tablet", "10.0.0.7": "phone"})
	w.LeaseNames(at, map[string]string{"10.0.0.9": "tv"})
	b, err := os.ReadFile(filepath.Join(w.To, "lists", "devices"))
	if string(b) != "10.0.0.7 phone\n10.0.0.8 tablet\n" || err != nil {
		t.Errorf("the names are %q, %v", b, err)
	}
	expect(t, written(t, w), "lists/devices", "lists/devices-2")
	if all := build.PolicyNetworks(w, at, []string{"10.0.0.1", "x", "10.1.2.3/16"}); len(all) != 2 || all[1].String() != "10.1.0.0/16" {
		t.Errorf("the networks are %v", all)
	}
}

func TestNetworksJoinTheGroupOfTheirNames(t *testing.T) {
	t.Parallel()
	var groups []*build.Clients
	for _, c := range []struct{ network, name string }{{"10.0.0.0/24", "a"}, {"10.0.1.0/24", "b"}, {"10.0.2.0/24", "a"}, {"10.0.0.0/16", "a"}, {"10.0.0.0/8", "a"}} {
		groups = build.Join(groups, netip.MustParsePrefix(c.network), []string{c.name})
	}
	if len(groups) != 3 || len(groups[0].Networks) != 2 || len(groups[2].Networks) != 2 {
		t.Errorf("%d groups: a wide network joined a group before a narrow one of other names, or none", len(groups))
	}
	if !build.Covers(groups[0].Networks, netip.MustParsePrefix("10.0.0.128/25")) || build.Covers(groups[0].Networks, netip.MustParsePrefix("10.0.0.0/23")) {
		t.Error("a network is covered by a narrower one")
	}
	if (*build.Clients)(nil).Is("x") != true || groups[0].Is("b") || (&build.Clients{}).Name() != "everyone else" || groups[0].Name() != "a" {
		t.Error("a group has other names")
	}
}

func TestSignInIsDemandedIfItWas(t *testing.T) {
	t.Parallel()
	w := newWork(t)
	w.AsksAt(at)
	w.MainPolicy().Users = setting.OneOrMore[string]{"anna", "b:c", ""}
	text := written(t, w)
	b, err := os.ReadFile(filepath.Join(w.To, "passwd"))
	if err != nil || !strings.Contains(string(b), "anna:$argon2id$") || strings.Contains(string(b), "b:c") {
		t.Errorf("the password file is %q, %v", b, err)
	}
	expect(t, text, "file: passwd")
	if len(w.Report.Demands) != 1 {
		t.Errorf("the demands are %q, want one", w.Report.Demands)
	}
	none := newWork(t)
	if err := none.DemandSignIn(); err != nil || none.Set.Identity.Basic != nil {
		t.Errorf("where nobody signs in: %v, %v", err, none.Set.Identity.Basic)
	}
}

func TestDecryptionHasTheRootOfTheOtherProgram(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	crt, key := cert.Files(t, dir, "ca.example")
	w := newWork(t)
	if n := w.Intercept(at, crt, key); n.Kind == report.Lost || !w.Decrypt {
		t.Errorf("a certificate with its key: %+v", n)
	}
	w.MainPolicy()
	w.AddSharedRules()
	expect(t, written(t, w), "root: root.pem", "decrypt: true")
	apart := func(w *build.Work) {
		t.Helper()
		file := filepath.Join(w.To, "root.pem")
		text, err := os.ReadFile(file)
		if err != nil || bytes.Contains(text, []byte("PRIVATE KEY")) {
			t.Errorf("the root of %s has its key with it, %v", w.To, err)
		}
		if info, err := os.Stat(intercept.KeyFile(file)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the key of the root: %v, %v; want it in a file for its owner alone", info, err)
		}
		if _, err := intercept.ReadRoot(file); err != nil {
			t.Error(err)
		}
		if left, _ := filepath.Glob(filepath.Join(w.To, ".root-*")); len(left) > 0 {
			t.Errorf("%q are left over", left)
		}
	}
	apart(w)
	for name, files := range map[string][2]string{"no certificate": {"", ""}, "no key": {crt, crt}, "no file": {filepath.Join(dir, "none"), ""}} {
		w := newWork(t)
		if n := w.Intercept(at, files[0], files[1]); n.Kind != report.Changed || !w.Decrypt {
			t.Errorf("%s: %+v, want a new root", name, n)
		}
		apart(w)
	}
	if err := build.KeyPair(w, crt, key); err != nil || string(w.Set.UseDNS().Server.Cert) != crt {
		t.Errorf("a pair for the name server: %v, %q", err, w.Set.UseDNS().Server.Cert)
	}
	if _, err := build.LoadPair(w, key, crt); err == nil {
		t.Error("a key is taken for a certificate")
	}
	w.Clamd("127.0.0.1:3310")
	w.Clamd("127.0.0.1:3311")
	if len(w.First) != 1 || len(w.Set.Checks.Virus.Clamd) != 2 {
		t.Errorf("two scanners have %d rules", len(w.First))
	}
}

func TestEventsAndTenants(t *testing.T) {
	t.Parallel()
	w := newWork(t)
	if n := build.SendTo(w, build.LocalLog); n.Kind != report.Changed || !strings.Contains(n.Why, "rsyslog") {
		t.Errorf("the log daemon: %+v", n)
	}
	if n := build.SendTo(w, "tcp://log.example:601"); n.Kind != report.Lost {
		t.Errorf("a second log server: %+v", n)
	}
	w.KeepRecord(24 * time.Hour)
	w.LeaveOutQueries()
	p := w.MainPolicy()
	for field, want := range map[string]string{"X-GoogApps-Allowed-Domains": "tenants.google", "restrict-access-to-tenants": "tenants.microsoft.allow", "Restrict-Access-Context": "tenants.microsoft.context", "X-Dropbox-allowed-Team-Ids": "tenants.dropbox", "YouTube-Restrict": "", "X-Other": ""} {
		if got := build.Tenant(p, field, "a.example, b.example"); got != want {
			t.Errorf("%s becomes %q, want %q", field, got, want)
		}
	}
	if got := build.Tenant(p, "YouTube-Restrict", "Strict"); got != "youtube" || p.YouTube != "strict" {
		t.Errorf("YouTube is restricted by %q to %q", got, p.YouTube)
	}
	expect(t, written(t, w), "udp://127.0.0.1:514", "a.example", "b.example")
}

func TestATreeHasItsOptionsWithTheirPlaces(t *testing.T) {
	t.Parallel()
	dir := importertest.Folder(t, map[string]string{"config.yml": "dns:\n  block: [games.example, ads.example]\n  password: secret\n  other: false\n", "wrong.yml": "a: ["})
	w := newWork(t)
	read := func(all map[string]string) build.Reader {
		if len(all) != 3 {
			t.Errorf("the reader sees %v", all)
		}
		return func(p *build.Plain, key, value string) *report.Note {
			if key == "dns.block" {
				return p.Zone(true, value)
			}
			return report.None("")
		}
	}
	if err := build.ReadTree(w, dir, "config.yml", read); err != nil {
		t.Fatal(err)
	}
	w.Set.ListsEvery(time.Hour)
	expect(t, written(t, w), "category/blocked")
	for _, n := range w.Report.Notes {
		if strings.Contains(n.What, "secret") {
			t.Errorf("the report has a password: %v", n)
		}
		if n.What == "dns.block: ads.example" && n.Line != 2 {
			t.Errorf("an option of line 2 is reported on line %d", n.Line)
		}
	}
	if kinds(w, report.Default) != 1 {
		t.Errorf("an option that is off is not a default: %v", w.Report.Notes)
	}
	if err := build.ReadTree(w, filepath.Join(dir, "wrong.yml"), "", read); err == nil {
		t.Error("a file that is no YAML is read")
	}
}

func TestCataloguedListsAreFetched(t *testing.T) {
	t.Parallel()
	w := newWork(t)
	p := &build.Plain{Work: w}
	known := map[string]string{"ads": "oisd", "own": "https://lists.example/own.txt"}
	for id, want := range map[string]report.Kind{"ads": report.Changed, "own": report.Changed, "secret": report.Lost} {
		if n := p.Catalogued(id, known); n.Kind != want {
			t.Errorf("the list %s: %v, want %v", id, n.Kind, want)
		}
	}
	p.Catalogued("ads", known)
	if n := len(w.MainPolicy().Rules); n != 2 {
		t.Errorf("%d rules, want one for each list", n)
	}
	if got := w.Addresses(); len(got) != 1 || !slices.Equal(w.Addresses(), got) {
		t.Errorf("hosts that are addresses have the category %q, then %q", got, w.Addresses())
	}
	expect(t, written(t, w), "source: oisd", "https://lists.example/own.txt", "addresses")
	inner, outer := build.NewIndex("allowed"), build.NewIndex("blocked")
	inner.Add("www.a.example", report.Place{File: "x", Line: 1})
	outer.Add("a.example", report.Place{File: "y", Line: 2})
	if before, twice := outer.Add("a.example", report.Place{File: "z"}); !twice || before.Line != 2 {
		t.Errorf("an entry that is there twice: %v, %v", before, twice)
	}
	build.ReportShadows(w, inner, outer, "without effect")
	covered := slices.DeleteFunc(slices.Clone(w.Report.Notes), func(n report.Note) bool { return !strings.Contains(n.What, "is covered by") })
	if len(covered) != 1 {
		t.Errorf("%d entries are covered, want one", len(covered))
	}
	for in, want := range map[string]string{"http://A.example/": "a.example", ".a.example": "a.example", "a/b": "a/b"} {
		if got := build.EntryKey([]byte(in)); got != want {
			t.Errorf("EntryKey(%q) = %q, want %q", in, got, want)
		}
	}
}
