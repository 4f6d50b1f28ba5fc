package list

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFormats(t *testing.T) {
	no, yes := false, true
	for _, tt := range []struct {
		name         string
		format       FormatName
		subdomains   *bool
		text         string
		want         map[string]int // URL: entries found
		bad, ignored int
	}{
		{"domains", Domains, nil, "\ufeff# comment\n\nA.com\r\nb.com # note\n  c.com  \nexa mple\n", map[string]int{"a.com": 1, "b.com": 1, "x.c.com": 1, "mple": 0}, 1, 0},
		{"domains exact", Domains, &no, "a.com\na.com/x\n", map[string]int{"a.com": 1, "x.a.com": 0, "x.a.com/x": 1}, 0, 0},
		{"hosts", Hosts, nil, "127.0.0.1 localhost\n::1 ip6-localhost\n0.0.0.0 a.com b.com # c.com\n\t0.0.0.0\tD.com\nfe80::1%lo0 localhost\n0.0.0.0\nd.com\n0.0.0.0 printer\n",
			map[string]int{"a.com": 1, "b.com": 1, "c.com": 0, "d.com": 1, "x.a.com": 0, "localhost": 0, "printer": 1}, 2, 3},
		{"hosts with subdomains", Hosts, &yes, "0.0.0.0 a.com\n", map[string]int{"a.com": 1, "x.a.com": 1}, 0, 0},
		{"adblock", Adblock, nil, "[Adblock Plus]\n! comment\n||a.com^\n||b.com^$important\n@@||good.a.com^\n||c.com^$third-party\nd.com##.ad\n/banner/\n||e.com/x^\n||f*.com^\n|https://g.com^\n||h.com^|\n||i_j.com^\n||bad..com^\n||zip^\n",
			map[string]int{"a.com": 1, "x.a.com": 1, "b.com": 1, "good.a.com": 2, "c.com": 0, "d.com": 0, "e.com": 0, "g.com": 0, "h.com": 1, "i_j.com": 1, "x.zip": 1}, 1, 0},
		{"wildcard", "wildcard", nil, "# x\n*.a.com\nb.com\n*.zip\nzap\n*.d.com\n", map[string]int{"a.com": 1, "x.a.com": 1, "b.com": 1, "a.zip": 1, "a.zap": 0}, 1, 0},
		{"dnsmasq", "dnsmasq", nil, "# x\naddress=/a.com/#\naddress=/b.com/0.0.0.0\nserver=/c.com/\nserver=/d.com/8.8.8.8\nlocal=/e.com/f.com/\naddress=/#/\naddress=x\nno-resolv\n",
			map[string]int{"a.com": 1, "x.b.com": 1, "c.com": 1, "d.com": 0, "e.com": 1, "f.com": 1}, 2, 2},
		{"unbound", "unbound", nil, "server:\nlocal-zone: \"a.com\" always_nxdomain\nlocal-zone: b.com. redirect # x\nlocal-data: \"b.com A 0.0.0.0\"\nlocal-data: \"c.com. 60 IN AAAA ::\"\nlocal-data: \"d.com A 192.0.2.1\"\nlocal-zone: \"e.com\" transparent\nlocal-zone: \"f.com\"\nlocal-zone: \"g h\" deny\ninterface: ::0\n",
			map[string]int{"a.com": 1, "x.a.com": 1, "b.com": 2, "x.b.com": 1, "c.com": 1, "x.c.com": 0, "d.com": 0, "e.com": 0, "f.com": 0}, 2, 3},
		{"rpz", RPZ, nil, "$TTL 60\n@ IN SOA ns.x. root.x. (\n 1 ; serial\n 2 3 4 )\n  IN NS ns.x.\n$ORIGIN rpz.x.\na.com CNAME .\n*.a.com CNAME .\nb.com 300 IN CNAME *.\n*.c.com CNAME rpz-drop.\nok.c.com CNAME rpz-passthru.\nd.com.rpz.x. A 127.0.0.1\n  AAAA ::1\n24.0.2.0.192.rpz-ip CNAME .\n48.zz.1.db8.2001.rpz-ip CNAME .\n32.1.0.0.10.rpz-client-ip CNAME .\ne.com.elsewhere. CNAME .\nf.com CNAME rpz-tcp-only.\n99.0.0.0.10.rpz-ip CNAME .\n",
			map[string]int{"a.com": 1, "x.a.com": 1, "b.com": 1, "x.b.com": 0, "c.com": 0, "x.c.com": 1, "ok.c.com": 2, "d.com": 1, "e.com": 0, "f.com": 0, "192.0.2.7": 1, "192.0.3.1": 0, "10.0.0.1": 0}, 2, 2},
		{"networks", Networks, nil, "# x\n10.0.0.0/8\n10.1.0.0/24 ; nested\n192.0.2.7\n198.51.100.0/255.255.255.0\n203.0.113.5-203.0.113.9\n2001:db8::/32\n10.300.0.0/8\n1.2.3.4-1.2.3.3\n",
			map[string]int{"10.2.0.1": 1, "10.1.0.77": 2, "11.0.0.1": 0, "192.0.2.7": 1, "192.0.2.8": 0, "198.51.100.255": 1, "203.0.113.4": 0, "203.0.113.5": 1, "203.0.113.9": 1, "203.0.113.10": 0, "2001:db8::1": 1, "2001:db9::1": 0, "a.com": 0}, 2, 0},
	} {
		for _, format := range []FormatName{tt.format, Auto} {
			t.Run(tt.name+" "+string(format), func(t *testing.T) {
				f, rep := compileText(t, Config{Format: format, Subdomains: tt.subdomains}, tt.text)
				got := map[string]int{}
				for url := range tt.want {
					got[url] = len(ask(t, f, url))
				}
				if d := cmp.Diff(tt.want, got); d != "" {
					t.Errorf("entries differ (-want +got):\n%s", d)
				}
				if rep.Sources[0].Format != string(tt.format) || rep.Bad != tt.bad || rep.Ignored != tt.ignored {
					t.Errorf("got format %s, %d bad, %d ignored, want %s, %d, %d: %v", rep.Sources[0].Format, rep.Bad, rep.Ignored, tt.format, tt.bad, tt.ignored, rep.Problems)
				}
			})
		}
	}
}

func TestEveryBadLineIsReported(t *testing.T) {
	label64 := strings.Repeat("a", 64)
	for line, want := range map[string]string{
		"exa mple":                              `"exa mple" is not a domain name`,
		"exa\x00mple.com":                       `"exa\x00mple.com" is not a domain name`,
		"a..b.com":                              `"a..b.com" is not a domain name`,
		"**":                                    `"**" is not a domain name`,
		"/just/a/path":                          `"/just/a/path" is not a domain name`,
		label64 + ".com":                        `"` + label64 + `.com" is not a domain name`,
		strings.Repeat("a.", 127) + "":          `"` + strings.Repeat("a.", 40) + `"…`,
		"1.2.3":                                 `"1.2.3" is neither a domain name nor an address`,
		"1.2.3.400":                             `"1.2.3.400" is neither a domain name nor an address`,
		"[::1":                                  `"[::1" is neither a domain name nor an address`,
		"1:2:3":                                 `"1:2:3" is neither a domain name nor an address`,
		"10.0.0.0/8":                            `"10.0.0.0/8" is a network: lists contain hosts and URLs`,
		"! a comment: of another list":          `"! a comment: of another list" is neither a domain name nor an address`,
		"com":                                   `"com" is a top-level domain; write ".com" if you mean all of it`,
		"caf\xe9.fr":                            `"caf\xe9.fr" is not UTF-8`,
		"a.com/" + strings.Repeat("x", 2100):    `"a.com/` + strings.Repeat("x", 74) + `"… is longer than 2048 bytes`,
		"ok.com " + strings.Repeat("x", 70_000): `"ok.com ` + strings.Repeat("x", 73) + `" is the beginning of a line longer than 65536 bytes`,
	} {
		_, rep := compileText(t, Config{Format: Domains}, "a.com\n"+line+"\nb.com")
		if strings.HasPrefix(line, "a.a.") {
			if rep.Entries != 3 { // 127 labels of one letter are 253 bytes
				t.Errorf("%q: refused with %v, want it kept", line, rep.Problems)
			}
			continue
		}
		if len(rep.Problems) != 1 || rep.Bad != 1 || rep.Entries != 2 || rep.Lines != 3 {
			t.Errorf("%.80q: got report %+v", line, rep)
			continue
		}
		if p := rep.Problems[0]; p.Reason != want || p.Line != 2 || p.Kept {
			t.Errorf("%.80q: got %v, want %s", line, p, want)
		}
	}
}

func TestRemarksKeepTheEntry(t *testing.T) {
	f, rep := compileText(t, Config{Format: Domains}, "http://a.com\nhttps://b.com:8443/x\nc.com:80\n")
	if rep.Entries != 3 || rep.Bad != 0 {
		t.Errorf("got %+v, want three entries", rep)
	}
	var got []string
	for _, p := range rep.Problems {
		if !p.Kept {
			t.Errorf("problem %v: the line was not kept", p)
		}
		got = append(got, fmt.Sprint(p.Line, " ", p.Reason))
	}
	want := []string{
		`1 "http://a.com" has a scheme, which is ignored`,
		`2 "https://b.com:8443/x" has a scheme, which is ignored`,
		`2 "https://b.com:8443/x" has a port, which is ignored: entries cover all ports`,
		`3 "c.com:80" has a port, which is ignored: entries cover all ports`,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("remarks differ (-want +got):\n%s", d)
	}
	for _, url := range []string{"a.com", "b.com/x", "www.c.com"} {
		if len(ask(t, f, url)) != 1 {
			t.Errorf("%s is not found", url)
		}
	}
}

func TestProblemsAreCappedAndCounted(t *testing.T) {
	_, rep := compileText(t, Config{Format: Domains}, strings.Repeat("b a d\n", 5000)+"a.com\n")
	if len(rep.Problems) != keptPerFile || rep.Bad != 5000 || rep.Entries != 1 {
		t.Errorf("5000 bad lines: got %d problems, %d bad, %d entries", len(rep.Problems), rep.Bad, rep.Entries)
	}
}

func TestUnusableSettingsAreNamed(t *testing.T) {
	for _, tt := range []struct {
		cfg  Config
		want string
	}{
		{Config{Format: "xml", Path: "x"}, `format: "xml" is not a list format; known are auto, ut1, domains, hosts, adblock, wildcard, dnsmasq, unbound, rpz, networks, json, csv, e2guardian, e2guardian-regexp, pihole, expressions`},
		{Config{Charset: "klingon", Path: "x"}, `charset: "klingon" is not a charset; write one like windows-1251`},
		{Config{Match: "regexp", Path: "x"}, `match: "regexp" is neither boundary nor prefix`},
		{Config{}, `path: a list needs a path`},
		{Config{Path: "does/not/exist"}, `path: reading list "own": stat does/not/exist: no such file or directory`},
	} {
		_, err := Compile(context.Background(), "own", tt.cfg, "unused")
		if err == nil || err.Error() != tt.want {
			t.Errorf("got %v, want %s", err, tt.want)
		}
	}
}

func TestCleanPath(t *testing.T) {
	for in, want := range map[string]string{
		"/":                               "/",
		"/a/b":                            "/a/b",
		"//a///b/":                        "/a/b/",
		"/A/%42/%2f%63":                   "/a/b/c",
		"/a/./b/.":                        "/a/b/",
		"/a/../b/..":                      "/",
		"/../../a":                        "/a",
		"/..":                             "/",
		"/...":                            "/...",
		"/a%2e%2e/b":                      "/a../b",
		"/%2e%2E/b":                       "/b",
		"/a?x=/../B//c#d":                 "/a?x=/../b//c",
		"/a/..?x":                         "/?x",
		"/a#b?c":                          "/a",
		"/%":                              "/%",
		"/%4":                             "/%4",
		"/%zz":                            "/%zz",
		"/%2541":                          "/%41",
		"/a?" + strings.Repeat("x", 3000): "/a?" + strings.Repeat("x", maxKey+1-3),
		"/" + strings.Repeat("y", 3000):   "/" + strings.Repeat("y", maxKey),
	} {
		var buf [maxKey + 1]byte
		if got := string(cleanPath(buf[:0], []byte(in))); got != want {
			t.Errorf("cleanPath(%.40q) = %.40q, want %.40q", in, got, want)
		}
	}
}
