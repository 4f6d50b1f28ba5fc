package list

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shuultuur/lib/setting"
	"shuultuur/list/width"
	"shuultuur/test/data"
	"shuultuur/test/race"
)

// TestWideLinesAreRefusedOrNamed: by what they match, in each format, for blocking and for exceptions;
// from outside they are refused, in a list of our own they stay and are named. Neighbours that are not
// wide stay.
func TestWideLinesAreRefusedOrNamed(t *testing.T) {
	for format, x := range map[FormatName]struct{ wide, narrow string }{
		Adblock: {
			"^\n.\n*.\n*^\n^*^\n/.*/\n/./\n/^/\n/[a-z]/\n/\\./\n||*.*\n*$all\n$all\n*$important\n*$document\n*$dnstype=A\n$dnstype=A\n*$client=127.0.0.1\n*$denyallow=good.example\n" +
				"/\n:\nhttp\n://\n|http*\n$third-party\nhttps:\n||com^\n||com\n||co.uk^\n||uk^$important\n/^https?:/\n/(com|org|net|de|fr|pl|ru|io|uk|edu|top|uz)/\n" +
				"@@.\n@@/\n@@^\n@@$all\n@@/./\n@@||*.*\n@@http\n@@*$important\n@@||com^\n*/\n*$script,domain=com\n*$script,domain=a.example|de\n*$csp=script-src 'none'\n.com/\n||www.\n/\\.c[o]m$/\n",
			"||ads.example^\n/banner/*\n||github.io^\n||example.com\n/ads[0-9]+/\n-ads.\n*$script,domain=a.example\n@@||good.example^\n.gif?ad=\n||google.co.uk^\n|https://ads.\n||get-me-wow.\n$ping,third-party\n||example.com^$removeparam=x\n||a.example^$csp=script-src 'none'\n.com/ads\n/casino[0-9]*\\.com$/\n",
		},
		Expressions: {".\n.*\n^\n[a-z]\n(com|org|net|de|fr|pl|ru|io|uk|edu|top|uz)\n[.]\n", "casino\n(^|[-./])ads\n^x[0-9]+[.]example\n"},
		Pihole:      {".\n.*\n^\n[a-z]\n\\.\nads;invert\n^.+$;querytype=A\n", "(^|\\.)ads[0-9]+\\.\n^ad\\.\n"},
		Domains:     {".com\n*.com\nco.uk\n.de\n*.co.jp\n", "example.com\nexample.co.uk\ngithub.io\ngov.uk\ncom.example\nblogspot.com\n"},
		"wildcard":  {"*.com\n*.co.uk\n", "*.example.com\n"},
		"dnsmasq":   {"address=/com/\nlocal=/co.uk/\n", "address=/a.com/\n"},
		"unbound":   {"local-zone: \"com\" static\nlocal-zone: \"co.uk.\" refuse\n", "local-zone: \"a.com\" static\n"},
		RPZ:         {"*.com CNAME .\n*.co.uk CNAME rpz-passthru.\n", "*.a.com CNAME .\na.example CNAME .\n"},
		Networks:    {"0.0.0.0/0\n1.2.3.4/0\n0.0.0.0-255.255.255.255\n0.0.0.0/0.0.0.0\n64.0.0.0/2\n10.0.0.0/7\n::/0\n2000::/3\n", "10.0.0.0/8\n192.0.2.0/24\n2001:db8::/32\n"},
	} {
		for _, fetched := range []bool{true, false} {
			file := filepath.Join(t.TempDir(), "list")
			if err := os.WriteFile(file, []byte(x.wide+x.narrow), 0o600); err != nil {
				t.Fatal(err)
			}
			r, err := Compile(t.Context(), "x", Config{Format: format, Path: setting.Source(file), Fetched: fetched}, file+".list")
			if err != nil {
				t.Fatal(err)
			}
			refused, named := map[int]bool{}, map[int]bool{}
			for _, p := range r.Problems {
				refused[p.Line] = refused[p.Line] || !p.Kept
				named[p.Line] = named[p.Line] || strings.HasSuffix(p.Reason, width.Wide)
			}
			for i, line := range strings.Split(strings.TrimSpace(x.wide+x.narrow), "\n") {
				wide := i < strings.Count(x.wide, "\n")
				if fetched && wide != refused[i+1] {
					t.Errorf("%s: %q: refused: %v, want %v", format, line, refused[i+1], wide)
				}
				if !fetched && (refused[i+1] || wide != named[i+1]) {
					t.Errorf("%s: %q in a list of our own: refused: %v, named: %v, want %v", format, line, refused[i+1], named[i+1], wide)
				}
			}
		}
	}
}

// TestPublicListsFromOutsideAreTakenWhole: no line of them is refused that is taken from a file of our
// own, and none of those that cover the names of many owners gets lost.
func TestPublicListsFromOutsideAreTakenWhole(t *testing.T) {
	for name, format := range map[string]FormatName{
		"adguarddns.dnsmasq.txt.gz": "dnsmasq", "adguarddns.hosts.txt.gz": Hosts, "easylist.txt.gz": Adblock, "easyprivacy.txt.gz": Adblock,
		"hagezi-light.adblock.txt.gz": Adblock, "stevenblack.domains.txt.gz": Domains, "ultimatehosts.wildcard.txt.gz": "wildcard", "ut1.tar.gz": UT1,
	} {
		t.Run(name, func(t *testing.T) {
			race.Without(t)
			cfg := Config{Format: format, Path: setting.Source(data.Path(t, "lists", name))}
			var reports [2]Report
			for i := range reports {
				cfg.Fetched = i == 1
				var err error
				if reports[i], err = Compile(t.Context(), "x", cfg, filepath.Join(t.TempDir(), "x.list")); err != nil {
					t.Fatal(err)
				}
			}
			own, fetched := &reports[0], &reports[1]
			if fetched.Bad != own.Bad || fetched.Entries != own.Entries || fetched.Rules != own.Rules || fetched.Exprs != own.Exprs || fetched.Cosmetics != own.Cosmetics || !maps.Equal(fetched.Categories, own.Categories) {
				t.Errorf("%d lines are refused, of our own %d: %v", fetched.Bad, own.Bad, fetched.Problems)
			}
		})
	}
}
