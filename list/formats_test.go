package list

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"shuultuur/lib/literal"
	"shuultuur/lib/setting"
	"shuultuur/test/race"
)

// TestNetworksAgreeWithWalk looks up every address of a small part of the address space in
// random nested networks and ranges.
func TestNetworksAgreeWithWalk(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for round := range 20 {
		var text strings.Builder
		var nets []netip.Prefix
		type span struct{ from, to netip.Addr }
		var spans []span
		base := [16]byte{0x20, 1, 0xd, 0xb8}
		v4 := round%2 == 0
		addr := func(n int) netip.Addr {
			if v4 {
				return netip.AddrFrom4([4]byte{10, 0, byte(n >> 8), byte(n)})
			}
			b := base
			b[14], b[15] = byte(n>>8), byte(n)
			return netip.AddrFrom16(b)
		}
		for range 40 {
			if rnd.IntN(3) > 0 {
				a := addr(rnd.IntN(1024))
				n, _ := a.Prefix(a.BitLen() - rnd.IntN(11))
				nets = append(nets, n)
				fmt.Fprintln(&text, n)
				continue
			}
			from := rnd.IntN(1024)
			s := span{addr(from), addr(from + rnd.IntN(1024-from))}
			spans = append(spans, s)
			fmt.Fprintf(&text, "%s - %s\n", s.from, s.to)
		}
		f, rep := compileText(t, Config{Format: Networks}, text.String())
		if rep.Bad > 0 {
			t.Fatalf("valid lines were refused: %v", rep.Problems)
		}
		for i := range 1030 {
			a := addr(i)
			want := slices.ContainsFunc(nets, func(n netip.Prefix) bool { return n.Contains(a) }) ||
				slices.ContainsFunc(spans, func(s span) bool { return !a.Less(s.from) && !s.to.Less(a) })
			found, err := lookUpHost(f, a.String())
			if err != nil {
				t.Fatal(err)
			}
			if got := len(found) > 0; got != want {
				t.Fatalf("%s: got %v, want %v in\n%s", a, got, want, text.String())
			}
			for _, m := range found {
				n := netip.MustParsePrefix(strings.Trim(strings.Fields(f.Evidence(m))[0], `"`))
				if !n.Contains(a) {
					t.Fatalf("%s: the evidence %s does not contain the address", a, f.Evidence(m))
				}
			}
		}
	}
}

func TestIPv6DefaultIsNotIPv4(t *testing.T) {
	f, _ := compileText(t, Config{Format: Networks}, "::/0\n::ffff:10.0.0.0/104\n")
	for addr, want := range map[string]int{"2001:db8::1": 1, "192.0.2.1": 0, "10.1.2.3": 1, "::ffff:10.1.2.3": 1} {
		found, err := lookUpHost(f, addr)
		if err != nil || len(found) != want {
			t.Errorf("%s: got %v, %v, want %d", addr, found, err, want)
		}
	}
}

func write(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestIncludes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "lists")
	write(t, filepath.Dir(dir), map[string]string{
		"secret":               "secret.com\n",
		"lists/main":           "#listcategory: \"First\"\na.com\n.Include<" + dir + "/sub/one>\n.Include<two>\n.Include<__LISTDIR__/main>\n.Include<../secret>\n.Include<missing>\n#listcategory: \"Last\"\n**\n.dot.com\nzzz\n10.0.0.0/8\nd.com/\nftp://e.com/x\n",
		"lists/sub/one":        "#time: 8 0 16 30 01234\none.com\n.Include<deeper>\n",
		"lists/sub/deeper":     "#listcategory: \"Deep\"\n#time: 0 0 12 0 0123456\ndeep.com\n",
		"lists/two":            "two.com # note\n#time: 25 0 1 0 0\n",
		"lists/bannedregexp":   "#listcategory: \"Re\"\n(^|[/.])adult(/|$)\n(unclosed\n(?!x)odd\n(a)\\1z\n.Include<more>\n",
		"lists/more":           "[0-9]+\\.zip$\n",
		"lists/sub/unincluded": "no.com\n",
	})
	f, rep := compilePath(t, Config{Format: E2guardian, Path: setting.Source(filepath.Join(dir, "main"))})
	for url, want := range map[string][]string{
		"a.com": {"Last a.com"}, "www.one.com": {"own one.com"}, "deep.com": {"Deep deep.com"}, "two.com": {"own two.com"},
		"secret.com": nil, "dot.com": {"Last dot.com"}, "10.1.2.3": {"Last 10.0.0.0/8"}, "d.com": {"Last d.com"}, "e.com/x": {"Last e.com/x"}, "no.com": nil, "a.zzz": nil,
	} {
		if d := cmp.Diff(want, ask(t, f, url)); d != "" {
			t.Errorf("%s: matches differ (-want +got): %s", url, d)
		}
	}
	var got []string
	for _, p := range rep.Problems {
		got = append(got, strings.ReplaceAll(p.String(), dir, "D"))
	}
	slices.Sort(got)
	want := []string{
		`D/main:10: ".dot.com" matches nothing in e2guardian; read as "dot.com"`,
		`D/main:11: "zzz" is a top-level domain; write ".zzz" if you mean all of it`,
		`D/main:14: "ftp://e.com/x" has a scheme, which is ignored`,
		`D/main:5: "__LISTDIR__/main" is already included`,
		`D/main:6: "../secret" is not included: it lies outside D`,
		`D/main:7: "missing" cannot be included: lstat D/missing: no such file or directory`,
		`D/main:9: "**" matches everything: write a rule of the policy instead`,
		`D/two:2: "#time: 25 0 1 0 0" is not a time: write #time: hour minute hour minute days, days 0 (Monday) to 6`,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("entries with includes differ (-want +got):\n%s", d)
	}
	monday := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		host string
		at   time.Duration
		want bool
	}{
		{"a.com", 0, true}, {"one.com", 9 * time.Hour, true}, {"one.com", 16*time.Hour + 30*time.Minute, true},
		{"one.com", 16*time.Hour + 31*time.Minute, false}, {"one.com", 5*24*time.Hour + 9*time.Hour, false},
		{"deep.com", 9 * time.Hour, true}, {"deep.com", 13 * time.Hour, false}, {"deep.com", time.Hour, false},
	} {
		var q Query
		q.SetHost(tt.host)
		found, err := f.Lookup(&q, nil)
		if err != nil || len(found) != 1 {
			t.Fatalf("%s: got %v, %v, want one match", tt.host, found, err)
		}
		if got := f.Applies(found[0], monday.Add(tt.at)); got != tt.want {
			t.Errorf("%s at %v: Applies = %v", tt.host, tt.at, got)
		}
	}

	f, rep = compilePath(t, Config{Format: E2guardianRegexp, Path: setting.Source(filepath.Join(dir, "bannedregexp"))})
	for url, want := range map[string]bool{
		"http://x.com/Adult/": true, "http://x.com/adults": false, "http://x.com/77.ZIP": true, "http://x.com/77.zip?x": false,
		"http://x.com/odd": true, "http://x.com/aaz": true, "http://x.com/baz": false,
	} {
		if got := searched(t, f, url); got != want {
			t.Errorf("%s: an expression matches: %v", url, got)
		}
	}
	if rep.Bad != 1 || rep.Exprs != 4 || !strings.HasSuffix(rep.Problems[0].String(), `bannedregexp:3: "(unclosed" does not compile: missing closing ): "(?i)(unclosed"`) {
		t.Errorf("got %d bad, %d expressions, %v", rep.Bad, rep.Exprs, rep.Problems)
	}
}

// TestManyTimes: the last #time of a file counts.
func TestManyTimes(t *testing.T) {
	f, rep := compileText(t, Config{Format: E2guardian}, strings.Repeat("#time: 1 0 2 0 0\n", 30)+"#time: 8 0 9 0 0\na.com\n")
	var q Query
	q.SetHost("a.com")
	found, err := f.Lookup(&q, nil)
	if err != nil || len(found) != 1 || rep.Bad != 0 {
		t.Fatalf("got %v, %v, problems %v; want one match", found, err, rep.Problems)
	}
	monday := time.Date(2024, 1, 1, 8, 30, 0, 0, time.UTC)
	if !f.Applies(found[0], monday) || f.Applies(found[0], monday.Add(-7*time.Hour)) {
		t.Error("the list does not apply by its last #time line alone")
	}
}

func TestIncludesOfARelativePath(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"sub/main": "a.com\n.Include<two>\n.Include<" + dir + "/sub/three>\n", "sub/two": "b.com\n.Include<main>\n", "sub/three": "c.com\n"})
	if err := os.Symlink("two", filepath.Join(dir, "sub", "link")); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	f, rep := compilePath(t, Config{Format: E2guardian, Path: "sub/main"})
	if rep.Entries != 3 || rep.Bad != 0 || len(rep.Problems) != 1 {
		t.Errorf("got %d entries and problems %v, want 3 entries and 1 problem", rep.Entries, rep.Problems)
	}
	var q Query
	q.SetHost("b.com")
	found, err := f.Lookup(&q, nil)
	if err != nil || len(found) != 1 || f.Evidence(found[0]) != `"b.com" in sub/two:1` {
		t.Errorf("entry of an included file: got %v, %v", found, err)
	}
}

// TestCompileSeesIncludes: a list is recompiled if a file that it includes has
// changed.
func TestCompileSeesIncludes(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"main": ".Include<one>\n", "one": "a.com\n"})
	cfg, dst := Config{Format: E2guardian, Path: setting.Source(filepath.Join(dir, "main"))}, filepath.Join(dir, "x.list")
	for i, want := range []bool{false, true, false} {
		if i == 2 {
			write(t, dir, map[string]string{"one": "a.com\nb.com\n"})
		}
		rep, err := Compile(context.Background(), "x", cfg, dst)
		if err != nil || rep.Reused != want {
			t.Errorf("Compile %d: got reused %v, %v, want %v", i, rep.Reused, err, want)
		}
	}
}

func TestCharsets(t *testing.T) {
	for name, tt := range map[string]struct{ charset, text, host string }{
		"utf-8":         {"", "b\u00fccher.de\n", "xn--bcher-kva.de"},
		"set":           {"windows-1252", "b\xfccher.de\n", "xn--bcher-kva.de"},
		"russian-1251":  {"", "\xec\xe8\xf0.\xf0\xf4\n", "xn--h1ahn.xn--p1ai"},
		"sites-koi8-r":  {"", "\xcd\xc9\xd2.\xd2\xc6\n", "xn--h1ahn.xn--p1ai"},
		"utf-16 by bom": {"", "\xff\xfea\x00.\x00d\x00e\x00\r\x00\n\x00", "a.de"},
		"utf-16 be":     {"", "\xfe\xff\x00a\x00.\x00d\x00e\x00\n", "a.de"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, map[string]string{name: tt.text})
			f, rep := compilePath(t, Config{Format: Domains, Charset: tt.charset, Path: setting.Source(filepath.Join(dir, name))})
			if len(ask(t, f, tt.host)) != 1 || rep.Bad != 0 {
				t.Errorf("the host is not found: %v", rep.Problems)
			}
		})
	}
	_, rep := compileText(t, Config{Format: Domains}, "b\xfccher.de\na.com\n")
	if rep.Bad != 1 || rep.Entries != 1 || !strings.Contains(rep.Problems[0].Reason, "is not UTF-8") {
		t.Errorf("got %v, want the line refused", rep.Problems)
	}
}

func compressed(t testing.TB, kind string, data []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	switch kind {
	case "gz":
		w := gzip.NewWriter(&buf)
		w.Write(data)
		w.Close()
	case "zst":
		w, err := zstd.NewWriter(&buf)
		if err != nil {
			t.Fatal(err)
		}
		w.Write(data)
		w.Close()
	case "zip":
		return zipped(t, map[string][]byte{"hosts.txt": data})
	case "tar":
		w := tar.NewWriter(&buf)
		if err := w.WriteHeader(&tar.Header{Name: "hosts", Size: int64(len(data)), Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
		w.Write(data)
		w.Close()
	}
	return buf.Bytes()
}

func zipped(t testing.TB, files map[string][]byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	zw := zip.NewWriter(&buf)
	for name, data := range files {
		w, err := zw.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		w.Write(data)
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestCompression(t *testing.T) {
	text := []byte("0.0.0.0 a.com\n0.0.0.0 b.com\n")
	for _, kind := range []string{"gz", "zst", "zip", "tar", "tar.gz", "tar.zst"} {
		t.Run(kind, func(t *testing.T) {
			data := text
			for _, k := range strings.Split(kind, ".") {
				data = compressed(t, k, data)
			}
			path := filepath.Join(t.TempDir(), "x")
			if err := os.WriteFile(path, data, 0o644); err != nil {
				t.Fatal(err)
			}
			f, _ := compilePath(t, Config{Format: Hosts, Path: setting.Source(path)})
			if got := ask(t, f, "b.com"); len(got) != 1 {
				t.Errorf("b.com: got %v, want one match", got)
			}
		})
	}
	path := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(path, zipped(t, map[string][]byte{"ut1/adult/domains": []byte("a.com\n"), "ut1/games/urls": []byte("a.com/x\n"), "README": []byte("x")}), 0o644); err != nil {
		t.Fatal(err)
	}
	f, _ := compilePath(t, Config{Path: setting.Source(path)})
	if d := cmp.Diff([]string{"adult a.com", "games a.com/x"}, ask(t, f, "a.com/x")); d != "" {
		t.Errorf("matches of a.com/x differ (-want +got):\n%s", d)
	}
}

func TestBombs(t *testing.T) {
	race.Without(t)
	zeros := make([]byte, 100<<20)
	for _, kind := range []string{"gz", "zst"} {
		path := filepath.Join(t.TempDir(), "x")
		if err := os.WriteFile(path, compressed(t, kind, zeros), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := Compile(context.Background(), "x", Config{Format: Domains, Path: setting.Source(path)}, path+".list")
		if err == nil || !strings.Contains(err.Error(), "when unpacked: too many for its size") {
			t.Errorf("%s: got %v, want a refusal", kind, err)
		}
	}
	path := filepath.Join(t.TempDir(), "x")
	data := zipped(t, map[string][]byte{"a/domains": []byte("a.com\n"), "../up/domains": []byte("up.com\n"), "b/domains": zeros, "/abs/domains": []byte("abs.com\n")})
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	f, rep := compilePath(t, Config{Path: setting.Source(path)})
	if rep.Entries != 1 || rep.Bad != 3 || len(ask(t, f, "a.com")) != 1 {
		t.Errorf("damaged lines: got %d entries, %d bad: %v", rep.Entries, rep.Bad, rep.Problems)
	}
	for name, want := range map[string]string{
		"list.txt":    "list.txt: would have 104857600 bytes when unpacked: too many for its size",
		"a/domains":   "a/domains: would have 104857600 bytes when unpacked: too many for its size",
		"../domains":  `"../domains" is not a path inside the archive`,
		"nothing.txt": "no file called domains or urls",
	} {
		data := zeros
		if name == "nothing.txt" {
			data = nil
		}
		files := map[string][]byte{name: data}
		if name == "nothing.txt" {
			files["README"] = nil
		}
		if err := os.WriteFile(path, zipped(t, files), 0o644); err != nil {
			t.Fatal(err)
		}
		for _, format := range []FormatName{Auto, UT1, Hosts} {
			if name == "nothing.txt" && format == Hosts {
				continue
			}
			_, err := Compile(context.Background(), "x", Config{Path: setting.Source(path), Format: format}, path+".list")
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s as %s: got %v, want an error with %q", name, format, err, want)
			}
		}
	}
}

// TestSearchAtOnce: concurrent first lookups build what is made on first use.
func TestSearchAtOnce(t *testing.T) {
	f, _ := compileText(t, Config{Format: Expressions}, "(^|[-./])casino([-./]|$)\nx[0-9]+y\n[a-c]+$\n")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			var q Query
			for range 100 {
				q.SetURL("www.casino.com", []byte("/x77y/abc"))
				if found, err := f.Search(&q, nil); err != nil || len(found) != 3 {
					t.Errorf("concurrent Search: got %v, %v, want 3 matches", found, err)
				}
			}
		})
	}
	wg.Wait()
	var q Query
	dst := make([]Match, 0, 4)
	if n := testing.AllocsPerRun(100, func() {
		q.SetURL("www.example.com", []byte("/index.html?x"))
		dst, _ = f.Search(&q, dst[:0])
	}); n > 0 && !race.On { // with the race detector, sync.Pool drops items at random
		t.Errorf("Search: got %v allocations, want none", n)
	}
}

// FuzzExpressions: if an expression matches a text, it is among those tried on the text.
func FuzzExpressions(f *testing.F) {
	f.Add(`(^|[-.?+=/_])(porn|sexo)([-.?+=/_]|$)`, "x.com/my-porn/")
	f.Add(`(ab|cd)+e?f{2,3}[x-z]`, "abcdeffz")
	f.Add(`a(b(c|d)|e)*f`, "abcbdef")
	f.Add(`(?!x)y\1`, "y")
	f.Fuzz(func(t *testing.T, expr, text string) {
		if len(expr) > 200 || len(text) > 200 || strings.ContainsAny(expr, "\u017f\u212a") {
			return
		}
		for _, dialect := range []uint8{posix, perl} {
			e := expression{text: expr, dialect: dialect}
			m, err := e.compile()
			if err != nil {
				continue
			}
			s := strings.Map(func(r rune) rune {
				if 'A' <= r && r <= 'Z' {
					return r | 0x20
				}
				if r == '\u017f' || r == '\u212a' { // fold with s and k, which no URL has
					return -1
				}
				return r
			}, text)
			yes, _ := m.MatchString(s)
			texts := literal.Required(e.pattern())
			if yes && texts != nil && !slices.ContainsFunc(texts, func(x string) bool { return strings.Contains(s, x) }) {
				t.Errorf("%q matches %q, which has none of the required texts %q", expr, s, texts)
			}
		}
	})
}

func FuzzUnbound(f *testing.F) {
	fuzzLines(f, "unbound", "local-zone: \"a.com\" static\nlocal-data: 'b.com A 0.0.0.0'\nlocal-zone: \"\nlocal-data: \"\n")
}

func FuzzRPZ(f *testing.F) {
	fuzzLines(f, RPZ, "$ORIGIN x.\n@ SOA a. b. (1\n2)\n*.a.com CNAME .\nb.com A 127.0.0.1\n48.zz.1.db8.2001.rpz-ip CNAME .\n. CNAME .\n* CNAME .\n")
}

func FuzzNetworks(f *testing.F) {
	fuzzLines(f, Networks, "10.0.0.0/8\n::/0\n1.2.3.4-200.1.1.1\n0.0.0.0-255.255.255.255\n::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff\n::ffff:1.2.3.4/99\n1.2.3.4/0.255.0.255\n")
}

func FuzzE2guardian(f *testing.F) {
	fuzzLines(f, E2guardian, "#listcategory: \"x\"\n.Include<y>\nhttp://a.com\n.b.com\n*ip\n10.0.0.0/8\n1.1.1.1-1.1.1.9\n2001:db8::/32\nc.com/x # y\n")
}

func FuzzZip(f *testing.F) {
	f.Add(zipped(f, map[string][]byte{"a/domains": []byte("a.com\n"), "../x": nil, "stand": []byte("a")}))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "x")
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		b := newBuilder(context.Background(), "x", Config{Format: UT1, Path: "x", Match: Boundary}, defaultSeed)
		if err := b.readZip(file); err == nil {
			checkBuilt(t, b)
		}
	})
}

// TestExpressionsOfE2guardianEndBeforeTheirSlash: as in e2guardian, a slash at the end does not
// count, unless the slashes are a pair.
func TestExpressionsOfE2guardianEndBeforeTheirSlash(t *testing.T) {
	f, rep := compileText(t, Config{Format: E2guardianRegexp}, "/banners/\n/one\\/\n(?<!relo)adframe\n")
	for url, want := range map[string]bool{
		"http://x.com/Banners": true, "http://x.com/banners/a": true, "http://x.com/one": false, "http://x.com/one/": true,
		"http://x.com/adframe": true, "http://x.com/reload/adframe": true, "http://x.com/x/reloadframe": false,
	} {
		if got := searched(t, f, url); got != want {
			t.Errorf("%s: an expression matches: %v", url, got)
		}
	}
	if rep.Bad != 0 {
		t.Errorf("%d expressions were refused: %v", rep.Bad, rep.Problems)
	}
}

// lookUpHost returns what a list has for a host or an address.
func lookUpHost(f *File, host string) ([]Match, error) {
	var q Query
	q.SetHost(host)
	return f.Lookup(&q, nil)
}
