package smtp

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"
)

// A host is a mail server that plays a script and keeps what it is told.
type host struct {
	offers  string            // of AUTH; "": none
	tls     *tls.Config       // nil: no STARTTLS
	answers map[string]string // to lines with this beginning, in place of 250
	close   string            // the connection ends after the answer to such a line
	lines   []string
	text    string
}

// start returns a sender to h and a function that waits for the end of the connection.
func start(t *testing.T, h *host) (*Server, func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan bool)
	t.Cleanup(func() { l.Close(); <-ended })
	go func() {
		defer close(ended)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		h.serve(conn)
	}()
	roots := x509.NewCertPool()
	if h.tls != nil {
		roots.AddCert(h.tls.Certificates[0].Leaf)
	}
	return &Server{Address: l.Addr().String(), TLS: &tls.Config{ServerName: "mail.example", RootCAs: roots}}, func() { <-ended }
}

func (h *host) serve(conn net.Conn) {
	defer func() { conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	r := bufio.NewReader(conn)
	fmt.Fprint(conn, "220 mail.example ready\r\n")
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.TrimRight(line, "\r\n")
		h.lines = append(h.lines, line)
		word, _, _ := strings.Cut(line, " ")
		say := "250 good"
		switch word {
		case "EHLO":
			say = "250-mail.example"
			if _, secure := conn.(*tls.Conn); h.tls != nil && !secure {
				say += "\r\n250-STARTTLS"
			}
			if h.offers != "" {
				say += "\r\n250-AUTH " + h.offers
			}
			say += "\r\n250 8BITMIME"
		case "AUTH":
			say = "235 known"
			if strings.HasPrefix(line, "AUTH LOGIN") {
				fmt.Fprint(conn, "334 "+base64.StdEncoding.EncodeToString([]byte("Username:"))+"\r\n")
				user, _ := r.ReadString('\n')
				fmt.Fprint(conn, "334 "+base64.StdEncoding.EncodeToString([]byte("Password:"))+"\r\n")
				password, _ := r.ReadString('\n')
				h.lines = append(h.lines, strings.TrimSpace(user), strings.TrimSpace(password))
			}
		case "STARTTLS":
			say = "220 go on"
		case "DATA":
			fmt.Fprint(conn, "354 write\r\n")
			for {
				line, err := r.ReadString('\n')
				if err != nil {
					return
				}
				if line == ".\r\n" {
					break
				}
				h.text += strings.TrimPrefix(line, ".")
			}
		}
		for begin, answer := range h.answers {
			if strings.HasPrefix(line, begin) {
				say = answer
			}
		}
		fmt.Fprint(conn, say+"\r\n")
		if word == "STARTTLS" {
			conn = tls.Server(conn, h.tls)
			r = bufio.NewReader(conn)
		}
		if word == "QUIT" || h.close != "" && strings.HasPrefix(line, h.close) {
			return
		}
	}
}

func certificate(t *testing.T) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"mail.example"}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}}}
}

func b64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

// Each way to sign in that a server offers alone is taken, by a password or a token, and a server
// that offers no known way is refused with its offer.
func TestTheWayToSignInIsOneThatTheServerOffers(t *testing.T) {
	for _, tt := range []struct {
		offers, token string
		want          []string // lines that the server gets
		fails         string
	}{
		{"PLAIN LOGIN", "", []string{"AUTH PLAIN " + b64("\x00filter\x00secret")}, ""},
		{"LOGIN PLAIN", "", []string{"AUTH PLAIN " + b64("\x00filter\x00secret")}, ""},
		{"plain", "", []string{"AUTH PLAIN " + b64("\x00filter\x00secret")}, ""},
		{"LOGIN", "", []string{"AUTH LOGIN", b64("filter"), b64("secret")}, ""},
		{"NTLM LOGIN", "", []string{"AUTH LOGIN", b64("filter"), b64("secret")}, ""},
		{"XOAUTH2 PLAIN", "tok-en", []string{"AUTH XOAUTH2 " + b64("user=filter\x01auth=Bearer tok-en\x01\x01")}, ""},
		{"PLAIN LOGIN", "tok-en", nil, `offers "PLAIN LOGIN" to sign in; this program can XOAUTH2`},
		{"GSSAPI NTLM", "", nil, `offers "GSSAPI NTLM"`},
		{"", "", nil, `offers "" to sign in`},
	} {
		h := &host{offers: tt.offers, tls: certificate(t)}
		s, wait := start(t, h)
		s.User, s.Password, s.Token = "filter", "secret", tt.token
		err := s.Send(t.Context(), "a@mail.example", []string{"b@mail.example"}, []byte("Subject: x\r\n\r\nx\r\n"))
		wait()
		got := strings.Join(h.lines, "\n")
		if tt.fails != "" {
			if err == nil || !strings.Contains(err.Error(), tt.fails) || strings.Contains(got, "AUTH") {
				t.Errorf("%q, token %q: %v, want %q; the server got %q", tt.offers, tt.token, err, tt.fails, got)
			}
			continue
		}
		if err != nil || !strings.Contains(got, strings.Join(tt.want, "\n")) {
			t.Errorf("%q, token %q: %v; the server got %q, want %q", tt.offers, tt.token, err, got, tt.want)
		}
	}
}

// Servers refuse clients that call themselves localhost.
func TestTheServerHearsANameOrAnAddress(t *testing.T) {
	for _, name := range []string{"", "filter.school.example"} {
		h := &host{}
		s, wait := start(t, h)
		s.Name = name
		if err := s.Send(t.Context(), "a@b.example", []string{"c@b.example"}, []byte("x\r\n")); err != nil {
			t.Fatal(err)
		}
		wait()
		said := strings.TrimPrefix(h.lines[0], "EHLO ")
		if name != "" && said != name || said == "localhost" || !strings.ContainsAny(said, ".:") {
			t.Errorf("named %q, this machine says %q", name, said)
		}
	}
	for addr, want := range map[string]string{"192.0.2.7:25": "[192.0.2.7]", "[2001:db8::7]:25": "[IPv6:2001:db8::7]"} {
		a, err := net.ResolveTCPAddr("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		if got := machine(a); got != want && !strings.Contains(got, ".") {
			t.Errorf("at %s this machine is %s, want %s or its full name", addr, got, want)
		}
	}
}

func TestARefusedRecipientDoesNotStopTheOthers(t *testing.T) {
	for _, tt := range []struct {
		name            string
		answers         map[string]string
		taken           bool
		refused, later  string // recipients
		err             string
		final, answered bool
	}{
		{name: "all are taken", taken: true},
		{name: "one is refused", answers: map[string]string{"RCPT TO:<b@": "550 5.1.1 no such box"}, taken: true, refused: "b@x.example"},
		{name: "one has to wait", answers: map[string]string{"RCPT TO:<c@": "451 4.7.1 greylisted"}, taken: true, refused: "c@x.example", later: "c@x.example"},
		{name: "all but the last", answers: map[string]string{"RCPT TO:<a@": "550 no", "RCPT TO:<b@": "452 full"}, taken: true, refused: "a@x.example b@x.example", later: "b@x.example"},
		{name: "nobody is taken", answers: map[string]string{"RCPT": "550 no such box"}, err: "no such box", final: true, answered: true},
		{name: "all have to wait", answers: map[string]string{"RCPT": "450 later"}, err: "later", answered: true},
		{name: "the sender is refused", answers: map[string]string{"MAIL": "553 not you"}, err: "not you", final: true, answered: true},
		{name: "the message is refused", answers: map[string]string{"DATA": "554 spam"}, err: "spam", final: true, answered: true},
	} {
		h := &host{answers: tt.answers}
		s, wait := start(t, h)
		err := s.Send(t.Context(), "filter@x.example", []string{"a@x.example", "b@x.example", "c@x.example"}, []byte("Subject: x\r\n\r\n.text\r\n"))
		wait()
		refused, some := errors.AsType[Refused](err)
		var names, later []string
		for _, r := range refused {
			names = append(names, r.To)
			if r.Temporary() {
				later = append(later, r.To)
			}
		}
		if tt.taken != (err == nil || some) || strings.Join(names, " ") != tt.refused || strings.Join(later, " ") != tt.later {
			t.Errorf("%s: %v, refused %q, for now %q", tt.name, err, names, later)
		}
		if tt.taken && h.text != "Subject: x\r\n\r\n.text\r\n" {
			t.Errorf("%s: the server got %q", tt.name, h.text)
		}
		if tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err) || Final(err) != tt.final || Answered(err) != tt.answered) {
			t.Errorf("%s: %v, final %v, answered %v", tt.name, err, Final(err), Answered(err))
		}
	}
}

// The answer to the end of the message hands it over: what comes after it is no failure, and a
// connection that is lost before it is one.
func TestTheMessageIsHandedOverByTheAnswerToItsEnd(t *testing.T) {
	for _, tt := range []struct {
		close string
		quit  string
		fails bool
	}{
		{"DATA", "", false}, // the server closes after its 250
		{"QUIT", "500 what?", false},
		{"RCPT", "", true},
		{"MAIL", "", true},
	} {
		h := &host{close: tt.close, answers: map[string]string{}}
		if tt.quit != "" {
			h.answers["QUIT"] = tt.quit
		}
		s, wait := start(t, h)
		err := s.Send(t.Context(), "a@x.example", []string{"b@x.example"}, []byte("x\r\n"))
		wait()
		if (err != nil) != tt.fails {
			t.Errorf("a server that closes after %s: %v", tt.close, err)
		}
	}
}

func TestNoPasswordWithoutEncryption(t *testing.T) {
	h := &host{offers: "PLAIN LOGIN"}
	s, wait := start(t, h)
	s.User, s.Password = "filter", "secret"
	if err := s.Send(t.Context(), "a@x.example", []string{"b@x.example"}, []byte("x\r\n")); err == nil || !strings.Contains(err.Error(), "no encryption") {
		t.Errorf("a server without encryption: %v", err)
	}
	wait()
	if got := strings.Join(h.lines, "\n"); strings.Contains(got, "AUTH") {
		t.Errorf("the server got %q", got)
	}
}

func TestSendingEndsWithItsContext(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // accepts and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		if c, err := l.Accept(); err == nil {
			defer c.Close()
			stop()
			_, _ = c.Read(make([]byte, 1))
		}
	}()
	s := &Server{Address: l.Addr().String(), TLS: &tls.Config{ServerName: "mail.example"}}
	if err := s.Send(ctx, "a@x.example", []string{"b@x.example"}, []byte("x")); err == nil {
		t.Error("sending after its context ended: no error")
	}
}
