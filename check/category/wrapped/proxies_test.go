package wrapped

import (
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// TestAddressesAsProxiesWriteThem tries how programs and people hide an address from filters, in the
// forms of proxies on the web.
func TestAddressesAsProxiesWriteThem(t *testing.T) {
	const bad = "https://www.bad-site.com/a/b?c=d"
	const http = "http://www.bad-site.com/"
	esc := url.QueryEscape
	std, raw := base64.StdEncoding.EncodeToString, base64.RawURLEncoding.EncodeToString
	bin := ""
	dec := []string{}
	pct := ""
	rot47 := each(bad, func(c byte) byte { return 33 + (c-33+47)%94 })
	for i := range len(bad) {
		pct += "%" + hex.EncodeToString([]byte{bad[i]})
		for k := 7; k >= 0; k-- {
			bin += string('0' + bad[i]>>k&1)
		}
		dec = append(dec, strings.TrimLeft(string([]byte{'0' + bad[i]/100, '0' + bad[i]/10%10, '0' + bad[i]%10}), "0"))
	}
	xorKey := func(s, key string) string {
		i := -1
		return each(s, func(c byte) byte { i++; return c ^ key[i%len(key)] })
	}
	lineb64 := std([]byte("http://www.bad-site.com/a"))
	for name, target := range map[string]string{
		"reversed to the end":  "/?u=" + reversed("http://bad-site.com"),
		"no such domain":       "/?u=" + raw([]byte("://x.bad-site.com")),
		"pct":                  "/?u=" + pct,
		"glype":                "/browse.php?u=" + esc(std([]byte(bad))) + "&b=4&f=norefer",
		"glype no scheme":      "/browse.php?u=" + esc(std([]byte("s://www.bad-site.com/"))) + "&b=4",
		"glype no scheme2":     "/browse.php?u=" + esc(std([]byte("://www.bad-site.com/"))) + "&b=4",
		"glype path":           "/browse.php/" + raw([]byte("s://www.bad-site.com/")) + "/b4/fnorefer/",
		"glype slashes":        "/browse.php/Oi8vd3d3/LmJhZC1z/aXRlLmNv/bS8_3D/b29/",
		"glype slashes2":       "/browse.php/" + strings.Join([]string{lineb64[:8], lineb64[8:16], lineb64[16:24], lineb64[24:]}, "/") + "/b13/",
		"phproxy q":            "/index.php?q=" + esc(std([]byte(bad))) + "&hl=3ed",
		"phproxy hex":          "/index.php?q=" + hex.EncodeToString([]byte(bad)),
		"phproxy strrot":       "/index.php?q=" + esc(rot13(bad)) + "&hl=1",
		"phproxy uggc":         "/index.php?q=uggc%3A%2F%2Fjjj.onq-fvgr.pbz%2F&hl=2e5",
		"cgiproxy":             "/nph-proxy.cgi/en/00/http/www.bad-site.com/index.html",
		"cgiproxy A":           "/nph-proxy.cgi/000000A/http/www.bad-site.com/",
		"cgiproxy hex":         "/nph-proxy.cgi/en/20/" + hex.EncodeToString([]byte("http")) + "/" + hex.EncodeToString([]byte("www.bad-site.com")),
		"psiphon":              "/010110A/http/687474703a2f2f/" + hex.EncodeToString([]byte("www.bad-site.com")),
		"cors":                 "/www.bad-site.com/index.html",
		"cors port":            "/www.bad-site.com:443/index.html",
		"cors slash1":          "/https:/www.bad-site.com/",
		"jsproxy":              "/-----https://www.bad-site.com/",
		"jsproxy worker":       "/http/https://www.bad-site.com/",
		"siteproxy":            "/user22334455/https/www.bad-site.com/",
		"allorigins":           "/get?url=" + esc(bad) + "&callback=?",
		"morty":                "/?mortyurl=" + esc(bad) + "&mortyhash=abc",
		"yql":                  "/v1/public/yql?q=" + esc(`select * from html where url="`+bad+`"`),
		"weserv":               "/?url=ssl:www.bad-site.com",
		"ip-sub":               "/?u=www%2Ebad-site%2Ecom",
		"matrix":               "/fetch;url=" + esc(bad) + "/x",
		"in fragment of q":     "/?x=1#" + bad,
		"base32":               "/?u=" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString([]byte(bad))),
		"base32 upper":         "/?u=" + base32.StdEncoding.EncodeToString([]byte(bad)),
		"binary":               "/?u=" + bin,
		"codes comma":          "/?u=" + strings.Join(dec, ","),
		"codes dash":           "/?u=" + strings.Join(dec, "-"),
		"codes dot":            "/?u=" + strings.Join(dec, "."),
		"rot47":                "/?u=" + esc(rot47),
		"b64 host":             "/?h=" + raw([]byte("www.bad-site.com")),
		"b64 host padded":      "/?h=" + esc(std([]byte("www.bad-site.com"))),
		"b64 reversed":         "/?u=" + reversed(raw([]byte(bad))),
		"reversed b64":         "/?u=" + raw([]byte(reversed(http))),
		"b64 of rot13":         "/?u=" + raw([]byte(rot13(bad))),
		"b64 of xor":           "/?u=" + raw([]byte(xorKey(bad, "\x01\x03"))),
		"xor key 3":            "/?u=" + esc(xorKey(bad, "\x00\x02\x04")),
		"hex of xor":           "/?u=" + hex.EncodeToString([]byte(xorKey(bad, "\x07"))),
		"hex sep":              "/?u=" + strings.Trim(strings.ReplaceAll(pct, "%", "-"), "-"),
		"hex %u":               "/?u=" + strings.ReplaceAll(pct, "%", "%u00"),
		"json b64":             "/?j=" + raw([]byte(`{"url":"https://www.bad-site.com/","x":1}`)),
		"json b64 space":       "/?j=" + raw([]byte(`{ "url": "https://www.bad-site.com/", "x": 1}`)),
		"jwt":                  "/?t=eyJhbGciOiJIUzI1NiJ9." + raw([]byte(`{"url":"https://www.bad-site.com/"}`)) + ".c2ln",
		"b64 prefixed":         "/?u=b64:" + raw([]byte(bad)),
		"b64 with prefix char": "/p/x" + raw([]byte(bad)),
		"b64 tilde":            "/?u=" + strings.ReplaceAll(strings.ReplaceAll(std([]byte(bad)), "/", "~"), "+", "."),
		"unicode dots":         "/?u=" + esc("https://www。bad-site。com/"),
		"fullwidth":            "/?u=" + esc("https://ｗｗｗ.bad-site.com/"),
		"double slash path":    "//www.bad-site.com/x",
		"colon path":           "/proxy:https://www.bad-site.com",
		"urn":                  "/?u=https%253A%252F%252Fwww.bad-site.com",
		"jupyter proxy":        "/proxy/www.bad-site.com:80/",
		"jupyter absolute":     "/proxy/absolute/www.bad-site.com:443/",
		"splash":               "/render.html?url=" + esc(bad),
		"view-source":          "/?u=view-source:" + esc(bad),
		"blank":                "/?u=%20" + esc(bad),
		"plus":                 "/?u=+www.bad-site.com/",
		"newline":              "/?u=%0Ahttps://www.bad-site.com/",
		"tab in it":            "/?u=ht%09tps://www.bad-%09site.com/",
		"array":                "/?u[]=" + bad,
		"semicolons":           "/?a=1;u=" + bad,
		"pair of scheme/host":  "/?scheme=https&host=www.bad-site.com&path=/x",
		"browserless":          "/chrome/content?token=x&url=" + bad,
		"viewer":               "/view/https%3A%2F%2Fwww.bad-site.com",
		"txtify":               "/r.jina.ai/https://www.bad-site.com",
		"12ft":                 "/proxy?q=" + bad,
		"q plain host":         "/proxy?q=www.bad-site.com/x",
		"q b64 host":           "/index.php?q=" + raw([]byte("www.bad-site.com")),
		"p":                    "/?p=" + bad,
	} {
		var f Finder
		f.Target("harmless.org", []byte(target))
		if i := slices.IndexFunc(f.Found, func(a Address) bool { return strings.HasSuffix(a.Host, "bad-site.com") }); i < 0 {
			t.Errorf("%s: %s: found %q", name, target, hosts(&f))
		}
	}
}
