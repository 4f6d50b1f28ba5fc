package squid

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"shuultuur/lib/literal"
)

func TestExpressionsSeeWhatSquidComparesThemWith(t *testing.T) {
	for _, tt := range []struct {
		kind, expression string
		anyCase          bool
		yes, no          string
	}{
		{"url_regex", `.example`, false, "http://example.com/ http://an.example/", "example"},
		{"url_regex", `^http://[^/]+\.exe$`, false, "http://a.exe", "http://a.example/b.exe https://a.exe"},
		{"url_regex", `Secret`, false, "http://a.example/Secret", "http://a.example/secret"},
		{"url_regex", `Secret`, true, "http://a.example/SECRET", "http://a.example/"},
		{"url_regex", `:443$`, false, "a.example:443", "https://a.example/"},
		{"url_regex", `[[:digit:]]{3}`, false, "http://a123.example/", "http://a12.example/"},
		{"url_regex", `^[[:alpha:]]+://[[:alnum:].]+:8080/`, false, "http://a.example:8080/", "http://a.example/"},
		{"url_regex", `!x`, false, "http://a.example/!x", "http://a.example/x"},
		{"urlpath_regex", `^/ads`, false, "http://a.example/ads https://a.example:81/ads/x", "http://a.example/x/ads a.example:443"},
		{"urlpath_regex", `com`, false, "http://a.example/com", "http://a.com/"},
		{"urlpath_regex", `(/ads/|banner)`, false, "http://a.example/ads/ http://a.example/banner http://a.example/x/ads/", "http://ads/ http://banner/ads"},
		{"urlpath_regex", `.gif$`, false, "http://a.example/gif http://a.example/x.gif", "http://a.gif/ http://a.example/gif/"},
		{"urlpath_regex", `^/x|y$`, false, "http://a.example/xz http://a.example/y", "http://y/a http://x/"},
		{"dstdom_regex", `^www\.|ads`, false, "http://www.example/ http://my.ads.example/x www.example:443 ads.example:443", "http://a.example/www. http://a.example/ads http://a.www.example/"},
		{"dstdom_regex", `\.ru$`, false, "http://a.ru/ http://a.ru:81/x a.ru:443", "http://a.rus/ http://a.example/x.ru"},
		{"dstdom_regex", `a.b`, false, "http://acb/", "http://a/b http://a:b/"},
		{"url_regex", `/\d\.gif`, false, "http://a.example/d.gif", "http://a.example/1.gif"},
		{"dstdom_regex", `ADS`, true, "http://ads.example/", "http://a.example/ads"},
	} {
		x, err := fullURL(&acl{kind: tt.kind, fold: map[string]bool{tt.expression: tt.anyCase}}, tt.expression)
		if err != nil {
			t.Fatalf("%s %s: %v", tt.kind, tt.expression, err)
		}
		re := regexp.MustCompile(x)
		for _, u := range strings.Fields(tt.yes) {
			if !re.MatchString(u) {
				t.Errorf("%s %s, converted to %s, does not match %s", tt.kind, tt.expression, x, u)
			}
		}
		for _, u := range strings.Fields(tt.no) {
			if re.MatchString(u) {
				t.Errorf("%s %s, converted to %s, matches %s", tt.kind, tt.expression, x, u)
			}
		}
	}
	if _, err := fullURL(&acl{kind: "url_regex"}, `(a)\1`); err == nil {
		t.Error("an expression with a reference back is converted")
	}
}

// TestConvertedExpressionsDecideAlike compares random expressions on parts of URLs with the converted
// ones on the whole.
func TestConvertedExpressionsDecideAlike(t *testing.T) {
	r := rand.New(rand.NewPCG(50, 1))
	pick := func(all ...string) string { return all[r.IntN(len(all))] }
	converted, refused := 0, 0
	for range 2000 {
		var v strings.Builder
		for range 1 + r.IntN(4) {
			if r.IntN(4) == 0 {
				v.WriteString(pick("^", "$", "|"))
				continue
			}
			v.WriteString(pick("a", "b", "/", ".", "[ab/]", "[^a]", "(a|/)", "(^a|b$)", "x", ":") + pick("", "", "", "*", "+", "?", "{2}"))
		}
		want, err := regexp.Compile(literal.FromPOSIX(v.String()))
		if err != nil {
			continue
		}
		host, path := pick("a", "b", "ab", "x.a", "aa"), "/"+pick("", "a", "b/a", "x", "aa/")+pick("", "b")
		url := "http://" + host + path
		for kind, text := range map[string]string{"url_regex": url, "urlpath_regex": path, "dstdom_regex": host} {
			x, err := fullURL(&acl{kind: kind}, v.String())
			if err != nil {
				refused++ // whether an anchor holds depends on the text
				continue
			}
			converted++
			if got := regexp.MustCompile(x).MatchString(url); got != want.MatchString(text) {
				t.Fatalf("%s %s, converted to %s: %v for %s, want %v", kind, v.String(), x, got, url, !got)
			}
		}
	}
	if refused > converted/5 {
		t.Errorf("%d expressions are converted, and %d are not", converted, refused)
	}
}
