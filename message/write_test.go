package message

import (
	"fmt"
	"strings"
	"testing"
)

func TestHandMadeMessagesCannotInject(t *testing.T) {
	q := &Request{
		Method: "GET / HTTP/1.1\r\nX: y\r\n\r\n",
		Target: []byte("/a b\r\nX: y\x00\xe9#"),
		Fields: Fields{
			{[]byte("Host"), []byte("a\r\nX: y")},
			{[]byte("A\r\nB: c\r\n\r\nGET"), []byte("v\x00\t\x7f\r\n\r\n")},
			{nil, []byte("nameless")},
		},
	}
	want := "GET---HTTP-1.1--X--y---- /a%20b%0D%0AX:%20y%00%E9%23 HTTP/1.1\r\n" +
		"Host: a  X: y\r\nA--B--c----GET: v \t     \r\n\r\n"
	if got := string(q.AppendHead(nil)); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	s := &Response{Status: 20000, Reason: []byte("OK\r\nX: y"), Fields: Fields{{[]byte("A"), []byte("b\nc")}}}
	want = "HTTP/1.1 500 OK  X: y\r\nA: b c\r\n\r\n"
	if got := string(s.AppendHead(nil)); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	want = "0\r\nA: b c\r\n\r\n"
	if got := string(AppendLastChunk(nil, s.Fields)); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestEmptyRequestLineStaysALine(t *testing.T) {
	if got, want := string(new(Request).AppendHead(nil)), "- / HTTP/1.1\r\n\r\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestNewRequest(t *testing.T) {
	for _, c := range []struct{ method, target, want string }{
		{"GET", "http://a.example/x", "http a.example 0 /x Host=a.example"},
		{"GET", "https://a.example:8443?x", "https a.example 8443 /?x Host=a.example:8443"},
		{"CONNECT", "[::1]:443", " ::1 443  Host=[::1]:443"},
		{"GET", "/x", "  0 /x"},
		{"OPTIONS", "*", "  0 *"},
	} {
		q, err := NewRequest(c.method, c.target)
		if err != nil {
			t.Errorf("%s %s: %v", c.method, c.target, err)
			continue
		}
		got := fmt.Sprintf("%s %s %d %s", q.Scheme, q.Host, q.Port, q.Path)
		for _, f := range q.Fields {
			got += fmt.Sprintf(" %s=%s", f.Name, f.Value)
		}
		if got != c.want {
			t.Errorf("%s %s: got %q, want %q", c.method, c.target, got, c.want)
		}
	}
	for _, c := range []struct{ method, target string }{
		{"", "/"}, {"G T", "/"}, {"GET", ""}, {"GET", "/a b"}, {"GET", "x"}, {"CONNECT", "a"}, {"GET", "http://u@a/"},
	} {
		if q, err := NewRequest(c.method, c.target); err == nil {
			t.Errorf("%q %q: got %v, want an error", c.method, c.target, q)
		}
	}
}

func TestHopByHopFieldsAreRemoved(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"Host: a|Accept: b", "Host Accept"},
		{"Connection: close|Host: a", "Host"},
		{"A: 1|Connection: a, c ,,d|B: 2|C: 3|c: 4|D: 5|E: 6", "B E"},
		{"X: 1|Connection: X|Y: 2|connection: y|Z: 3", "Z"},
		{"Connection: Host, Content-Length, Content-Type, Content-Encoding, connection|Host: a|Content-Length: 3|content-type: x|Content-Encoding: gzip",
			"Host Content-Length content-type Content-Encoding"},
		{"Keep-Alive: 1|Proxy-Connection: 1|Proxy-Authenticate: 1|Proxy-Authorization: 1|TE: 1|Trailer: 1|Transfer-Encoding: 1|Upgrade: 1|Via: 1", "Via"},
		{"proxy-connection: 1|PROXY-AUTHORIZATION: 1|Transfer-Encodinh: 1", "Transfer-Encodinh"},
	} {
		var f Fields
		for line := range strings.SplitSeq(c.in, "|") {
			name, value, _ := strings.Cut(line, ": ")
			f.Add(name, value)
		}
		f.DelHopByHop()
		var got []string
		for _, x := range f {
			got = append(got, string(x.Name))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: got %q, want %q", c.in, got, c.want)
		}
	}
}

func TestFieldsKeepOrderAndCase(t *testing.T) {
	var f Fields
	f.Add("A", "1")
	f.Add("b", "2")
	f.Add("a", "3")
	f.Add("C", "x;q=1, Close ,y")
	f.Set("B", "4")
	f.Set("D", "5")
	f.Del("A")
	if got, want := string(appendFields(nil, f)), "b: 4\r\nC: x;q=1, Close ,y\r\nD: 5\r\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if !f.HasToken("c", "close") || !f.HasToken("c", "X") || f.HasToken("c", "q=1") || f.Has("a") || string(f.Get("B")) != "4" {
		t.Error("Has, HasToken or Get is wrong")
	}
}
