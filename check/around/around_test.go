package around

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"shuultuur/content"
	"shuultuur/filter"
	"shuultuur/lib/dns"
	"shuultuur/lib/message"
	"shuultuur/test/cert"
)

var _ filter.Check = (*Check)(nil)

// query makes a DNS query for the address of a name.
func query(name string) string {
	p := []byte{0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0}
	for label := range strings.SplitSeq(name, ".") {
		p = append(append(p, byte(len(label))), label...)
	}
	return base64.RawURLEncoding.EncodeToString(append(p, 0, 0, 1, 0, 1))
}

func TestWaysAroundInRequests(t *testing.T) {
	for name, c := range map[string]struct {
		path, upgrade string
		fields        []string
		want, says    string
	}{
		"bare, version 3":        {"/bare/v3/", "", []string{"X-Bare-URL", "https://bad.example/"}, Bare, "bad.example"},
		"bare, version 1":        {"/x/v1/", "", []string{"x-bare-host", "bad.example", "X-Bare-Path", "/"}, Bare, "bad.example"},
		"bare, other fields":     {"/x", "", []string{"X-Bare-Headers", "{}"}, Bare, ""},
		"bare, socket":           {"/bare/v3/", "websocket", nil, Bare, "/bare/v3/"},
		"bare, subprotocol":      {"/v1/", "websocket", []string{"Sec-WebSocket-Protocol", "bare, abc"}, Bare, ""},
		"path of bare, no more":  {"/bare/v3/", "", nil, "", ""},
		"subprotocol, no socket": {"/", "", []string{"Sec-WebSocket-Protocol", "bare"}, "", ""},
		"wisp":                   {"/wisp/", "websocket", nil, "wisp", "/wisp/"},
		"wisp, below":            {"/a/wisp/?x=1", "websocket", nil, "wisp", ""},
		"wisp, no socket":        {"/wisp/", "", nil, "", ""},
		"whisper":                {"/willowisp", "websocket", nil, "", ""},
		"socket.io":              {"/socket.io/?EIO=4&transport=websocket", "websocket", nil, "", ""},
		"DoH, GET":               {"/any?dns=" + query("bad.example"), "", nil, DoH, "bad.example"},
		"DoH, padded":            {"/any?a=b&dns=" + query("bad.example") + "==", "", nil, DoH, "bad.example"},
		"DoH, POST":              {"/any", "", []string{"Content-Type", "application/dns-message"}, DoH, "dns-message"},
		"DoH, accepted":          {"/any", "", []string{"Accept", "Application/DNS-JSON; q=1"}, DoH, "dns-json"},
		"DoH, oblivious":         {"/proxy", "", []string{"Content-Type", "application/oblivious-dns-message"}, DoH, ""},
		"DoH, JSON":              {"/resolve?name=bad.example&type=A", "", nil, DoH, "/resolve"},
		"DoH, JSON by number":    {"/resolve?name=bad.example&type=28", "", nil, DoH, ""},
		"DoH, JSON at dns-query": {"/dns-query?name=bad.example", "", nil, DoH, ""},
		"another resolve":        {"/resolve?name=x&type=A", "", nil, "", ""},
		"a resolve of a package": {"/resolve?name=a.b", "", nil, "", ""},
		"a parameter dns":        {"/x?dns=8.8.8.8", "", nil, "", ""},
		"a parameter of base64":  {"/x?dns=" + base64.RawURLEncoding.EncodeToString([]byte("some ordinary text, long enough")), "", nil, "", ""},
		"a response":             {"/x?dns=" + base64.RawURLEncoding.EncodeToString([]byte("\x00\x00\x81\x80\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x00\x00\x01\x00\x01")), "", nil, "", ""},
		"a query that is cut":    {"/x?dns=" + query("bad.example")[:24], "", nil, "", ""},
		"letters exchanged":      {"/0123456789abcdef0123456789abcdef/_rhsk3Zq://Ab3dE.x~9Z/", "", nil, Rewriter, "_rhs"},
		"an address in a path":   {"/0123456789abcdef0123456789abcdef/http://a.example/", "", nil, "", ""},
		"a scheme of a program":  {"/go/myapp://open.it/", "", nil, "", ""},
		"nothing":                {"/", "", nil, "", ""},
		"no path":                {"", "", nil, "", ""},
	} {
		q := &message.Request{Method: "GET", Path: []byte(c.path)}
		if c.upgrade != "" {
			q.Upgrade = []byte(c.upgrade)
		}
		for i := 0; i < len(c.fields); i += 2 {
			q.Add(c.fields[i], c.fields[i+1])
		}
		tr := &filter.Transaction{Host: "host.example", Request: q}
		found, err := New(nil).Find(t.Context(), tr, filter.Request, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, says := "", ""
		if len(found) > 0 {
			got, says = found[0].Category, found[0].Evidence
		}
		if got != c.want || len(found) > 1 || !strings.Contains(says, c.says) {
			t.Errorf("%s: found %+v, want %q with %q", name, found, c.want, c.says)
		}
	}
}

func post(typ, length string) *message.Request {
	q := &message.Request{Method: "POST", Path: []byte("/a?x=1")}
	if q.Add("Content-Type", typ); length != "" {
		q.Add("Content-Length", length)
	}
	return q
}

func response(typ, length string) *message.Response {
	s := &message.Response{Status: 200}
	if typ != "" {
		s.Add("Content-Type", typ)
	}
	if length != "" {
		s.Add("Content-Length", length)
	}
	return s
}

// send has a check look at a request with a body, and at the answer to it.
func send(t *testing.T, c *Check, at time.Time, typ, body string, s *message.Response) (category, says string) {
	t.Helper()
	tr := &filter.Transaction{Proto: filter.HTTP, Host: "host.example", Start: at, Request: post(typ, fmt.Sprint(len(body)))}
	tr.Client.Addr = netip.MustParseAddr("192.0.2.1")
	var b content.Body
	b.Reset(tr.Sent(), content.Limits{})
	defer b.Release()
	b.Append([]byte(body))
	b.Finish()
	tr.Upload = &b
	found, err := c.Find(t.Context(), tr, filter.RequestBody, nil)
	if err != nil {
		t.Fatal(err)
	}
	tr.Upload, tr.Response = nil, s
	if _, err := c.Find(t.Context(), tr, filter.Response, nil); err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		return "", ""
	}
	return found[0].Category, found[0].Evidence
}

func TestConnectionsInBodiesAreFound(t *testing.T) {
	hello := string(cert.Hello(t, "bad.example"))
	const octets = "application/octet-stream"
	for name, c := range map[string]struct{ typ, body, want, says string }{
		"TLS":              {octets, hello, "tunnel", "bad.example"},
		"TLS in a picture": {"image/png", hello, "tunnel", "bad.example"},
		"TLS, wrapped":     {octets, "\x00\x00\x00\x01\x02\x00" + hello, "tunnel", "bad.example"},
		"TLS in base64":    {"text/plain", base64.StdEncoding.EncodeToString([]byte(hello)), "tunnel", "bad.example"},
		"SSH":              {octets, "SSH-2.0-x\r\n", "tunnel", "SSH"},
		"a request":        {octets, "GET / HTTP/1.1\r\nHost: bad.example\r\n\r\n", "tunnel", "bad.example"},
		"a target":         {"application/json", `{"host":"bad.example","port":443}`, "tunnel", "bad.example:443"},
		"a channel":        {"application/json", `{"type":"offer","sdp":"v=0\r\nm=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\n"}`, "channel", "WebRTC"},
		"a meeting":        {"application/json", `{"sdp":"v=0\r\nm=audio 9 UDP/TLS/RTP/SAVPF 111\r\nm=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\n"}`, "", ""},
		"JSON":             {"application/json", `{"name":"value","count":3}`, "", ""},
		"protobuf":         {octets, "\x0a\x05hello\x12\x0bexample.com\x18\x01", "", ""},
		"a picture":        {"image/png", "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", "", ""},
		"a form":           {"application/x-www-form-urlencoded", hello, "", ""},
		"nothing":          {octets, "", "", ""},
	} {
		got, says := send(t, New(nil), time.Now(), c.typ, c.body, response("", ""))
		if got != c.want || !strings.Contains(says, c.says) {
			t.Errorf("%s: %q, %q; want %q with %q", name, got, says, c.want, c.says)
		}
	}
}

// TestManyRequestsOfNoiseAreATunnel: meek and the like. What pages send has a form, or gets answers of one.
func TestManyRequestsOfNoiseAreATunnel(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	noise := func(before string) string {
		p := []byte(before)
		for range 40 + r.IntN(600) {
			p = append(p, byte(r.Uint32()))
		}
		return string(p)
	}
	octets, none := response("application/octet-stream", "512"), response("", "0")
	for name, c := range map[string]struct {
		before string
		answer *message.Response
		pause  time.Duration
		want   bool
	}{
		"meek":            {"", octets, time.Second, true},
		"slow meek":       {"", octets, 10 * time.Second, true},
		"a format":        {"\x08\x04\x12", octets, time.Second, false},
		"compressed":      {"\x1f\x8b", octets, time.Second, false},
		"words":           {strings.Repeat("some words ", 60), octets, time.Second, false},
		"measurements":    {"", none, time.Second, false},
		"answers of JSON": {"", response("application/json", "20"), time.Second, false},
		"seldom":          {"", octets, 3 * time.Minute, false},
	} {
		k, at, got := New(nil), time.Now(), ""
		for range 30 {
			category, _ := send(t, k, at, "application/octet-stream", noise(c.before), c.answer)
			at = at.Add(c.pause)
			if got == "" {
				got = category
			}
		}
		if (got == "tunnel") != c.want {
			t.Errorf("%s: found %q, want a tunnel %v", name, got, c.want)
		}
	}
}

func TestNamesThatCarryDataAreATunnel(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	coded := func(alphabet string, n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = alphabet[r.IntN(len(alphabet))]
		}
		return string(b)
	}
	const hexa, base32 = "0123456789abcdef", "abcdefghijklmnopqrstuvwxyz012345"
	for name, c := range map[string]struct {
		query func(i int) (host string, typ uint16)
		want  bool
	}{
		"iodine": {func(int) (string, uint16) { return coded(base32, 57) + "." + coded(base32, 57) + ".t.bad.com", 10 }, true},
		"iodine, A": {func(int) (string, uint16) {
			return coded(base32, 57) + "." + coded(base32, 57) + ".t.bad.com", dns.TypeA
		}, true},
		"dnscat2": {func(i int) (string, uint16) {
			return coded(hexa, 34) + ".bad.com", []uint16{dns.TypeTXT, dns.TypeMX, dns.TypeCNAME}[i%3]
		}, true},
		"dns2tcp":  {func(int) (string, uint16) { return coded(base32, 40) + ".=auth.t.bad.com", dns.TypeTXT }, true},
		"digests":  {func(int) (string, uint16) { return coded(hexa, 40) + ".lookup.good.com", dns.TypeA }, false},
		"one name": {func(int) (string, uint16) { return "0123456789abcdef0123456789abcdef01234567.good.com", dns.TypeTXT }, false},
		"hosts": {func(i int) (string, uint16) {
			return fmt.Sprintf("ec2-%d-2-113-4.eu-west-1.compute.good.com", i), dns.TypeA
		}, false},
		"devices": {func(i int) (string, uint16) {
			return fmt.Sprintf("my-long-name-of-a-living-room-device-%d.good.com", i), dns.TypeTXT
		}, false},
		"lists": {func(i int) (string, uint16) { return fmt.Sprintf("%d.2.0.192.zen.good.com", i), dns.TypeTXT }, false},
		"a few": {func(i int) (string, uint16) { return fmt.Sprintf("%040d.good.com", i%10), dns.TypeTXT }, false},
	} {
		k, at, got := New(nil), time.Now(), false
		for i := range 120 {
			tr := &filter.Transaction{Proto: filter.DNS, Start: at}
			tr.Client.Addr = netip.MustParseAddr("192.0.2.1")
			tr.Host, tr.Type = c.query(i)
			for range 2 { // a query may be judged twice
				found, err := k.Find(t.Context(), tr, filter.Name, nil)
				if err != nil {
					t.Fatal(err)
				}
				got = got || len(found) > 0 && found[0].Category == DNS
			}
			at = at.Add(time.Second)
		}
		if got != c.want {
			t.Errorf("%s: a tunnel %v, want %v", name, got, c.want)
		}
	}
}

func TestStages(t *testing.T) {
	plain, socket := &message.Request{}, &message.Request{Upgrade: []byte("websocket")}
	for name, c := range map[string]struct {
		t    filter.Transaction
		s    filter.Stage
		want bool
	}{
		"a name":                    {filter.Transaction{}, filter.Name, false},
		"a request":                 {filter.Transaction{Request: plain}, filter.Request, true},
		"a tunnel":                  {filter.Transaction{Proto: filter.TLS}, filter.Request, false},
		"a body":                    {filter.Transaction{Request: plain}, filter.RequestBody, false},
		"what is sent":              {filter.Transaction{Request: post("application/octet-stream", "")}, filter.RequestBody, true},
		"a small text":              {filter.Transaction{Request: post("application/json", "100")}, filter.RequestBody, true},
		"a long text":               {filter.Transaction{Request: post("application/json", "1000000")}, filter.RequestBody, false},
		"a form":                    {filter.Transaction{Request: post("application/x-www-form-urlencoded", "10")}, filter.RequestBody, false},
		"a stream":                  {filter.Transaction{Request: plain, Response: response("application/octet-stream", "")}, filter.ResponseBody, true},
		"a file":                    {filter.Transaction{Request: plain, Response: response("application/octet-stream", "10")}, filter.ResponseBody, false},
		"a short query":             {filter.Transaction{Proto: filter.DNS, Host: "www.example.com"}, filter.Name, false},
		"the client's messages":     {filter.Transaction{Request: socket}, filter.RequestBody, true},
		"a page":                    {filter.Transaction{Request: plain, Response: &message.Response{Status: 200}}, filter.ResponseBody, false},
		"the messages of a socket":  {filter.Transaction{Request: socket, Response: &message.Response{Status: 101}}, filter.ResponseBody, true},
		"before there is an answer": {filter.Transaction{Request: plain}, filter.ResponseBody, false},
	} {
		if got := New(nil).Wants(&c.t, c.s); got != c.want {
			t.Errorf("%s: wanted %v, want %v", name, got, c.want)
		}
	}
}

func FuzzRequest(f *testing.F) {
	f.Add("/any?dns=" + query("bad.example"))
	f.Fuzz(func(t *testing.T, path string) {
		tr := &filter.Transaction{Request: &message.Request{Path: []byte(path), Upgrade: []byte("websocket")}}
		if _, err := (New(nil)).Find(t.Context(), tr, filter.Request, nil); err != nil {
			t.Fatal(err)
		}
	})
}
