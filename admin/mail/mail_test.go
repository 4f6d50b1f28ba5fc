//go:build !small

package mail

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"mime"
	"mime/multipart"
	"net"
	"net/mail"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shuultuur/lib/setting"
)

// An office is a mail server that speaks SMTP with one client at a time.
type office struct {
	tls      *tls.Config
	direct   bool // TLS from the first byte
	starts   bool // offers STARTTLS
	got      chan string
	auth     chan string
	root     string // PEM file
	listener net.Listener
}

func newOffice(t *testing.T, direct, starts bool) *office {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	o := &office{direct: direct, starts: starts, got: make(chan string, 9), auth: make(chan string, 9), root: filepath.Join(t.TempDir(), "root.pem"),
		tls: &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}}
	if err := os.WriteFile(o.root, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	if o.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	ended := make(chan bool)
	t.Cleanup(func() { o.listener.Close(); <-ended })
	go func() {
		defer close(ended)
		for {
			conn, err := o.listener.Accept()
			if err != nil {
				return
			}
			o.talk(conn)
		}
	}()
	return o
}

func (o *office) talk(conn net.Conn) {
	defer func() { conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	secure := o.direct
	if secure {
		conn = tls.Server(conn, o.tls)
	}
	r := bufio.NewReader(conn)
	say := func(s string) { fmt.Fprint(conn, s+"\r\n") }
	say("220 ready")
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.TrimSpace(line)
		switch word, rest, _ := strings.Cut(line, " "); strings.ToUpper(word) {
		case "EHLO":
			say("250-office")
			if o.starts && !secure {
				say("250-STARTTLS")
			}
			say("250 AUTH PLAIN")
		case "STARTTLS":
			say("220 go on")
			conn, secure = tls.Server(conn, o.tls), true
			r = bufio.NewReader(conn)
		case "AUTH":
			o.auth <- rest
			say("235 known")
		case "RCPT":
			if strings.Contains(rest, "nobody") {
				say("550 no such box")
				continue
			}
			say("250 good")
		case "DATA":
			say("354 write")
			var text strings.Builder
			for {
				line, err := r.ReadString('\n')
				if err != nil {
					return
				}
				if line == ".\r\n" {
					break
				}
				text.WriteString(strings.TrimPrefix(line, "."))
			}
			o.got <- text.String()
			say("250 taken")
		case "QUIT":
			say("221 bye")
			return
		default:
			say("250 good")
		}
	}
}

// sender returns a sender for the office, with a password.
func (o *office) sender(t *testing.T, password, ca string) *Sender {
	t.Helper()
	_, port, _ := net.SplitHostPort(o.listener.Addr().String())
	c := Config{Server: "smtp://localhost:" + port, From: "Filter <filter@school.example>", CA: setting.File(ca)}
	if o.direct {
		c.Server = "smtps://localhost:" + port
	}
	if password != "" {
		c.User, c.Password = "filter", password
	}
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestMailIsEncryptedAndSignedIn(t *testing.T) {
	for name, o := range map[string]*office{"STARTTLS": newOffice(t, false, true), "TLS from the first byte": newOffice(t, true, false)} {
		s := o.sender(t, "secret word", o.root)
		m := &Message{To: []string{"head@school.example"}, Subject: "Woche\r\nBcc: evil@example.com ä", Text: "Grüße\n.\nende", Files: []File{{Name: "report.pdf", Type: "application/pdf", Data: []byte("%PDF")}}}
		if err := s.Send(t.Context(), m); err != nil {
			t.Errorf("%s: sending: %v", name, err)
			continue
		}
		mechanism, response, _ := strings.Cut(<-o.auth, " ")
		if b, _ := base64.StdEncoding.DecodeString(response); mechanism != "PLAIN" || string(b) != "\x00filter\x00secret word" {
			t.Errorf("%s: the client signed in with %s %q", name, mechanism, b)
		}
		checkMail(t, name, <-o.got)
		if err := s.Send(t.Context(), &Message{To: []string{"nobody@school.example"}, Text: "x"}); err == nil || !strings.Contains(err.Error(), "nobody@school.example") {
			t.Errorf("%s: sending to an unknown recipient: %v, want an error that names it", name, err)
		}
		<-o.auth
		if err := o.sender(t, "secret word", "").Send(t.Context(), m); err == nil || !strings.Contains(err.Error(), "certificate") {
			t.Errorf("%s: sending to a server with an unknown certificate: %v", name, err)
		}
	}
}

// checkMail reads a message as a mail program does.
func checkMail(t *testing.T, name, text string) {
	t.Helper()
	got, err := mail.ReadMessage(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%s: parsing the message: %v in %q", name, err, text)
	}
	subject, err := new(mime.WordDecoder).DecodeHeader(got.Header.Get("Subject"))
	if subject != "Woche Bcc: evil@example.com ä" || err != nil || got.Header.Get("Bcc") != "" {
		t.Errorf("%s: subject %q, %v, headers %v", name, subject, err, got.Header)
	}
	_, params, err := mime.ParseMediaType(got.Header.Get("Content-Type"))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	parts := multipart.NewReader(got.Body, params["boundary"])
	for _, want := range []string{"Grüße\n.\nende", "%PDF"} {
		p, err := parts.NextPart()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var r io.Reader = p // which decodes quoted-printable by itself
		if p.Header.Get("Content-Transfer-Encoding") == "base64" {
			r = base64.NewDecoder(base64.StdEncoding, p)
		}
		body, err := io.ReadAll(r)
		body = bytes.ReplaceAll(body, []byte("\r\n"), []byte("\n"))
		if err != nil || string(body) != want {
			t.Errorf("%s: a part is %q, %v; want %q", name, body, err, want)
		}
	}
}

// TestNoPasswordInTheClear: a server without encryption gets mail only if it needs no password.
func TestNoPasswordInTheClear(t *testing.T) {
	o := newOffice(t, false, false)
	m := &Message{To: []string{"head@school.example"}, Subject: "x", Text: "x"}
	if err := o.sender(t, "secret word", "").Send(t.Context(), m); err == nil || !strings.Contains(err.Error(), "no encryption") {
		t.Errorf("sending a password without encryption: %v, want an error", err)
	}
	select {
	case credentials := <-o.auth:
		t.Errorf("the server got the credentials %q", credentials)
	default:
	}
	if err := o.sender(t, "", "").Send(t.Context(), m); err != nil {
		t.Errorf("sending without a password: %v", err)
	}
	<-o.got
}

// A line of a message has at most 998 characters (RFC 5322, 2.1.1), whatever is in its fields.
func TestLongFieldsAreFolded(t *testing.T) {
	s, err := New(Config{Server: "smtp://mail.example", From: "Filter <filter@school.example>"})
	if err != nil {
		t.Fatal(err)
	}
	m := &Message{Subject: strings.Repeat("Überraschung ", 100), Text: strings.Repeat("x", 3000)}
	for i := range 200 {
		m.To = append(m.To, fmt.Sprintf("teacher-%d@school.example", i))
	}
	text, err := s.encode(m)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(string(text), "\r\n") {
		if len(line) > 998 || strings.Contains(line, "\n") {
			t.Errorf("a line has %d bytes: %.60q", len(line), line)
		}
	}
	got, err := mail.ReadMessage(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	to, err := got.Header.AddressList("To")
	if err != nil || len(to) != 200 || to[199].Address != "teacher-199@school.example" {
		t.Errorf("%d recipients, %v", len(to), err)
	}
	if subject, err := new(mime.WordDecoder).DecodeHeader(got.Header.Get("Subject")); err != nil || strings.TrimSpace(subject) != strings.TrimSpace(m.Subject) {
		t.Errorf("subject %q, %v", subject, err)
	}
}

func TestSettingsOfMail(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) setting.File {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return setting.File(path)
	}
	good := file("token", "ya29.abc-DEF\n")
	for want, c := range map[string]Config{
		"":                          {User: "filter@school.example", Token: good},
		"which one counts":          {User: "filter", Password: "secret", Token: good},
		"user and token":            {Token: good},
		"belong together":           {User: "filter"},
		"not an access token":       {User: "filter", Token: file("empty", "\n")},
		"one line of ASCII":         {User: "filter", Token: file("two", "a\nb\n")},
		"no such file":              {User: "filter", Token: setting.File(filepath.Join(dir, "none"))},
		`"a b" is not a host name`:  {Name: "a b"},
		`"a\r\nQUIT" is not a host`: {Name: "a\r\nQUIT"},
	} {
		c.Server, c.From = "smtp://mail.example", "filter@school.example"
		s, err := New(c)
		if want == "" && (err != nil || s.server.Token != "ya29.abc-DEF") || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%+v: %v, want %q", c, err, want)
		}
	}
}
