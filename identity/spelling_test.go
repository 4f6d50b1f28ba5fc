package identity

import (
	"encoding/base64"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"shuultuur/identity/session"
	"shuultuur/lib/setting"
)

// TestOnePersonHasOneNameWhateverTheWayIn: a person of our domains is the same one however a proxy,
// a helper, a session or a certificate writes the name, and nobody is guessed.
func TestOnePersonHasOneNameWhateverTheWayIn(t *testing.T) {
	coded := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	ours := Spelling{Domains: setting.OneOrMore[string]{"SCHOOL", "school.example"}}
	in64, uri := ours, ours
	in64.Base64, uri.URI = true, true
	both := in64
	both.URI = true
	const nobody = "!"
	for _, tt := range []struct {
		cfg         Spelling
		value, want string // want is nobody if the name cannot be read
	}{
		{Spelling{}, "anna", "anna"},
		{Spelling{}, `SCHOOL\anna`, `SCHOOL\anna`},
		{Spelling{}, "anna@SCHOOL.EXAMPLE", "anna@SCHOOL.EXAMPLE"},
		{Spelling{}, "amlt", "amlt"},
		{Spelling{}, coded("jim"), "amlt"},
		{Spelling{}, coded("anna"), "YW5uYQ=="},
		{Spelling{}, "WinNT://SCHOOL/anna", "WinNT://SCHOOL/anna"},
		{ours, "anna", "anna"},
		{ours, "Anna", "Anna"},
		{ours, "anna@SCHOOL.EXAMPLE", "anna"},
		{ours, "anna@school.example", "anna"},
		{ours, "anna@school", "anna"},
		{ours, `SCHOOL\anna`, "anna"},
		{ours, `school\Anna`, "Anna"},
		{ours, "SCHOOL/anna", "anna"},
		{ours, "SCHOOL+anna", "anna"},
		{ours, "school.example\\anna", "anna"},
		{ours, "anna@other.example", "anna@other.example"},
		{ours, `OTHER\anna`, `OTHER\anna`},
		{ours, "anna@school.example.net", "anna@school.example.net"},
		{ours, "anna@x@school.example", "anna@x"},
		{ours, "@school.example", "@school.example"},
		{ours, `SCHOOL\`, `SCHOOL\`},
		{ours, `\anna`, `\anna`},
		{ours, "SCHOOL", "SCHOOL"},
		{ours, "amlt", "amlt"},
		{ours, "WinNT://SCHOOL/anna", "WinNT://SCHOOL/anna"},
		{in64, coded("jim"), "jim"},
		{in64, strings.TrimRight(coded("anna"), "="), "anna"},
		{in64, coded(`SCHOOL\Жанна`), "Жанна"},
		{in64, coded("anna@SCHOOL.EXAMPLE"), "anna"},
		{in64, coded("WinNT://SCHOOL/anna"), "WinNT://SCHOOL/anna"},
		{in64, "anna!", nobody},
		{in64, coded("\xff\xfe"), nobody},
		{in64, coded("an\nna"), nobody},
		{uri, "WinNT://SCHOOL/anna", "anna"},
		{uri, "WinNT://OTHER/anna", `OTHER\anna`},
		{uri, "WinNT://SCHOOL/PC7/anna", `PC7\anna`},
		{uri, "Local://anna", "anna"},
		{uri, "LDAP://dc/CN=anna,OU=people,DC=school", "anna"},
		{uri, "LDAP://dc/uid=anna", "anna"},
		{uri, "anna", "anna"},
		{uri, `SCHOOL\anna`, "anna"},
		{uri, "WinNT://SCHOOL/", `SCHOOL\`},
		{both, coded("WinNT://SCHOOL/anna"), "anna"},
		{both, coded("LDAP://dc/CN=Anna B,OU=people"), "Anna B"},
	} {
		sessions := session.New(sessionStore{}, slog.New(slog.DiscardHandler))
		id, err := New(Config{Headers: Headers{User: []string{"X-User"}}, Groups: map[string][]string{"pupils": {"anna"}}, Spelling: tt.cfg}, Parts{Sessions: sessions, Others: true})
		if err != nil {
			t.Fatal(err)
		}
		at := netip.MustParseAddr("192.0.2.1")
		member := strings.EqualFold(tt.want, "anna")
		got := id.SentClient(t.Context(), at, []string{"-", tt.value}, nil, "icap")
		if tt.want == nobody {
			if got.User != "" || !got.Unknown || got.Note == "" {
				t.Errorf("%+v, ICAP says %q: %+v; want that it is unknown who it is", tt.cfg, tt.value, got)
			}
		} else if got.User != tt.want || slices.Contains(got.Groups, "pupils") != member || got.Unknown {
			t.Errorf("%+v, ICAP says %q: %+v; want %q", tt.cfg, tt.value, got, tt.want)
		}
		got, _, ok := id.ForwardedClient(t.Context(), at, func(string) []string { return []string{tt.value} })
		if ok != (tt.want != nobody) || ok && (got.User != tt.want || slices.Contains(got.Groups, "pupils") != member) {
			t.Errorf("%+v, a header says %q: %+v, %v; want %q", tt.cfg, tt.value, got, ok, tt.want)
		}
		if tt.cfg.Base64 || tt.cfg.URI { // for names that proxies send
			continue
		}
		got, err = id.DirectoryClient(t.Context(), at, tt.value, "squid")
		if err != nil || got.User != tt.want || slices.Contains(got.Groups, "pupils") != member {
			t.Errorf("%+v, Squid says %q: %+v, %v; want %q", tt.cfg, tt.value, got, err, tt.want)
		}
		if err := sessions.Start(session.Session{Addr: at, User: tt.value, Until: time.Now().Add(time.Hour)}); err != nil {
			t.Fatal(err)
		}
		got, err = id.Identify(t.Context(), at, nil)
		if err != nil || got.User != tt.want || slices.Contains(got.Groups, "pupils") != member {
			t.Errorf("%+v, a session is of %q: %+v, %v; want %q", tt.cfg, tt.value, got, err, tt.want)
		}
	}
}

// TestGroupsAreSpelledLikePeople: groups lose our domains, and what cannot be read leaves them unknown.
func TestGroupsAreSpelledLikePeople(t *testing.T) {
	for _, tt := range []struct {
		cfg           Spelling
		users, groups []string
		want          string
		unknown       bool
	}{
		{Spelling{}, []string{"anna"}, []string{"pupils, choir"}, "choir pupils", false},
		{Spelling{}, []string{"anna"}, []string{"pupils", "choir"}, "choir pupils", false},
		{Spelling{}, []string{"anna", "Anna"}, []string{"-"}, "", false},
		{Spelling{}, []string{"anna", "otto"}, []string{"pupils"}, "", true},
		{Spelling{Domains: setting.OneOrMore[string]{"SCHOOL"}}, []string{`SCHOOL\anna`, "anna"}, []string{`SCHOOL\pupils;OTHER\choir`}, `OTHER\choir pupils`, false},
		{Spelling{URI: true}, []string{"anna"}, []string{"LDAP://dc/CN=pupils,OU=groups,DC=x, Local://choir"}, "choir pupils", false},
		{Spelling{Base64: true}, []string{"YW5uYQ=="}, []string{"pupils!"}, "", true},
		{Spelling{Base64: true}, []string{"YW5uYQ=="}, []string{base64.StdEncoding.EncodeToString([]byte("pupils,choir"))}, "choir pupils", false},
	} {
		id, err := New(Config{Spelling: tt.cfg}, Parts{})
		if err != nil {
			t.Fatal(err)
		}
		c := id.SentClient(t.Context(), netip.MustParseAddr("192.0.2.1"), tt.users, tt.groups, "icap")
		if strings.Join(c.Groups, " ") != tt.want || c.Unknown != tt.unknown {
			t.Errorf("%+v, %q in %q: %+v; want %q, unknown %v", tt.cfg, tt.users, tt.groups, c, tt.want, tt.unknown)
		}
	}
	for _, wrong := range []string{"", `SCHOOL\`, "@school", "a b"} {
		if _, err := New(Config{Spelling: Spelling{Domains: setting.OneOrMore[string]{wrong}}}, Parts{}); err == nil {
			t.Errorf("the domain %q is taken", wrong)
		}
	}
}
