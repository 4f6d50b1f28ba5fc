package traffic

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"shuultuur/lib/suricata/rule"
)

func fieldsOf(text string) (all []Header) {
	for line := range strings.SplitSeq(text, "\n") {
		name, value, _ := strings.Cut(line, ": ")
		all = append(all, Header{[]byte(name), []byte(value)})
	}
	return all
}

// exchange returns a request for a page and its response.
func exchange() *HTTP {
	h := &HTTP{}
	h.Sides[0] = Side{Line: []byte("GET /a/../b?q=%41 HTTP/1.1"), Method: []byte("GET"), Target: []byte("/a/../b?q=%41"), Protocol: []byte("HTTP/1.1"),
		RawHead: []byte("Host: A.example:8080\r\nCookie: c=1\r\nX: 1\r\nX: 2\r\n\r\n"), Headers: fieldsOf("Host: A.example:8080\nCookie: c=1\nX: 1\nX: 2"), At: rule.Complete}
	h.Sides[1] = Side{Line: []byte("HTTP/1.1 200 OK"), Protocol: []byte("HTTP/1.1"), Code: []byte("200"), Reason: []byte("OK"), RawHead: []byte("Content-Length: 4\r\n\r\n"),
		Headers: fieldsOf("Content-Length: 4\nContent-Disposition: attachment; filename=\"x.exe\"\nSet-Cookie: d=2"), Body: []byte("MZ.."), HasBody: true, At: rule.Complete}
	return h
}

func TestBuffersOfAnExchange(t *testing.T) {
	h := exchange()
	for _, x := range []struct {
		dir  rule.Direction
		b    rule.Buffer
		i    int
		want string // "-" for none
	}{
		{rule.ToServer, rule.URI, 0, "/b?q=A"}, {rule.ToServer, rule.URIRaw, 0, "/a/../b?q=%41"}, {rule.ToServer, rule.Method, 0, "GET"},
		{rule.ToServer, rule.Host, 0, "a.example"}, {rule.ToServer, rule.HostRaw, 0, "A.example:8080"}, {rule.ToServer, rule.Cookie, 0, "c=1"},
		{rule.ToServer, rule.HeaderAll, 0, "Host: A.example:8080\r\nX: 1, 2\r\n"}, {rule.ToServer, rule.HeaderRaw, 0, string(h.Sides[0].RawHead)},
		{rule.ToServer, rule.HeaderNames, 0, "\r\nHost\r\nCookie\r\nX\r\nX\r\n\r\n"}, {rule.ToServer, rule.RequestLine, 0, "GET /a/../b?q=%41 HTTP/1.1"},
		{rule.ToServer, rule.RequestHeader, 3, "X: 2"}, {rule.ToServer, rule.RequestHeader, 4, "-"}, {rule.ToServer, rule.RequestBody, 0, "-"}, {rule.ToServer, rule.UserAgent, 0, "-"},
		{rule.ToClient, rule.StatCode, 0, "200"}, {rule.ToClient, rule.StatMsg, 0, "OK"}, {rule.ToClient, rule.Cookie, 0, "d=2"}, {rule.ToClient, rule.ResponseBody, 0, "MZ.."},
		{rule.ToClient, rule.ContentLen, 0, "4"}, {rule.ToClient, rule.Protocol, 0, "HTTP/1.1"}, {rule.ToClient, rule.HTTP2HeaderName, 0, "-"},
	} {
		got, ok := h.Buffer(x.dir, x.b, x.i)
		if text := string(got); ok != (x.want != "-") || ok && text != x.want {
			t.Errorf("%s %d is %q, %v; want %q", x.b, x.i, text, ok, x.want)
		}
	}
	if n, ok := h.Numbers(rule.ToClient, "http.content_length"); !ok || n[0] != 4 {
		t.Errorf("the length is %v", n)
	}
	files := h.Files(rule.ToClient)
	if len(files) != 1 || files[0].Name != "x.exe" || !files[0].Complete || !strings.HasPrefix(files[0].Magic(), "PE32") {
		t.Errorf("the files are %+v", files)
	}
	if again := h.Files(rule.ToClient); again[0] != files[0] {
		t.Error("an unchanged body is another file")
	}
	j := h.Joined()
	line, fields, body, ok := j.Parts(rule.ToClient)
	if string(line) != "HTTP/1.1 200 OK" || len(fields) == 0 || string(body) != "MZ.." || !ok {
		t.Errorf("the parts are %q, %q, %q", line, fields, body)
	}
	key, ok := j.AppendFields(nil)
	h.Sides[0].Headers[2].Value = []byte("3")
	if other, _ := j.AppendFields(nil); !ok || bytes.Equal(key, other) {
		t.Error("other fields have the same key")
	}
	if !h.Word(rule.ToServer, "app-layer-protocol", "http1,both") || h.Word(rule.ToServer, "app-layer-protocol", "http2") || h.Event("app-layer-event", "x") {
		t.Error("the words of an exchange of HTTP/1")
	}
}

func TestTypesOfFiles(t *testing.T) {
	for data, want := range map[string]string{"": "", "%PDF-1.7": "PDF document", "PK\x03\x04": "Zip archive data", "\x00\x01": "data", "plain\n": "ASCII text", "ä": "UTF-8 Unicode text", "<html>": "HTML document, ASCII text"} {
		if got := (&File{Data: []byte(data)}).Magic(); got != want {
			t.Errorf("%q is %q, want %q", data, got, want)
		}
	}
}

func TestNamesInMessagesOfDNS(t *testing.T) {
	head := "\x12\x34\x81\x83\x00\x01\x00\x01\x00\x00\x00\x00"
	question := "\x03WwW\x07example\x00\x00\x01\x00\x01"
	answer := "\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04\x0a\x00\x00\x01"
	m := &DNSMessage{}
	m.Read([]byte(head+question+answer), nil)
	for b, want := range map[rule.Buffer]string{rule.DNSQuery: "-", rule.DNSQueriesName: "WwW.example", rule.DNSAnswersName: "WwW.example", rule.DNSAuthoritiesName: "-", rule.DNSAdditionalsName: "-", rule.DNSResponseName: "WwW.example"} {
		if got, ok := m.Buffer(rule.ToClient, b, 0); ok != (want != "-") || ok && string(got) != want {
			t.Errorf("%s is %q, %v; want %q", b, got, ok, want)
		}
	}
	for keyword, want := range map[string]uint64{"dns.opcode": 0, "dns.rcode": 3, "dns.rrtype": 1} {
		if n, ok := m.Numbers(rule.ToClient, keyword); !ok || len(n) != 1 || n[0] != want {
			t.Errorf("%s is %v, want %d", keyword, n, want)
		}
	}
	if m.Malformed || !m.Word(rule.ToClient, "app-layer-protocol", "dns") {
		t.Errorf("the message is %+v", m)
	}
	for _, bad := range []string{head[:5], head + question[:8], head + question, head + "\xc0\x0c\x00\x01\x00\x01"} {
		m := &DNSMessage{}
		if m.Read([]byte(bad), nil); !m.Malformed || !m.Event("app-layer-event", "dns.malformed_data") {
			t.Errorf("%q is read to its end", bad)
		}
	}
}

func TestWordsOfAHandshake(t *testing.T) {
	day := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	h := &TLSHandshake{SNI: []byte("a.example"), Version: 0x303, JA3Hash: "j", ClientHello: true, Now: day}
	h.Random[0] = bytes.Repeat([]byte{1}, 32)
	h.ALPN[0] = [][]byte{[]byte("h2")}
	h.Certs[1] = []*Certificate{{DER: []byte("der"), Subject: "CN=A", Issuer: "CN=B", Serial: "01", Fingerprint: "aa:bb", NotBefore: day.AddDate(-1, 0, 0), NotAfter: day.AddDate(1, 0, 0), AltNames: []string{"a.example", "b.example"}}}
	for _, x := range []struct{ keyword, value string }{
		{"app-layer-protocol", "tls"}, {"tls.version", "1.2"}, {"ssl_version", "!tls1.0"}, {"tls.version", "0x0303"}, {"tls.subject", "cn=a"}, {"tls.issuerdn", "cn=b"},
		{"tls.fingerprint", "aa:bb"}, {"tls_cert_valid", ""}, {"tls_cert_notbefore", ">2024"}, {"tls_cert_notafter", "<2028-01-01"}, {"tls_cert_notafter", "2026<>2028"},
	} {
		if !h.Word(rule.ToClient, x.keyword, x.value) {
			t.Errorf("%s:%s does not match", x.keyword, x.value)
		}
	}
	if h.Word(rule.ToClient, "tls_cert_expired", "") || h.Word(rule.ToServer, "tls.subject", "a") || !h.Word(rule.ToServer, "ssl_state", "client_hello|server_hello") || h.Word(rule.ToClient, "ssl_state", "server_hello") {
		t.Error("a word matches the wrong handshake")
	}
	for _, x := range []struct {
		dir  rule.Direction
		b    rule.Buffer
		i    int
		want string
	}{
		{rule.ToServer, rule.SNI, 0, "a.example"}, {rule.ToServer, rule.JA3Hash, 0, "j"}, {rule.ToServer, rule.ALPN, 0, "h2"}, {rule.ToServer, rule.RandomTime, 0, "\x01\x01\x01\x01"},
		{rule.ToClient, rule.CertSubject, 0, "CN=A"}, {rule.ToClient, rule.CertIssuer, 0, "CN=B"}, {rule.ToClient, rule.CertSerial, 0, "01"}, {rule.ToClient, rule.CertFingerprint, 0, "aa:bb"},
		{rule.ToClient, rule.CertAltName, 1, "b.example"}, {rule.ToClient, rule.Certs, 0, "der"},
	} {
		if got, ok := h.Buffer(x.dir, x.b, x.i); !ok || string(got) != x.want {
			t.Errorf("%s is %q, want %q", x.b, got, x.want)
		}
	}
	if n, ok := h.Numbers(rule.ToClient, "tls.cert_chain_len"); !ok || n[0] != 1 {
		t.Errorf("the chain has %v certificates", n)
	}
	if _, err := NewCertificate([]byte("no certificate")); err == nil {
		t.Error("bytes are read as a certificate")
	}
}
