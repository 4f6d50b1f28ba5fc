package wrapped

import (
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"slices"
	"strings"
	"testing"
)

func reversed(s string) string {
	b := []byte(s)
	slices.Reverse(b)
	return string(b)
}

// rot13 and xor are written here anew, from the descriptions of the codings.
func rot13(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return 'a' + (r-'a'+13)%26
		case r >= 'A' && r <= 'Z':
			return 'A' + (r-'A'+13)%26
		}
		return r
	}, s)
}

func xor(s string) string {
	b := []byte(s)
	for i := 1; i < len(b); i += 2 {
		b[i] ^= 2
	}
	return url.QueryEscape(string(b))
}

func each(s string, f func(byte) byte) string {
	b := []byte(s)
	for i := range b {
		b[i] = f(b[i])
	}
	return string(b)
}

func hosts(f *Finder) (all []string) {
	for _, a := range f.Found {
		all = append(all, a.Host)
	}
	return all
}

func TestAddressesInTargets(t *testing.T) {
	const bad = "https://www.bad-site.com/a/b?c=d"
	esc := url.QueryEscape
	std, raw := base64.StdEncoding.EncodeToString, base64.RawURLEncoding.EncodeToString
	for target, way := range map[string]string{
		"/proxy/" + bad:                                                  "",
		"/?" + bad:                                                       "",
		"/?url=" + bad + "&x=1":                                          "",
		"/?a=1&url=" + esc(bad):                                          "percent-encoded",
		"/?u=" + esc(esc(bad)):                                           "percent-encoded twice",
		"/x/" + esc(esc(esc(bad))) + "/y":                                "percent-encoded three times",
		"/?q=" + esc(std([]byte(bad))):                                   "percent-encoded, base64",
		"/browse.php?u=" + raw([]byte(bad)) + "&b=4":                     "base64",
		"/" + raw([]byte(bad)) + ".html":                                 "base64",
		"/?u=" + raw([]byte(esc(bad))):                                   "base64, percent-encoded",
		"/?u=" + raw([]byte(std([]byte(bad)))):                           "base64, base64",
		"/?u=" + hex.EncodeToString([]byte(bad)):                         "hexadecimal",
		"/p/" + strings.ToUpper(hex.EncodeToString([]byte(bad))):         "hexadecimal",
		"/?u=" + reversed("https://www.bad-site.com/a"):                  "reversed",
		"/?u=" + reversed("www.bad-site.com"):                            "reversed",
		"/index.php?q=" + esc(rot13(bad)):                                "percent-encoded, rot13",
		"/service/" + xor(bad):                                           "percent-encoded, xor",
		"/service/" + xor("http://www.bad-site.com/x"):                   "percent-encoded, xor",
		"/?u=" + esc(each(bad, func(c byte) byte { return c ^ 7 })):      "percent-encoded, xor",
		"/x/" + esc(each(bad, func(c byte) byte { return c + 1 })) + "/": "percent-encoded, moved letters",
		"/web/20200101000000id_/http:/www.bad-site.com/":                 "",
		"/web/2020*/www.bad-site.com":                                    "",
		"/amp/s/www.bad-site.com/page":                                   "",
		"/proxy_u/en-de/https/www.bad-site.com/x":                        "",
		"/search?q=cache:AbCdEf123:www.bad-site.com/+x":                  "",
		"/search?q=" + esc(bad):                                          "percent-encoded",
		"/?domain=www.bad-site.com":                                      "",
		"/?www.bad-site.com":                                             "",
		"/?url=//www.bad-site.com/x":                                     "",
		"/?url=https:www.bad-site.com":                                   "",
		"/?url=https:%5C%5Cwww.bad-site.com%5C":                          "percent-encoded",
		"/?j=" + esc(`{"url":"https:\/\/www.bad-site.com\/"}`):           "percent-encoded",
		"/?url=HTTPS://WWW.BAD-SITE.COM./":                               "",
		"/?url=http://user:word@www.bad-site.com:8080/":                  "",
		"/?u=ssl:www.bad-site.com/pic.jpg":                               "",
		"/%23/https://www.bad-site.com/":                                 "percent-encoded",
		"/#https://www.bad-site.com/":                                    "",
		"/a.php/www.bad-site.com:443/":                                   "",
	} {
		var f Finder
		f.Target("harmless.org", []byte(target))
		i := slices.IndexFunc(f.Found, func(a Address) bool { return a.Host == "www.bad-site.com" })
		if i < 0 {
			t.Errorf("%s: found %q, want www.bad-site.com", target, hosts(&f))
		} else if got := f.Found[i].Way; got != way {
			t.Errorf("%s: found as %q, want %q", target, got, way)
		}
	}
	for target, want := range map[string]string{
		"/?u=http://3232235777/":                     "192.168.1.1",
		"/?u=http://0x7f.1/x":                        "127.0.0.1",
		"/?u=http://%5B2001:db8::1%5D:80/":           "2001:db8::1",
		"/?u=" + reversed("http://intranet/x"):       "intranet",
		"/?u=" + raw([]byte("://intranet/x")):        "intranet",
		"/?u=" + raw([]byte("s://intranet/x")):       "intranet",
		"/?u=http://intranet/x":                      "intranet",
		"/?u=https://xn--bcher-kva.example/":         "xn--bcher-kva.example",
		"/?u=https://b%C3%BCcher.example/":           "xn--bcher-kva.example",
		"/?u=" + raw([]byte("https://bücher.de/")):   "xn--bcher-kva.de",
		"/?u=https%3A%2F%2Fb%25C3%25BCcher.example/": "xn--bcher-kva.example",
		"/?u=shop.pl":     "shop.pl",
		"/x/www.shop.pl/": "www.shop.pl",
	} {
		var f Finder
		if f.Target("harmless.org", []byte(target)); !slices.Contains(hosts(&f), want) {
			t.Errorf("%s: found %q, want %s", target, hosts(&f), want)
		}
	}
}

func TestOrdinaryTargetsHaveNoAddress(t *testing.T) {
	for _, target := range []string{
		"", "/", "/?", "/?=", "/?a", "/index.html", "/js/jquery.min.js?v=3.6.0", "/a/b.c/d.php", "/cgi-bin/run.pl/x", "/main.py", "/?%", "/?%2", "/%zz%", "/?u=%68",
		"/login?next=https://www.harmless.org/home", "/login?next=https%3A%2F%2Fother.harmless.org%2F", "/?mail=someone@mail-site.com", "/?m=mailto:someone@mail-site.com",
		"/store/apps/details?id=com.site.app", "/search?q=bad-site.com", "/search?q=www.bad-site.com&x=1", "/search?q=site:bad-site.com", "/search?text=is+bad-site.com+good",
		"/?t=visit%20bad-site.com%20now", "/?v=1.2.3.4", "/static/4f2a9c1e7b3d5a60.css", "/t/eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
		"/?id=dGhpcyBpcyBub3QgYW4gYWRkcmVzcw", "/?k=deadbeefdeadbeef", "/?t=12:30:45", "/?x=http://", "/?x=https:", "/?x=://", "/?x=http://[", "/?x=http://[]/", "/?x=.....", "/?x=a..b", "/?x=-.-.com",
		"/?ids=104,116,116,112,115,58", "/?c=68-74-74-70", "/?k=nb2hi4", "/?k=nb2hi4dthixs6", "/?k=0110100001110100", "/?b=YWJjZGVm/Z2hpamts/bW5v", "/?b=YWJjZGVm/", "/?x=iuuq:", "/?x=9EEAi^^", "/?x=xaHR0c", "/?x=QWPj0RHa",
		"/?k=GxEXAhZOREoOBBJNEAQQRhYQBwBNEQoZRARWEVoATwE", "/?i=104.116.116.112", "/?text=kwws:abc", "/?u=%09%09", "/?u=++++++", "/?u=+bad-site.com+is+bad",
		"/?sptth", "/?x=:sptth", "/?x=uggc:", "/?x=hvtrs8/",
	} {
		var f Finder
		if f.Target("www.harmless.org", []byte(target)); len(f.Found) > 0 {
			t.Errorf("%s: found %q", target, f.Found)
		}
	}
}

func TestAddressesInHosts(t *testing.T) {
	for host, want := range map[string]string{
		"bad--site-com.translate.goog":          "bad-site.com",
		"www-bad-com.translate.goog":            "www.bad.com",
		"m-bad-co-uk.translate.goog":            "m.bad.co.uk",
		"bad-com.cdn.ampproject.org":            "bad.com",
		"www-bad-com.proxy.university.edu":      "www.bad.com",
		"bad-com.unblock.io":                    "bad.com",
		"www.bad.com.proxy.org":                 "www.bad.com",
		"bad.co.uk.ezproxy.library.ac.uk":       "bad.co.uk",
		"www.bad.co.uk.proxy.org":               "www.bad.co.uk",
		"7777772e6261642e636f6d.proxy.org":      "www.bad.com",
		"translate.goog":                        "",
		"-.translate.goog":                      "",
		"www.shop.com.au":                       "",
		"www.example.com":                       "",
		"cdn-eu.example.com":                    "",
		"some-long-name-eu.example.com":         "",
		"like.video.example.com":                "",
		"a.b.c.example.com":                     "",
		"192.0.2.1":                             "",
		"2001:db8::1":                           "",
		"localhost":                             "",
		"":                                      "",
		"com.example.app.example.net":           "",
		strings.Repeat("a.", 100) + "proxy.org": "",
	} {
		var f Finder
		f.Host(host)
		if got := strings.Join(hosts(&f), " "); got != want {
			t.Errorf("%s: found %q, want %q", host, got, want)
		}
	}
}

// TestMuchInAnAddress: however long an address is and whatever it has, it ends, in time.
func TestMuchInAnAddress(t *testing.T) {
	deep := "https://www.bad.com/"
	for range 20 {
		deep = base64.RawURLEncoding.EncodeToString([]byte(deep))
	}
	for name, target := range map[string]string{
		"hosts":    "/?" + strings.Repeat("u=https://a.com/&", 4000),
		"others":   strings.Repeat("/a.com", 10000),
		"escapes":  "/?u=" + strings.Repeat("%25", 20000),
		"layers":   "/?u=" + deep,
		"reversed": "/" + strings.Repeat("moc.a/", 10000),
		"schemes":  "/" + strings.Repeat("uggc:", 10000),
		"numbers":  "/?u=" + strings.Repeat("104", 20000) + strings.Repeat("104,116,", 10000),
		"pieces":   "/" + strings.Repeat("aHR0cDov/", 5000),
		"base32":   "/" + strings.Repeat("nb2hi4", 10000) + strings.Repeat("/nb2hi4dthixs653xo4xgeylefvzws5dffzrw63jp", 1000),
		"codes":    "/" + strings.Repeat("xaHR0c", 10000) + strings.Repeat("/xaHR0cDovL3d3dy5iYWQ", 1000),
		"users":    "/" + strings.Repeat("http://@", 5000) + strings.Repeat("a.com@", 5000),
	} {
		var f Finder
		if f.Target("harmless.org", []byte(target)); len(f.Found) > mostFound {
			t.Errorf("%s: found %d addresses, want at most %d", name, len(f.Found), mostFound)
		}
	}
}

func TestRedirects(t *testing.T) {
	for to, want := range map[string]string{
		"https://www.bad.com/x":                 "www.bad.com",
		"//bad.com":                             "bad.com",
		"uggc://onq.pbz/":                       "bad.com",
		"x://bad.com/":                          "bad.com",
		"/go?u=https%3A%2F%2Fbad.com%2F":        "bad.com",
		"https://bad-com.translate.goog/?x=1":   "bad-com.translate.goog bad.com",
		"https://other.org/?u=https://bad.com/": "other.org bad.com",
		"/next":                                 "",
		"":                                      "",
		"https://harmless.org/":                 "",
		"//":                                    "",
	} {
		var f Finder
		f.Redirect("harmless.org", []byte(to))
		if got := strings.Join(hosts(&f), " "); got != want {
			t.Errorf("to %s: found %q, want %q", to, got, want)
		}
	}
}

func FuzzTarget(f *testing.F) {
	f.Add("/?u=aHR0cHM6Ly93d3cuYmFkLmNvbS8&x=moc.dab//:sptth")
	f.Add("/service/hvtrs8%2F-wuw%2Cbcd.aoo/")
	f.Fuzz(func(t *testing.T, target string) {
		var x Finder
		x.Target("harmless.org", []byte(target))
		x.Redirect("harmless.org", []byte(target))
		x.Host(target)
	})
}

func BenchmarkOrdinaryTarget(b *testing.B) {
	var f Finder
	target := []byte("/assets/build/3f9c2a7e51d84b06/js/vendor.min.js?v=20240611&locale=en-GB&session=Zm9vYmFyYmF6cXV4&ref=home%2Ffront")
	b.ReportAllocs()
	for b.Loop() {
		f.Host("static.cdn-one.harmless.org")
		f.Target("static.cdn-one.harmless.org", target)
	}
}
