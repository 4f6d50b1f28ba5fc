package squid

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/message"
	"shuultuur/tool/importer/original"
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
		s, err := original.Read(t.Context(), file, Rules)
		if err != nil || len(s.Unknown) > 0 {
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
		s.Decide(t.Context(), x, filter.Request)
		if v := x.Verdict; v.Reason.Rule != tt.want {
			t.Errorf("%s: %q decides %s for %s, want %q", tt.rules, v.Reason.Rule, tt.url, tt.client, tt.want)
		}
	}
}

func TestACLsThatNoLogCanBeAskedAboutAreNamed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "squid.conf")
	if err := os.WriteFile(file, []byte("acl a external x\nacl b url_regex (\nhttp_access allow a b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := original.Read(t.Context(), file, Rules)
	if err != nil || len(s.Unknown) != 2 {
		t.Errorf("reading rules with two unknown parts: %v, unknown: %q", err, s.Unknown)
	}
}
