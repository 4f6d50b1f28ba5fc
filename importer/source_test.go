package importer

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shuultuur/filter"
	"shuultuur/message"
)

func TestRulesOfSquidAsSquidReadsThem(t *testing.T) {
	for _, tt := range []struct {
		rules, client, user, url, want string
		at                             string // day and time; Wednesday 12:00 if empty
	}{
		{"http_access allow a\nacl a src 10.0.0.0/8", "10.1.2.3", "", "http://x.example/", "line 1", ""},
		{"http_access deny a\nacl a src 10.0.0.0/8", "192.0.2.1", "", "http://x.example/", "the opposite of the last line", ""},
		{"acl a dstdomain .x.example\nacl b src 10.0.0.0/8\nhttp_access deny a b\nhttp_access allow all", "10.1.2.3", "", "http://www.x.example/", "line 3", ""},
		{"acl a dstdomain .x.example\nacl b src 10.0.0.0/8\nhttp_access deny a !b\nhttp_access allow all", "10.1.2.3", "", "http://www.x.example/", "line 4", ""},
		{"acl a dstdomain x.example\nhttp_access deny a\nhttp_access allow all", "10.1.2.3", "", "http://www.x.example/", "line 3", ""},
		{"acl a url_regex EXE\nhttp_access deny a\nhttp_access allow all", "10.1.2.3", "", "http://x.example/a.exe", "line 3", ""},
		{"acl a url_regex -i EXE\nhttp_access deny a\nhttp_access allow all", "10.1.2.3", "", "http://x.example/a.exe", "line 2", ""},
		{"acl a proxy_auth anna\nhttp_access allow a\nhttp_access deny all", "10.1.2.3", "anna", "http://x.example/", "line 2", ""},
		{"acl a proxy_auth REQUIRED\nhttp_access allow a\nhttp_access deny all", "10.1.2.3", "", "http://x.example/", "line 3", ""},
		{"acl t time MTWHF 08:00-13:00\nhttp_access deny t\nhttp_access allow all", "10.1.2.3", "", "http://x.example/", "line 2", ""},
		{"acl t time SA\nhttp_access deny t\nhttp_access allow all", "10.1.2.3", "", "http://x.example/", "line 3", ""},
		{"acl t time MTWHF 08:00-13:00\nhttp_access deny t\nhttp_access allow all", "10.1.2.3", "", "http://x.example/", "line 3", "2026-11-28T12:00:00Z"},
		{"acl a dst 192.0.2.0/24\nacl b dst 198.51.100.0/24\nacl both any-of a b\nhttp_access deny both\nhttp_access allow all", "10.1.2.3", "", "http://198.51.100.9/", "line 4", ""},
		{"acl a dst 192.0.2.0/24\nacl b src 10.0.0.0/8\nacl both all-of a b\nhttp_access deny !both\nhttp_access allow all", "10.1.2.3", "", "http://192.0.2.9/", "line 5", ""},
		{"acl a port 1025-65535 80\nhttp_access deny !a\nhttp_access allow all", "10.1.2.3", "", "http://x.example:81/", "line 2", ""},
		{"http_access allow \\\nlocalhost\nhttp_access deny all", "127.0.0.1", "", "http://x.example/", "line 2", ""},
	} {
		file := filepath.Join(t.TempDir(), "squid.conf")
		if err := os.WriteFile(file, []byte(tt.rules+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		s, ok, err := NewSource(t.Context(), Squid, file)
		if !ok || err != nil || len(s.Unknown) > 0 {
			t.Fatalf("reading the rules %s: %v, unknown: %q", tt.rules, err, s.Unknown)
		}
		start, _ := time.Parse(time.RFC3339, tt.at)
		if tt.at == "" {
			start = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
		}
		_, rest, _ := strings.Cut(tt.url, "://")
		authority, path, _ := strings.Cut(rest, "/")
		host, _, _ := strings.Cut(authority, ":")
		port := uint16(80)
		if host != authority {
			port = 81
		}
		x := &filter.Transaction{Start: start, Client: filter.Client{Addr: netip.MustParseAddr(tt.client), User: tt.user}, URL: tt.url, Host: host, Port: port,
			Last: filter.Request, Request: &message.Request{Method: "GET", Path: []byte("/" + path), Scheme: "http"}}
		if v := s.Decide(t.Context(), x, filter.Request); v.Reason.Rule != tt.want {
			t.Errorf("%s: %q decides %s for %s, want %q", tt.rules, v.Reason.Rule, tt.url, tt.client, tt.want)
		}
	}
}

func TestACLsThatNoLogCanBeAskedAboutAreNamed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "squid.conf")
	if err := os.WriteFile(file, []byte("acl a external x\nacl b url_regex (\nhttp_access allow a b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, _, err := NewSource(t.Context(), Squid, file)
	if err != nil || len(s.Unknown) != 2 {
		t.Errorf("reading rules with two unknown parts: %v, unknown: %q", err, s.Unknown)
	}
	if _, ok, err := NewSource(t.Context(), E2guardian, file); ok || err != nil {
		t.Errorf("NewSource supports e2guardian, which it does not: %v", err)
	}
}

func TestBesideMovesEveryPort(t *testing.T) {
	dir := t.TempDir()
	file, moved := filepath.Join(dir, "shuultuur.yaml"), filepath.Join(dir, "beside.yaml")
	text := "listen: {proxy: ['[::]:3128', '127.0.0.1:60000'], icap: '127.0.0.1:1344'}\ndns: {listen: [':53'], tls: ['192.0.2.1:853']}\npolicies: [{name: all}]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	lines, err := WithOtherPorts(file, moved)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(moved)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"[::]:13128", "127.0.0.1:50000", "127.0.0.1:11344", ":10053", "192.0.2.1:10853", "127.0.0.1:18081", "name: all"} {
		if !strings.Contains(string(got), want) {
			t.Errorf("%s is not in\n%s", want, got)
		}
	}
	if len(lines) != 6 || !strings.Contains(strings.Join(lines, "\n"), "dns.listen: :10053 instead of :53") {
		t.Errorf("the new places of the addresses are %q, want six", lines)
	}
}

// TestReasonsAreFoundByWholeWordsOfOptions: the words of e2guardian's options are written
// together, so that one may seem to be in another.
func TestReasonsAreFoundByWholeWordsOfOptions(t *testing.T) {
	for name, want := range map[string]string{
		"set_accesslog": "the record", "maxlogitemlength": "the record", "nologger": "the record", "dstatlocation": "the record", "loguseragent": "the record",
		"proxyfailureloginterval": "the record", "sslcertcheck": "certificates", "onlymitmsslgrey": "certificates", "opensslconffile": "certificates",
		"allowemptyhostcert": "certificates", "daemonuser": "the service manager", "nodaemon": "the service manager", "ipipcfilename": "the service manager",
		"regexpuseragentlist": "there is no", "filtergroup": "there is no", "defaulttransparentfiltergroup": "one port", "mapportstoips": "one port", "mapauthtoports": "users",
		"reportinglevel": "block pages", "usecustombannedflash": "block pages", "sslaccessdeniedaddress": "block pages", "bannedrooms": "there is no", "htmltemplate": "block pages",
		"bannedsearchtermlist": "search terms", "searchtermlimit": "search terms", "preauthstoryboard": "storyboards", "forcequicksearch": "the phrase search",
		"reverseclientiplookups": "names are judged", "pcontimeout": "limits", "connectretries": "limits", "minsparechildren": "limits", "thresholdbyuser": "no mail",
		"usesmtp": "no mail", "enablepics": "PICS", "scancleancache": "bodies", "disablecontentscan": "bodies", "infectionbypass": "bodies", "bypasskey": "a ban",
		"naughtynesslimit": "there is no", "perroomdirectory": "there is no", "prefercachedlists": "there is no",
	} {
		if got := whyNot(name); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
