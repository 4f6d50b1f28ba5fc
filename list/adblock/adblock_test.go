package adblock

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"shuultuur/test/data"

	"github.com/klauspost/compress/gzip"
)

// build makes an engine from rules, and fails on lines that are not rules.
func build(t testing.TB, lines ...string) *Engine {
	t.Helper()
	var b Builder
	var r Rule
	for i, line := range lines {
		r.Parse([]byte(line))
		if r.Kind != Network {
			t.Fatalf("%s: got kind %d (%s), want a network rule", line, r.Kind, r.Reason)
		}
		if err := b.Add(&r, 0, uint32(i)); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
	table := b.Build()
	if table == nil {
		return nil
	}
	e, err := Open(table)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func matching(e *Engine, url string, typ Type, source string) bool {
	var r Request
	r.Set(url, typ, source)
	return len(e.Match(&r, nil)) > 0 && len(e.Except(&r, nil)) == 0
}

func TestRules(t *testing.T) {
	for _, tt := range []struct {
		rule, url string
		typ       Type
		source    string
		want      bool
	}{
		{"/banner/*/img^", "http://example.com/banner/foo/img", Image, "", true},
		{"/banner/*/img^", "http://example.com/banner/foo/bar/img?param", Image, "", true},
		{"/banner/*/img^", "http://example.com/banner//img/foo", Image, "", true},
		{"/banner/*/img^", "http://example.com/banner/img", Image, "", false},
		{"/banner/*/img^", "http://example.com/banner/foo/imgraph", Image, "", false},
		{"/banner/*/img^", "http://example.com/banner/foo/img.gif", Image, "", false},
		{"||ads.example.com/x", "http://ads.example.com/x", Image, "", true},
		{"||ads.example.com/x", "https://a.ads.example.com/xy", Image, "", true},
		{"||ads.example.com/x", "http://ads.example.com.au/x", Image, "", false},
		{"||ads.example.com/x", "http://badads.example.com/x", Image, "", false},
		{"||ads.example.com/x", "http://other.com/ads.example.com/x", Image, "", false},
		{"||example.com^$third-party", "http://example.com:8080/", Image, "a.com", true},
		{"|http://example.com/|", "http://example.com/", Image, "", true},
		{"|http://example.com/|", "http://example.com/foo", Image, "", false},
		{"|http://example.com/|", "http://a.com/?u=http://example.com/", Image, "", false},
		{"swf|", "http://example.com/annoying.SWF", Object, "", true},
		{"swf|", "http://example.com/swf/index.html", Object, "", false},
		{"&ad_id=", "http://a.com/?x=1&ad_id=77", Image, "", true},
		{"*/ads*$image", "http://a.com/adserver", Image, "", true},
		{"*/ads*$image", "http://a.com/adserver", Script, "", false},
		{"/x.js$~script", "http://a.com/x.js", Script, "", false},
		{"/x.js$~script", "http://a.com/x.js", Image, "", true},
		{"/x.js", "http://a.com/x.js", Document, "", false},
		{"/x.js$document", "http://a.com/x.js", Document, "", true},
		{"/x.js$all", "http://a.com/x.js", Document, "", true},
		{"||a.com^$~third-party", "http://www.a.com/", Image, "b.a.com", true},
		{"||a.com^$third-party", "http://www.a.com/", Image, "b.a.com", false},
		{"||a.co.uk^$third-party", "http://a.co.uk/", Image, "b.co.uk", true},
		{"||a.com^$third-party", "http://a.com/", Document, "", false},
		{"||a.com^$third-party", "http://a.com/", Image, "", true},
		{"||a.com^$~third-party", "http://a.com/", Image, "", false},
		{"/ad.js$domain=a.com|~b.a.com", "http://x.com/ad.js", Script, "a.com", true},
		{"/ad.js$domain=a.com|~b.a.com", "http://x.com/ad.js", Script, "c.a.com", true},
		{"/ad.js$domain=a.com|~b.a.com", "http://x.com/ad.js", Script, "x.b.a.com", false},
		{"/ad.js$domain=a.com|~b.a.com", "http://x.com/ad.js", Script, "x.com", false},
		{"/ad.js$domain=~a.com", "http://x.com/ad.js", Script, "b.com", true},
		{"/ad.js$domain=~a.com", "http://x.com/ad.js", Script, "a.com", false},
		{"/ad.js$domain=google.*", "http://x.com/ad.js", Script, "www.google.co.uk", true},
		{"/ad.js$domain=google.*", "http://x.com/ad.js", Script, "google.evil.com", false},
		{"$script,domain=a.com", "http://x.com/y", Script, "a.com", true},
		{"*$script,domain=a.com,denyallow=x.com|y.com", "http://cdn.x.com/y", Script, "a.com", false},
		{"*$script,domain=a.com,denyallow=x.com|y.com", "http://z.com/y", Script, "a.com", true},
		{"/AdServer.JS$match-case", "http://x.com/AdServer.JS", Script, "", true},
		{"/AdServer.JS$match-case", "http://x.com/adserver.js", Script, "", false},
		{"/AdServer.JS", "http://x.com/aDSERVER.js", Script, "", true},
		{`/^https?:\/\/x\d+\.com\//$script`, "https://x77.com/", Script, "", true},
		{`/^https?:\/\/x\d+\.com\//$script`, "https://xx.com/", Script, "", false},
		{`/ad[0-9]{2}\.gif/`, "http://a.com/AD77.gif", Image, "", true},
		{"||a.com/x$redirect=noop.js,script", "http://a.com/x", Script, "", true},
		{"/banner/", "http://a.com/x-banners", Image, "", true}, // slashes at both ends are those of an expression
		{"/banner/*", "http://a.com/x-banners", Image, "", false},
		{"-ad-banner", "http://a.com/x-ad-banners", Image, "", true},
		{"ad", "http://a.com/x/bad", Image, "", true},
		{"||example.co^*foo^bar", "http://example.co/xfoo/bar", Image, "", true},
		{"||1.2.3.4/x", "http://1.2.3.4/x", Image, "", true},
	} {
		e := build(t, tt.rule)
		if got := matching(e, tt.url, tt.typ, tt.source); got != tt.want {
			t.Errorf("rule %s on %s (type %d, from %q): match %v", tt.rule, tt.url, tt.typ, tt.source, got)
		}
	}
}

func TestKindsOfLines(t *testing.T) {
	for line, want := range map[string]Kind{
		"": Comment, "! x": Comment, "[Adblock Plus 2.0]": Comment, "# x": Comment, "#": Comment,
		"||a.com^": Host, "@@||a.com^": Host, "||a.com^$important": Host, "||a.com^$all": Host, "a.com": Host, "||a.com^$badfilter": Host,
		"||a.com": Network, "||a.com^$script": Network, "a.com/x": Network, "||a.*^": Network, ".a.com": Network, "_x.js": Network, "ad.js": Network, "x.gif": Network,
		"a.com##.ad": Cosmetic, "##.ad": Cosmetic, "a.com#@#.ad": Cosmetic, "a.com#?#x": Cosmetic, "a.com#$#x": Unsupported, "a.com#%#//s": Unsupported,
		"@@||a.com^$generichide": Page, "a.com$$script[x]": Unsupported, "a.com##+js(x)": Unsupported,
		"||a.com^$popup": Network, "||a.com^$csp=x": Page, "||a.com^$removeparam=x": Network, "$removeparam=/^(a/": Unsupported, "||a.com^$dnsrewrite=1.2.3.4": Network, "||a.com^$dnsrewrite=1.2.3.4.5;x": Bad, "||a.com^$dnstype=A|~AAAA": Network, "||a.com^$dnstype=QUARK": Bad, "||a.com^$client=~10.0.0.0/8": Network, "||a.com^$ctag=device_pc": Network,
		"*": Bad, "||": Bad, "@@": Bad, "|": Bad, "/x\x00": Bad, "/x$domain=": Bad,
	} {
		var r Rule
		if r.Parse([]byte(line)); r.Kind != want {
			t.Errorf("%q: got kind %d (%s), want %d", line, r.Kind, r.Reason, want)
		}
	}
}

func TestExceptions(t *testing.T) {
	e := build(t, "/ad.js", "@@||good.com/ad.js", "@@||trusted.org^$document", "/banner$important")
	for _, tt := range []struct {
		url, source string
		want        bool
	}{
		{"http://a.com/ad.js", "b.com", true},
		{"http://good.com/ad.js", "b.com", false},
		{"http://a.com/ad.js", "www.trusted.org", false},
	} {
		if got := matching(e, tt.url, Script, tt.source); got != tt.want {
			t.Errorf("%s from %s: match %v", tt.url, tt.source, got)
		}
	}
	var r Request
	r.Set("http://a.com/banner", Image, "")
	found := e.Match(&r, nil)
	if len(found) != 1 {
		t.Fatalf("Match: got %v, want one rule", found)
	}
	if x, ok := e.Rule(found[0]); !ok || !x.Important || x.Line != 3 || x.Text != "/banner$important" {
		t.Errorf("Rule: got %+v, want the important one of line 3", x)
	}
}

func TestBadFilter(t *testing.T) {
	e := build(t, "/ad.js$script,image", "/ad.js$domain=a.com", "/ad.js$badfilter,image,script")
	if e.Len() != 1 {
		t.Errorf("got %d rules, want 1", e.Len())
	}
	if matching(e, "http://x.com/ad.js", Script, "") || !matching(e, "http://x.com/ad.js", Script, "a.com") {
		t.Error("badfilter removed the wrong rule")
	}
}

// reference is a rule as one regular expression and its conditions, worked out
// without the table, the tokens, or the matcher.
type reference struct {
	re              *regexp.Regexp
	words           []string // lower case; every match of re contains each of them
	r               Rule
	include, except []string
	deny            []string
}

func refer(t testing.TB, line string) *reference {
	x := &reference{}
	x.r.Parse([]byte(line))
	body, options := line, ""
	body = strings.TrimPrefix(body, "@@")
	if x.r.options != nil {
		options = string(x.r.options)
		body = strings.TrimSuffix(body, "$"+options)
	}
	expr := ""
	switch {
	case len(body) > 2 && body[0] == '/' && body[len(body)-1] == '/':
		expr = body[1 : len(body)-1]
	default:
		begin, end := "", ""
		if rest, ok := strings.CutPrefix(body, "||"); ok {
			begin, body = `^[a-z]+://(?:[^/?#]*@)?(?:[^/?#.]*\.)*?`, rest
			if strings.HasPrefix(body, "*") {
				begin = ""
			}
		} else if rest, ok := strings.CutPrefix(body, "|"); ok {
			begin, body = "^", rest
		}
		if rest, ok := strings.CutSuffix(body, "|"); ok {
			end, body = "$", rest
		}
		x.words = strings.FieldsFunc(strings.ToLower(body), func(c rune) bool { return c == '*' || c == '^' })
		for _, c := range body {
			switch c {
			case '*':
				expr += ".*"
			case '^':
				// ASCII but letters, digits and _-.%, as ranges that fold fast.
				expr += `(?:[\x00-$&-,/:-@\[-^\x60{-\x7f]|$)`
			default:
				expr += regexp.QuoteMeta(string(c))
			}
		}
		expr = begin + expr + end
	}
	if !strings.Contains(","+options+",", ",match-case,") {
		expr = "(?i)" + expr
	}
	x.re = regexp.MustCompile("(?s)" + expr)
	for _, opt := range strings.Split(options, ",") {
		name, value, _ := strings.Cut(opt, "=")
		for _, d := range strings.Split(strings.ToLower(value), "|") {
			switch {
			case name != "domain" && name != "denyallow":
			case name == "denyallow":
				x.deny = append(x.deny, d)
			case strings.HasPrefix(d, "~"):
				x.except = append(x.except, d[1:])
			default:
				x.include = append(x.include, d)
			}
		}
	}
	return x
}

// longest returns the length of the longest of domains that contains host.
func longest(domains []string, host string) int {
	n := 0
	for _, d := range domains {
		if base, ok := strings.CutSuffix(d, ".*"); ok {
			i := strings.Index("."+host, "."+base+".")
			if i < 0 || len(site(host)) > len(host)-i || !strings.HasPrefix(site(host), base[strings.LastIndexByte(base, '.')+1:]+".") && !strings.Contains(base, ".") {
				continue
			}
			n = max(n, len(d))
		} else if host == d || strings.HasSuffix(host, "."+d) {
			n = max(n, len(d))
		}
	}
	return n
}

func (x *reference) matches(q *request) bool {
	if x.r.types&q.typ == 0 || x.r.flags&flagThird != 0 && !q.third || x.r.flags&flagFirst != 0 && q.third {
		return false
	}
	// Most expressions need not be tried: texts without the needles.
	for _, w := range x.words {
		if !strings.Contains(q.lower, w) {
			return false
		}
	}
	if !x.re.MatchString(q.url) {
		return false
	}
	in, out := longest(x.include, q.source), longest(x.except, q.source)
	return (len(x.include) == 0 || in > 0) && (out == 0 || in > out) && longest(x.deny, q.host) == 0
}

// linesOf reads the lines of real lists.
func linesOf(t testing.TB, names ...string) (lines []string) {
	t.Helper()
	for _, name := range names {
		f, err := os.Open(data.Path(t, "lists", name))
		if err != nil {
			t.Skip(err)
		}
		defer f.Close()
		zr, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		for s := bufio.NewReader(zr); ; {
			line, err := s.ReadString('\n')
			if line = strings.TrimSpace(line); line != "" {
				lines = append(lines, line)
			}
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	return lines
}

// network keeps the rules that belong in an engine.
func network(t testing.TB, lines []string) (rules []string) {
	var r Rule
	for _, line := range lines {
		if r.Parse([]byte(line)); r.Kind == Network && !r.BadFilter {
			if r.flags&flagRegexp != 0 {
				if _, err := compile(r.pattern, r.flags); err != nil {
					t.Logf("%s: %v", line, err)
					continue
				}
			}
			rules = append(rules, line)
		}
	}
	return rules
}

// requests makes requests related to rules, from their patterns, hosts and
// domains, and unrelated ones.
func requests(rnd *rand.Rand, rules []string, n int) (all []request) {
	words := []string{"ads", "js", "banner", "x", "track", "img", "728x90", "adserver", "Pixel.gif", "a.html", "p", "stats", "%20ad"}
	hosts := []string{"example.com", "www.google.co.uk", "cdn.example.net", "1.2.3.4", "news.de"}
	types := []Type{Other, Script, Image, Stylesheet, XMLHTTPRequest, Subdocument, Ping, Media, Document, WebSocket}
	word := func() string { return words[rnd.IntN(len(words))] }
	host := func(line string) string {
		var r Rule
		r.Parse([]byte(line))
		if len(r.domains) > 0 && rnd.IntN(2) == 0 {
			d := strings.TrimPrefix(strings.ToLower(string(r.domains[rnd.IntN(len(r.domains))])), "~")
			d = strings.ReplaceAll(d, ".*", ".com")
			if rnd.IntN(2) == 0 {
				d = "www." + d
			}
			return d
		}
		return hosts[rnd.IntN(len(hosts))]
	}
	for len(all) < n {
		line := rules[rnd.IntN(len(rules))]
		var r Rule
		r.Parse([]byte(line))
		body := string(r.pattern)
		if r.flags&flagRegexp != 0 {
			body = "/x"
		}
		for strings.Contains(body, "*") {
			body = strings.Replace(body, "*", []string{"", word(), "/" + word() + "/"}[rnd.IntN(3)], 1)
		}
		for strings.Contains(body, "^") {
			body = strings.Replace(body, "^", []string{"/", "?", "&", ":", "/" + word(), ""}[rnd.IntN(6)], 1)
		}
		var u string
		switch {
		case r.flags&flagHost != 0:
			u = "https://" + []string{"", "", "www.", "x"}[rnd.IntN(4)] + body
		case r.flags&flagLeft != 0:
			u = body
		default:
			u = "http://" + host(line) + []string{"/", "/", "/" + word(), ""}[rnd.IntN(4)] + body
		}
		if r.flags&flagRight == 0 || rnd.IntN(4) == 0 {
			u += []string{"", "", "/" + word(), "?" + word() + "=1", word()}[rnd.IntN(5)]
		}
		if rnd.IntN(8) == 0 {
			u = "https://" + host(line) + "/" + word() + "/" + word() + "." + word() + "?" + word()
		}
		p, err := url.Parse(u)
		if err != nil || p.Host == "" || p.User != nil {
			continue
		}
		source := ""
		if rnd.IntN(5) > 0 {
			source = host(line)
		}
		q := request{url: u, typ: types[rnd.IntN(len(types))], source: source, lower: strings.ToLower(u), host: strings.ToLower(p.Hostname())}
		q.third = source != "" && site(q.host) != site(source) || source == "" && q.typ != Document
		all = append(all, q)
	}
	return all
}

type request struct {
	url    string
	typ    Type
	source string

	lower, host string // of url
	third       bool
}

// TestAgreesWithReference gives the rules of real lists, and requests derived from them, to the
// engine and to the regular expression of each rule.
func TestAgreesWithReference(t *testing.T) {
	all := network(t, linesOf(t, "easylist.txt.gz", "easyprivacy.txt.gz"))
	rnd := rand.New(rand.NewPCG(7, 7))
	const rules, asks = 2500, 2000
	perm := rnd.Perm(len(all))[:rules]
	var some []string
	for i, j := range perm {
		if some = append(some, all[j]); i >= rules {
			break
		}
	}
	e := build(t, some...)
	refs := make([]*reference, len(some))
	for i, line := range some {
		refs[i] = refer(t, line)
	}
	hits := 0
	var r Request
	for _, q := range requests(rnd, some, asks) {
		r.Set(q.url, q.typ, q.source)
		got := map[string]bool{}
		for _, exception := range []uint32{0, 1} {
			for _, ref := range e.match(&r, exception, nil) {
				x, _ := e.Rule(ref)
				got[x.Text] = true
			}
		}
		for i, ref := range refs {
			if want := ref.matches(&q); want != got[some[i]] {
				t.Fatalf("%s\non %s (type %d, from %q): got %v, want %v by %s", some[i], q.url, q.typ, q.source, got[some[i]], want, ref.re)
			} else if want {
				hits++
			}
		}
	}
	t.Logf("%d rules, %d requests, %d matches", rules, asks, hits)
	if hits < asks/10 {
		t.Errorf("only %d matches: the requests do not fit the rules", hits)
	}
}

func TestNoAllocationsOnAMiss(t *testing.T) {
	e := build(t, "/ad.js", "||a.com/x$script", "-banner-$domain=b.com|google.*", "@@||c.com/y")
	var r Request
	dst := make([]uint32, 0, 4)
	if n := testing.AllocsPerRun(100, func() {
		r.Set("https://www.example.com/index.html?x=77&y=8", Script, "www.google.co.uk")
		dst = e.Match(&r, dst[:0])
	}); n > 0 {
		t.Errorf("Match: got %v allocations, want none", n)
	}
}

// TestLongURLsAreBounded: the worst request of a client takes as long as a few hundred ordinary
// ones, not longer.
func TestLongURLsAreBounded(t *testing.T) {
	e := build(t, network(t, linesOf(t, "easylist.txt.gz", "easyprivacy.txt.gz"))...)
	var r Request
	for _, part := range []string{"ads/", "-ad-", "a", "/ad_", "^&?=", ".gif?", "banner", "%2f", "tracking.js?"} {
		r.Set("http://www.example.com/"+strings.Repeat(part, 100_000/len(part)), Script, "b.com")
		start := time.Now()
		e.Except(&r, e.Match(&r, nil))
		if took := time.Since(start); took > 500*time.Millisecond {
			t.Errorf("matching a URL that repeats %q took %v, want at most 500 ms", part, took)
		} else {
			t.Logf("%q: %v", part, took)
		}
	}
}

func BenchmarkLoad(b *testing.B) {
	lines := linesOf(b, "easylist.txt.gz", "easyprivacy.txt.gz")
	all := make([][]byte, len(lines))
	for i, line := range lines {
		all[i] = []byte(line)
	}
	start := time.Now()
	var table []byte
	n := 0
	for b.Loop() {
		var bld Builder
		var r Rule
		for i, line := range all {
			if r.Parse(line); r.Kind == Network {
				if err := bld.Add(&r, 0, uint32(i)); err != nil {
					continue
				}
			}
		}
		table, n = bld.Build(), bld.n
		if _, err := Open(table); err != nil {
			b.Fatal(err)
		}
	}
	took := time.Since(start) / time.Duration(b.N)
	b.ReportMetric(float64(len(lines))/took.Seconds(), "lines/s")
	b.ReportMetric(float64(n)/took.Seconds(), "engine-rules/s")
	b.ReportMetric(float64(len(table))/float64(n), "B/rule")
}

func BenchmarkMatch(b *testing.B) {
	rules := network(b, linesOf(b, "easylist.txt.gz", "easyprivacy.txt.gz"))
	e := build(b, rules...)
	for _, kind := range []string{"of rules", "others"} {
		b.Run(kind, func(b *testing.B) {
			rnd := rand.New(rand.NewPCG(3, 3))
			asks := requests(rnd, rules, 5000)
			if kind == "others" {
				for i := range asks {
					asks[i].url = fmt.Sprintf("https://www.site%d.com/static/%x/page-%d.html?utm=%x&id=%d", i%977, rnd.Uint64(), i, rnd.Uint32(), i)
				}
			}
			var r Request
			dst := make([]uint32, 0, 64)
			b.ReportAllocs()
			i, hits := 0, 0
			for b.Loop() {
				q := &asks[i%len(asks)]
				i++
				r.Set(q.url, q.typ, q.source)
				if dst = e.Match(&r, dst[:0]); len(dst) > 0 {
					hits++
					dst = e.Except(&r, dst[:0])
				}
			}
			b.ReportMetric(100*float64(hits)/float64(i), "%hit")
		})
	}
}

// FuzzRule parses any line. A rule can be queried, and a table with only that rule has the
// effect that its reference describes.
func FuzzRule(f *testing.F) {
	for _, s := range []string{"||a.com/x^$script,domain=b.com|~c.b.com", "@@|http://*.js|", `/a\d+/$match-case`, "*$denyallow=a.com,domain=b.com", "||*^x", "^a^*^b^|", "||a.com^$redirect=noop.js", "$$", "##", "|||", "a$b$c"} {
		f.Add(s, "http://a.com/x?y", "b.com")
	}
	f.Fuzz(func(t *testing.T, line, url, source string) {
		var r Rule
		r.Parse([]byte(strings.TrimSpace(line)))
		var b Builder
		var q Request
		q.Set(url, Script, source)
		if r.Kind != Network || b.Add(&r, 1, 2) != nil {
			return
		}
		table := b.Build()
		if table == nil {
			return
		}
		e, err := Open(table)
		if err != nil {
			t.Fatal(err)
		}
		for _, ref := range e.Except(&q, e.Match(&q, nil)) {
			if x, ok := e.Rule(ref); !ok || x.Line != 2 || x.Category != 1 {
				t.Errorf("rule %q in the table: got %+v", line, x)
			}
		}
	})
}

// FuzzOpen queries damaged tables.
func FuzzOpen(f *testing.F) {
	var b Builder
	var r Rule
	for _, line := range []string{"/ad.js", "||a.com/x$script,domain=b.com", `/x\d/`, "@@||c.com/y", "x"} {
		r.Parse([]byte(line))
		if err := b.Add(&r, 0, 0); err != nil {
			f.Fatal(err)
		}
	}
	f.Add(b.Build(), "http://a.com/x")
	f.Fuzz(func(t *testing.T, data []byte, url string) {
		e, err := Open(slices.Clone(data))
		if err != nil {
			return
		}
		var q Request
		q.Set(url, Script, "b.com")
		for _, ref := range e.Except(&q, e.Match(&q, nil)) {
			e.Rule(ref)
		}
	})
}
