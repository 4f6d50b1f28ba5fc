//go:build !small

package helper

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"shuultuur/filter"
	"shuultuur/proxy/exchange"
	"shuultuur/proxy/page"
)

// decider blocks hosts that begin with "bad" and adds a parameter for "search".
type decider struct{}

func (decider) Wants(*filter.Transaction, filter.Stage) bool { return false }

func (decider) Decide(_ context.Context, t *filter.Transaction, s filter.Stage) {
	v := filter.Verdict{}
	switch {
	case strings.HasPrefix(t.Host, "bad"):
		v.Action = filter.Block
		v.Reason = filter.Reason{Policy: "all", Rule: `say "no"`, Finding: filter.Finding{Category: "games"}}
	case strings.HasPrefix(t.Host, "search") && s == filter.Request:
		v.Edits = []filter.Edit{{Kind: filter.SetQuery, Name: "safe", Value: "active"}}
	}
	t.Verdict = v
}

type wrong struct{}

func (wrong) Error() string        { return "wrong" }
func (wrong) Challenges() []string { return nil }

// A signInError asks a client to sign in on a page of a host that the decider blocks.
type signInError struct{ wrong }

func (signInError) SignIn() string         { return "http://bad.example:8082/sign-in" }
func (signInError) OpenHost(h string) bool { return h == "open.example" || h == "bad-open.example" }

func server(t testing.TB) *Server {
	t.Helper()
	i, err := exchange.NewInspector(exchange.Config{})
	if err != nil {
		t.Fatal(err)
	}
	pages, err := page.New("", "")
	if err != nil {
		t.Fatal(err)
	}
	s := New("", i, nil, slog.New(slog.DiscardHandler))
	err = s.Use(&Engine{
		Decider: decider{}, Pages: pages,
		Identify: func(_ context.Context, a netip.Addr) (filter.Client, error) {
			if a.Is6() || !a.IsValid() {
				return filter.Client{Addr: a}, signInError{}
			}
			return filter.Client{Addr: a}, nil
		},
		Member: func(_ context.Context, a netip.Addr, user string) (filter.Client, error) {
			return filter.Client{Addr: a, User: user, Groups: []string{"of " + user}}, nil
		},
		Verify: func(_ context.Context, _ netip.Addr, user, password string) (filter.Client, error) {
			if user == "1234" && password == "secret" {
				return filter.Client{User: user, Groups: []string{"pupils"}}, nil
			}
			if user != "jö" || password != "a b%\n" {
				return filter.Client{}, wrong{}
			}
			return filter.Client{User: user, Groups: []string{"teachers"}}, nil
		},
		HasGroup: func(g string) bool { return strings.HasPrefix(g, "of ") },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestAnswers(t *testing.T) {
	s := server(t)
	for _, tt := range []struct{ kind, line, want string }{
		{"rewrite", "http://ok.example/ 10.0.0.1/- - GET", "ERR"},
		{"rewrite", "http://ok.example/ 10.0.0.1/host.example - GET myip=10.0.0.2 myport=3128", "ERR"},
		{"rewrite", "12 http://ok.example/ 10.0.0.1/- - GET", "12 ERR"},
		{"rewrite", "0 ok.example:443 10.0.0.1/- - CONNECT", "0 ERR"},
		{"rewrite", "0 [2001:db8::1]:443 10.0.0.1/- - CONNECT", "0 ERR"},
		{"rewrite", "http://search.example/?q=a%20b 10.0.0.1/- - GET", `OK rewrite-url="http://search.example/?q=a%20b&safe=active"`},
		{"rewrite", "https://search.example:8443/x 10.0.0.1/- - GET", `OK rewrite-url="https://search.example:8443/x?safe=active"`},
		{"rewrite", "bad.example:443 10.0.0.1/- - CONNECT", `OK status=302 url="http://shuultuur.internal/`},
		{"rewrite", "http://bad.example/ 10.0.0.1/- - GET", `OK rewrite-url="http://127.0.0.1:`},
		{"rewrite", "http://me@bad.example/ 10.0.0.1/- - GET", `OK rewrite-url="http://127.0.0.1:`},
		{"rewrite", "ftp://bad.example/ 10.0.0.1/- - GET", `OK rewrite-url="http://127.0.0.1:`},
		{"rewrite", "nonsense 10.0.0.1/- - GET", `OK rewrite-url="http://127.0.0.1:`},
		{"rewrite", "", `BH message="`},
		{"rewrite", "5", `5 BH message="the question is empty"`},
		{"acl", "10.0.0.1 - GET http%3A%2F%2Fok.example%2F", "OK"},
		{"acl", "3 10.0.0.1 - GET http://bad.example/ -", `3 ERR message="all: say \"no\" (games)" log="`},
		{"acl", "3 10.0.0.1 - GET http://bad.example/ games", `3 BH message="no check`},
		{"acl", "3 10.0.0.1", `3 BH message="the format`},
		{"acl", "10.0.0.1 - GET http://ok.example/a%20b?c=%2F", "OK"},
		{"acl", "10.0.0.1 - GET http://bad.example/a%20b -", `ERR message=`},
		{"acl", "3 10.0.0.1 anna b GET http://bad.example/a%2520b -", `3 ERR message=`},
		{"acl", "3 10.0.0.1 GET GET GET http://ok.example/ -", "3 OK"},
		{"acl", "3 10.0.0.1 anna b CONNECT bad.example:443 -", `3 ERR message=`},
		{"acl", "3 10.0.0.1 anna b CONNECT", `3 BH message="the format`},
		// These have not signed in. Squid has no address for its own requests.
		{"rewrite", "http://ok.example/a 2001:db8::1/- - GET", `OK rewrite-url="http://127.0.0.1:`},
		{"rewrite", "http://ok.example/a 2001:db8::1/- anna GET", "ERR"},
		{"rewrite", "http://ok.example/a -/- - GET", "ERR"},
		{"rewrite", "ok.example:443 2001:db8::1/- - CONNECT", `OK status=302 url="http://bad.example:8082/sign-in"`},
		{"rewrite", "http://bad.example:8082/sign-in?to=x 2001:db8::1/- - GET", "ERR"},
		{"rewrite", "http://BAD.example:8082/ 2001:db8::1/- - POST", "ERR"},
		{"rewrite", "bad.example:8082 2001:db8::1/- - CONNECT", "ERR"},
		{"rewrite", "bad.example:443 2001:db8::1/- - CONNECT", `OK status=302 url="http://bad.example:8082/sign-in"`},
		{"rewrite", "http://open.example/ 2001:db8::1/- - GET", "ERR"},
		{"rewrite", "bad-open.example:443 2001:db8::1/- - CONNECT", `OK status=302 url="http://shuultuur.internal/`},
		{"acl", "2001:db8::1 - GET http://ok.example/ -", `ERR message="sign in first, at http://bad.example:8082/sign-in" log="`},
		{"acl", "2001:db8::1 - CONNECT ok.example:443 -", `ERR message="sign in first, at http://bad.example:8082/sign-in" log="`},
		{"acl", "2001:db8::1 - GET http://bad.example:8082/sign-in -", "OK"},
		{"acl", "2001:db8::1 - GET http://open.example/ -", "OK"},
		{"acl", "2001:db8::1 anna GET http://ok.example/ -", "OK"},
		{"acl", "- - GET http://ok.example/ -", "OK"},
		{"auth", "j%C3%B6 a%20b%25%0A", `OK group="teachers"`},
		{"auth", "4 j%C3%B6 a%20b%25%0A 10.0.0.1", `4 OK group="teachers"`},
		{"auth", "4 j%C3%B6 ", `4 ERR message="wrong name or password"`},
		{"auth", "j", `ERR message="`},
		{"auth", "1234 secret", `OK group="pupils"`},
		{"auth", "1234 secret 10.0.0.1", `OK group="pupils"`},
		{"auth", `1234 secret "2001:db8::1"`, `OK group="pupils"`},
		{"auth", "7 1234 secret", `7 OK group="pupils"`},
		{"auth", "7 1234 secret 10.0.0.1", `7 OK group="pupils"`},
		{"auth", "1234 ", `ERR message="wrong name or password"`},
		{"auth", "7 1234 ", `7 ERR message="wrong name or password"`},
		{"group", "anna of%20anna", `OK tag="of anna"`},
		{"group", "9 anna 10.0.0.1 of%20otto of%20anna", `9 OK tag="of anna"`},
		{"group", "9 anna b 10.0.0.1 of%20anna%20b", `9 OK tag="of anna b"`},
		{"group", "anna of%20otto", "ERR"},
		{"group", "1234 of%201234", `OK tag="of 1234"`},
		{"group", "1234 10.0.0.1 of%20anna of%201234", `OK tag="of 1234"`},
		{"group", "7 1234 of%201234", `7 OK tag="of 1234"`},
		{"group", "7 1234 10.0.0.1 of%201234", `7 OK tag="of 1234"`},
		{"group", "anna nobody", `BH message="there is no group`},
	} {
		var out bytes.Buffer
		if err := s.Answer(t.Context(), tt.kind, strings.NewReader(tt.line+"\n"), &out); err != nil {
			t.Errorf("answering %s %q: %v", tt.kind, tt.line, err)
		}
		got := out.String()
		if exact := strings.HasSuffix(tt.want, "R") || strings.HasSuffix(tt.want, "K"); exact && got != tt.want+"\n" || !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s answers %q with %q, want %q", tt.kind, tt.line, got, tt.want)
		}
	}
}

func TestManyChannelsAndLongLines(t *testing.T) {
	s := server(t)
	var in strings.Builder
	for i := range 2000 {
		in.WriteString(strconv.Itoa(i) + " http://ok.example/ 10.0.0.1/- - GET\n")
	}
	in.WriteString("2000 http://ok.example/" + strings.Repeat("x", maxLine) + " 10.0.0.1/- - GET\n")
	var out bytes.Buffer
	if err := s.Answer(t.Context(), "rewrite", strings.NewReader(in.String()), &out); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for line := range strings.Lines(out.String()) {
		channel, rest := number(strings.TrimSpace(line))
		if channel == "2000" && !strings.HasPrefix(rest, "OK status=302 url=") || channel != "2000" && rest != "ERR" {
			t.Fatalf("the line %q is not the answer to its channel's question", line)
		}
		seen[channel] = true
	}
	if len(seen) != 2001 {
		t.Errorf("%d channels were answered, want 2001", len(seen))
	}
}

func TestPagesAreForgotten(t *testing.T) {
	s := server(t)
	for range maxPages + 10 {
		_ = s.one(t.Context(), "rewrite", "http://bad.example/ 10.0.0.1/- - GET")
	}
	if n := len(s.pages.of); n != maxPages || len(s.pages.order) != n {
		t.Errorf("%d pages are kept, %d in the order of age; want %d", n, len(s.pages.order), maxPages)
	}
}

// FuzzLines checks that every line gets one answer of one line, with its channel, in the form
// that Squid reads.
func FuzzLines(f *testing.F) {
	for _, s := range []string{"1 http://a/ 10.0.0.1/- - GET", "a:443 ::1/- x CONNECT", "%zz %", "7", "http://bad.example/%22\\\" 1.2.3.4/- a%0Ab GET"} {
		f.Add(0, s)
		f.Add(1, s)
		f.Add(3, s)
	}
	s := server(f)
	f.Fuzz(func(t *testing.T, kind int, line string) {
		if strings.ContainsAny(line, "\r\n") || len(line) > maxLine/2 {
			return
		}
		var out bytes.Buffer
		err := s.Answer(t.Context(), Kinds[uint(kind)%4], io.MultiReader(strings.NewReader(line), strings.NewReader("\n")), &out)
		if err != nil || strings.Count(out.String(), "\n") != 1 {
			t.Fatalf("the answer to %q is %q, %v; want one line", line, out.String(), err)
		}
		got := strings.TrimSuffix(out.String(), "\n")
		channel, _ := channelOf(Kinds[uint(kind)%4], line)
		if channel != "" {
			var ok bool
			if got, ok = strings.CutPrefix(got, channel+" "); !ok {
				t.Fatalf("the answer to %q is %q, which has another channel", line, out.String())
			}
		}
		if word, rest, _ := strings.Cut(got, " "); word != "OK" && word != "ERR" && word != "BH" || strings.Count(strings.ReplaceAll(strings.ReplaceAll(rest, `\\`, ""), `\"`, ""), `"`)%2 != 0 {
			t.Fatalf("the answer to %q is %q, which Squid cannot read", line, got)
		}
	})
}
