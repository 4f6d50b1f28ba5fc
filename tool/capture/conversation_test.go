package capture

import (
	"bytes"
	"compress/gzip"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	frames "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"shuultuur/lib/suricata/engine"
	"shuultuur/lib/suricata/rule"
)

// A said is what one side of a connection says.
type said struct {
	server bool
	text   string
}

func client(text string) said { return said{false, text} }
func server(text string) said { return said{true, text} }

// A recording is a capture in libpcap's format.
type recording struct {
	b  []byte
	at time.Time
}

func newRecording() *recording {
	le := binary.LittleEndian
	return &recording{blocks(le, uint32(0xa1b2c3d4), uint16(2), uint16(4), uint32(0), uint32(0), uint32(65535), uint32(linkRaw)), time.Unix(1_800_000_000, 0)}
}

// packet writes an IPv4 packet between 10.0.0.1 and 192.0.2.80, of the server if from is true.
func (r *recording) packet(from bool, proto uint16, transport []byte) {
	be := binary.BigEndian
	a, b := "\x0a\x00\x00\x01", "\xc0\x00\x02\x50"
	if from {
		a, b = b, a
	}
	ip := blocks(be, uint16(0x4500), uint16(20+len(transport)), uint32(0), 64<<8|proto, uint16(0), a, b, transport)
	r.at = r.at.Add(time.Millisecond)
	r.b = blocks(binary.LittleEndian, r.b, uint32(r.at.Unix()), uint32(r.at.Nanosecond()/1000), uint32(len(ip)), uint32(len(ip)), ip)
}

// tcp records a whole connection, with at most size bytes in a segment.
func (r *recording) tcp(sport, dport uint16, size int, what ...said) {
	seq := [2]uint32{1000, 5000}
	segment := func(from bool, flags uint16, data string) {
		i, j, s, d := 0, 1, sport, dport
		if from {
			i, j, s, d = 1, 0, dport, sport
		}
		ack := seq[j]
		if flags&0x10 == 0 {
			ack = 0
		}
		r.packet(from, 6, blocks(binary.BigEndian, s, d, seq[i], ack, 5<<12|flags, uint16(65535), uint16(0), uint16(0), data))
		seq[i] += uint32(len(data))
		if flags&3 != 0 { // SYN and FIN count
			seq[i]++
		}
	}
	segment(false, 0x02, "")
	segment(true, 0x12, "")
	segment(false, 0x10, "")
	for _, x := range what {
		for piece := range slices.Chunk([]byte(x.text), size) {
			segment(x.server, 0x18, string(piece))
			segment(!x.server, 0x10, "")
		}
	}
	segment(false, 0x11, "")
	segment(true, 0x11, "")
	segment(false, 0x10, "")
}

func (r *recording) udp(from bool, sport, dport uint16, data string) {
	if from {
		sport, dport = dport, sport
	}
	r.packet(from, 17, blocks(binary.BigEndian, sport, dport, uint16(8+len(data)), uint16(0), data))
}

// found runs rules on the recording, and returns the identifiers of the alerts and the records of
// each kind.
func (r *recording) found(t *testing.T, c Config, rules string) (sids []int, records map[string][]map[string]any) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "some.pcap")
	if err := os.WriteFile(path, r.b, 0o600); err != nil {
		t.Fatal(err)
	}
	read, mistakes, err := rule.NewParser().Read("test.rules", strings.NewReader(rules))
	if err != nil || len(mistakes) > 0 {
		t.Fatalf("reading the rules: %v, mistakes %v", err, mistakes)
	}
	e, mistakes, err := engine.New(engine.Config{Rules: read, Packets: true, Prevent: c.Prevent})
	if err != nil || len(mistakes) > 0 {
		t.Fatalf("compiling the rules: %v, mistakes %v", err, mistakes)
	}
	var eve, fast bytes.Buffer
	x := New(c, e, NewOutput(&eve, &fast))
	if err := x.File(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	records = map[string][]map[string]any{}
	for line := range strings.Lines(eve.String()) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("the record %s: %v", line, err)
		}
		kind := m["event_type"].(string)
		records[kind] = append(records[kind], m)
		if kind == "alert" {
			sid, _ := field(m, "alert.signature_id")
			sids = append(sids, int(sid.(float64)))
		}
	}
	if got := strings.Count(fast.String(), "\n"); got != len(sids) || int(x.Stats().Alerts()) != len(sids) {
		t.Errorf("%d alerts as records, %d as lines, %d counted", len(sids), got, x.Stats().Alerts())
	}
	slices.Sort(sids)
	return slices.Compact(sids), records
}

func gzipped(s string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, s)
	_ = w.Close()
	return b.String()
}

func chunked(s string, size int) string {
	var b strings.Builder
	for piece := range slices.Chunk([]byte(s), size) {
		b.WriteString(big.NewInt(int64(len(piece))).Text(16) + "\r\n" + string(piece) + "\r\n")
	}
	return b.String() + "0\r\nX-End: yes\r\n\r\n"
}

const httpRules = `
alert http any any -> any any (msg:"uri"; http.method; content:"GET"; http.uri; content:"/cat"; sid:1;)
alert http any any -> any any (msg:"host"; http.host; content:"pets.example"; sid:2;)
alert http any any -> any any (msg:"agent"; http.user_agent; content:"curl"; sid:3;)
alert http any any -> any any (msg:"status"; http.stat_code; content:"404"; sid:4;)
alert http any any -> any any (msg:"body"; http.response_body; content:"purr purr"; sid:5;)
alert http any any -> any any (msg:"upload"; http.request_body; content:"secret plan"; sid:6;)
alert http any any -> any any (msg:"server"; http.server; content:"nginx"; sid:7;)
alert tcp any any -> any any (msg:"stream"; content:"X-Own|3a 20|yes"; sid:8;)
alert http any any -> any any (msg:"trailer or field"; http.header; content:"X-Own|3a|"; sid:9;)
alert http any any -> any any (msg:"never"; http.uri; content:"/dog"; sid:99;)
`

// The same exchange is the same for rules however its segments cut it, and however its body is
// framed and coded.
func TestRulesSeeExchangesHoweverTheyAreCut(t *testing.T) {
	const asked = "GET /cat?x=1 HTTP/1.1\r\nHost: pets.example\r\nUser-Agent: curl/8\r\nX-Own: yes\r\n\r\n"
	const page = "<html><p>purr purr</p></html>"
	head := "HTTP/1.1 200 OK\r\nServer: nginx\r\nContent-Type: text/html\r\n"
	for name, answer := range map[string]string{
		"length":              head + "Content-Length: 29\r\n\r\n" + page,
		"chunks":              head + "Transfer-Encoding: chunked\r\n\r\n" + chunked(page, 7),
		"to the end":          head + "Connection: close\r\n\r\n" + page,
		"gzip":                head + "Content-Encoding: gzip\r\nConnection: close\r\n\r\n" + gzipped(page),
		"gzip in chunks":      head + "Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked(gzipped(page), 11),
		"after a 100":         "HTTP/1.1 100 Continue\r\n\r\n" + head + "Content-Length: 29\r\n\r\n" + page,
		"lines without CR":    strings.ReplaceAll(head, "\r\n", "\n") + "Content-Length: 29\n\n" + page,
		"gzip cut at its end": head + "Content-Encoding: gzip\r\nConnection: close\r\n\r\n" + gzipped(page)[:len(gzipped(page))-6],
	} {
		for _, size := range []int{1, 7, 1460} {
			r := newRecording()
			r.tcp(40000, 80, size, client(asked), server(answer))
			sids, records := r.found(t, Config{}, httpRules)
			if want := []int{1, 2, 3, 5, 7, 8, 9}; !slices.Equal(sids, want) {
				t.Errorf("%s in pieces of %d: rules %v, want %v", name, size, sids, want)
			}
			if len(records["http"]) == 0 {
				t.Errorf("%s in pieces of %d: no record of the exchange", name, size)
				continue
			}
			last := records["http"][len(records["http"])-1]
			for path, want := range map[string]any{"http.hostname": "pets.example", "http.url": "/cat?x=1", "http.status": 200.0, "http.http_method": "GET", "src_ip": "10.0.0.1", "dest_port": 80.0} {
				if got, _ := field(last, path); got != want {
					t.Errorf("%s in pieces of %d: %s is %v, want %v", name, size, path, got, want)
				}
			}
		}
	}
}

func TestRulesSeePipelinedRequestsAndUploads(t *testing.T) {
	r := newRecording()
	r.tcp(40001, 8080, 100,
		client("POST /in HTTP/1.1\r\nHost: a.example\r\nContent-Length: 15\r\n\r\nthe secret planGET /cat HTTP/1.1\r\nHost: b.example\r\n\r\n"),
		server("HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno"))
	r.tcp(40002, 80, 1460, client("PUT /f HTTP/1.1\r\nHost: c.example\r\nTransfer-Encoding: chunked\r\n\r\n"+chunked("a secret plan", 4)), server("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
	r.tcp(40003, 80, 1460, client("CONNECT inner.example:80 HTTP/1.1\r\nHost: inner.example:80\r\n\r\n"), server("HTTP/1.1 200 OK\r\n\r\n"),
		client("GET /cat HTTP/1.1\r\nHost: pets.example\r\n\r\n"), server("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\npurr purr"))
	r.tcp(40004, 80, 1460, client("GET /cat HTTP/1.1\r\nHost: pets.example\r\n\r\n")) // never answered
	sids, records := r.found(t, Config{}, httpRules)
	if want := []int{1, 2, 4, 5, 6}; !slices.Equal(sids, want) {
		t.Errorf("rules %v, want %v", sids, want)
	}
	var urls []string
	for _, m := range records["http"] {
		u, _ := field(m, "http.url")
		if s, ok := u.(string); ok {
			urls = append(urls, s)
		}
	}
	for _, want := range []string{"/in", "/cat", "/f"} {
		if !slices.Contains(urls, want) {
			t.Errorf("no record of %s among %q", want, urls)
		}
	}
}

// A drop rule ends the inspection of its connection, whether its packets are dropped or not.
func TestADropEndsAConnection(t *testing.T) {
	r := newRecording()
	r.tcp(40005, 80, 1460, client("GET /cat HTTP/1.1\r\nHost: pets.example\r\n\r\n"), server("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\npurr purr"))
	rules := `drop http any any -> any any (msg:"no cats"; http.uri; content:"/cat"; sid:1;)
alert http any any -> any any (msg:"body"; http.response_body; content:"purr"; sid:2;)`
	for prevent, want := range map[bool][]int{false: {1}, true: {1}} {
		if sids, _ := r.found(t, Config{Prevent: prevent, Inline: true}, rules); !slices.Equal(sids, want) {
			t.Errorf("prevent %v: rules %v, want %v", prevent, sids, want)
		}
	}
}

func TestRulesSeeNames(t *testing.T) {
	be := binary.BigEndian
	name := "\x05games\x07example\x00"
	question := blocks(be, uint16(7), uint16(0x0100), uint16(1), uint16(0), uint16(0), uint16(0), name, uint16(1), uint16(1))
	answer := blocks(be, uint16(7), uint16(0x8180), uint16(1), uint16(3), uint16(0), uint16(0), name, uint16(1), uint16(1),
		"\xc0\x0c", uint16(5), uint16(1), uint32(60), uint16(6), "\x03www\xc0\x0c",
		"\xc0\x2b", uint16(1), uint16(1), uint32(60), uint16(4), "\xc0\x00\x02\x07",
		"\xc0\x2b", uint16(16), uint16(1), uint32(60), uint16(4), "\x03abc")
	missing := blocks(be, uint16(8), uint16(0x8183), uint16(1), uint16(0), uint16(0), uint16(0), name, uint16(28), uint16(1))
	framed := func(b []byte) string { return string(blocks(be, uint16(len(b)), b)) }
	r := newRecording()
	r.udp(false, 40100, 53, string(question))
	r.udp(true, 40100, 53, string(answer))
	r.udp(true, 40101, 53, string(missing))
	r.udp(false, 40102, 53, string(question[:len(question)-3])) // cut
	r.tcp(40103, 53, 9, client(framed(question)+framed(question)), server(framed(answer)))
	sids, records := r.found(t, Config{}, `
alert dns any any -> any any (msg:"name"; dns.query; content:"games.example"; nocase; sid:1;)
alert dns any any -> any any (msg:"other"; dns.query; content:"other.example"; sid:2;)
alert dns any any -> any any (msg:"missing"; dns.rcode:3; sid:3;)
alert udp any any -> any 53 (msg:"packet"; content:"games"; sid:4;)`)
	if want := []int{1, 3, 4}; !slices.Equal(sids, want) {
		t.Errorf("rules %v, want %v", sids, want)
	}
	text, _ := json.Marshal(records["dns"])
	for _, want := range []string{`"games.example"`, `"NXDOMAIN"`, `"192.0.2.7"`, `"www.games.example"`} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("the records of names lack %s: %s", want, text)
		}
	}
}

// TestOtherProtocolsInTheFormOfDNSAreNone: names of NetBIOS, multicast DNS and LLMNR have its form and
// ports of their own; a name server may have any port.
func TestOtherProtocolsInTheFormOfDNSAreNone(t *testing.T) {
	question := string(blocks(binary.BigEndian, uint16(7), uint16(0x0100), uint16(1), uint16(0), uint16(0), uint16(0), "\x05games\x07example\x00", uint16(1), uint16(1)))
	const rules = `alert dns any any -> any any (msg:"name"; dns.query; content:"games"; sid:1;)`
	for _, tt := range []struct {
		port   uint16
		config Config
		want   bool
	}{{53, Config{}, true}, {5300, Config{}, true}, {137, Config{}, false}, {5353, Config{}, false}, {5355, Config{}, false}, {137, Config{DNSPorts: []uint16{137}}, true}} {
		r := newRecording()
		r.udp(false, 40100, tt.port, question)
		if sids, _ := r.found(t, tt.config, rules); (len(sids) > 0) != tt.want {
			t.Errorf("port %d of %v: rules %v", tt.port, tt.config.DNSPorts, sids)
		}
	}
}

// A tap keeps what the sides of a connection write.
type tap struct {
	net.Conn
	mu     *sync.Mutex
	what   *[]said
	server bool
}

func (c tap) Write(b []byte) (int, error) {
	c.mu.Lock()
	*c.what = append(*c.what, said{c.server, string(b)})
	c.mu.Unlock()
	return c.Conn.Write(b)
}

// handshake records a real TLS handshake.
func handshake(t *testing.T, version uint16, name string) []said {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(77), NotBefore: time.Unix(1_700_000_000, 0), NotAfter: time.Unix(1_900_000_000, 0), DNSNames: []string{name}}
	c.Subject.CommonName = name
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var what []said
	a, b := net.Pipe()
	s := tls.Server(tap{b, &mu, &what, true}, &tls.Config{MaxVersion: version, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, NextProtos: []string{"h2", "http/1.1"}})
	done := make(chan error, 1)
	go func() {
		_, err := s.Read(make([]byte, 1))
		done <- err
	}()
	d := tls.Client(tap{a, &mu, &what, false}, &tls.Config{MaxVersion: version, ServerName: name, InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
	if err := d.Handshake(); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	a.Close()
	b.Close()
	return what
}

func TestRulesSeeHandshakesOfTLS(t *testing.T) {
	for version, word := range map[uint16]string{tls.VersionTLS12: "TLS 1.2", tls.VersionTLS13: "TLS 1.3"} {
		for _, size := range []int{5, 1460} {
			r := newRecording()
			r.tcp(40200, 443, size, handshake(t, version, "shop.example")...)
			sids, records := r.found(t, Config{}, `
alert tls any any -> any any (msg:"name"; tls.sni; content:"shop.example"; sid:1;)
alert tls any any -> any any (msg:"other"; tls.sni; content:"other.example"; sid:2;)
alert tls any any -> any any (msg:"certificate"; tls.cert_subject; content:"CN=shop.example"; sid:3;)
alert tls any any -> any any (msg:"serial"; tls.cert_serial; content:"4D"; sid:4;)`)
			want := []int{1, 3, 4}
			if version == tls.VersionTLS13 { // the certificate is encrypted
				want = []int{1}
			}
			if !slices.Equal(sids, want) {
				t.Errorf("%s in pieces of %d: rules %v, want %v", word, size, sids, want)
			}
			if len(records["tls"]) != 1 {
				t.Fatalf("%s: %d records of TLS, want 1", word, len(records["tls"]))
			}
			for path, want := range map[string]any{"tls.sni": "shop.example", "tls.version": word} {
				if got, _ := field(records["tls"][0], path); got != want {
					t.Errorf("%s: %s is %v, want %v", word, path, got, want)
				}
			}
		}
	}
}

func TestRulesSeeStreamsOfHTTP2(t *testing.T) {
	fields := func(list ...string) []byte {
		var b bytes.Buffer
		e := hpack.NewEncoder(&b)
		for i := 0; i < len(list); i += 2 {
			_ = e.WriteField(hpack.HeaderField{Name: list[i], Value: list[i+1]})
		}
		return b.Bytes()
	}
	var ask, tell bytes.Buffer
	ask.WriteString(frames.ClientPreface)
	q, a := frames.NewFramer(&ask, nil), frames.NewFramer(&tell, nil)
	head := fields(":method", "POST", ":scheme", "http", ":authority", "pets.example", ":path", "/cat", "user-agent", "curl/8")
	err := q.WriteSettings()
	for _, e := range []error{
		q.WriteHeaders(frames.HeadersFrameParam{StreamID: 1, BlockFragment: head[:9]}),
		q.WriteContinuation(1, true, head[9:]),
		q.WriteDataPadded(1, true, []byte("a secret plan"), make([]byte, 5)),
		a.WriteSettings(), a.WriteSettingsAck(), a.WritePing(false, [8]byte{}),
		a.WriteHeaders(frames.HeadersFrameParam{StreamID: 1, EndHeaders: true, BlockFragment: fields(":status", "404", "server", "nginx")}),
		a.WriteData(1, false, []byte("purr ")), a.WriteData(1, true, []byte("purr")), a.WriteGoAway(1, frames.ErrCodeNo, nil),
	} {
		if err == nil {
			err = e
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{3, 1460} {
		r := newRecording()
		r.tcp(40300, 80, size, client(ask.String()), server(tell.String()))
		sids, records := r.found(t, Config{}, strings.ReplaceAll(httpRules, `content:"GET"`, `content:"POST"`))
		for _, want := range []int{1, 2, 3, 4} {
			if !slices.Contains(sids, want) {
				t.Errorf("in pieces of %d: rules %v lack %d", size, sids, want)
			}
		}
		if slices.Contains(sids, 99) || len(records["http"])+len(records["http2"]) == 0 {
			t.Errorf("in pieces of %d: rules %v, records %v", size, sids, records)
		}
	}
}

// Captures hold what attackers sent: any cut and any lost packet is read to the end.
func TestCutAndLostPacketsAreReadToTheEnd(t *testing.T) {
	whole := newRecording()
	whole.tcp(40400, 80, 20, client("GET /cat HTTP/1.1\r\nHost: pets.example\r\n\r\n"), server("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"+chunked("purr purr", 3)))
	head := whole.b[:24]
	var packets [][]byte
	for rest := whole.b[24:]; len(rest) > 0; {
		n := 16 + int(binary.LittleEndian.Uint32(rest[8:]))
		packets, rest = append(packets, rest[:n]), rest[n:]
	}
	for lost := range packets {
		for _, c := range []Config{{}, {Midstream: true}, {Async: true, Midstream: true}, {Inline: true}} {
			r := &recording{b: slices.Clone(head)}
			for i, p := range packets {
				if i != lost {
					r.b = append(r.b, p...)
				}
			}
			sids, _ := r.found(t, c, httpRules)
			if slices.Contains(sids, 99) {
				t.Errorf("without packet %d: rules %v", lost, sids)
			}
		}
	}
	for _, kind := range []string{"reversed", "twice"} {
		r := &recording{b: slices.Clone(head)}
		for i := range packets {
			if kind == "twice" {
				r.b = append(append(r.b, packets[i]...), packets[i]...)
			} else {
				r.b = append(r.b, packets[len(packets)-1-i]...)
			}
		}
		sids, _ := r.found(t, Config{}, httpRules)
		if kind == "twice" && !slices.Equal(sids, []int{1, 2, 5}) {
			t.Errorf("each packet twice: rules %v, want 1, 2 and 5", sids)
		}
	}
}
