// Package mail sends messages by SMTP (RFC 5321): alerts and reports, as text
// with attachments. A message is handed to one server of the settings, which
// delivers it; nothing is kept here.
package mail

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"mime"
	"net"
	"net/mail"
	"net/smtp"
	"net/url"
	"strconv"
	"strings"
	"time"

	"shuultuur/lib/ascii"
	"shuultuur/lib/release"
	"shuultuur/lib/setting"
)

// A Sender sends mail.
type Sender struct {
	config     Config
	host, addr string
	direct     bool // TLS from the first byte
	from       *mail.Address
	roots      *x509.CertPool
}

// New checks the settings.
func New(c Config) (*Sender, error) {
	if release.Small {
		return nil, release.Lacks("mail")
	}
	u, err := url.Parse(c.Server)
	if err != nil || u.Scheme != "smtp" && u.Scheme != "smtps" || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" || u.User != nil {
		return nil, setting.At("server", fmt.Errorf("%q is not a mail server: write smtp://mail.example:587 or smtps://mail.example:465", c.Server))
	}
	s := &Sender{config: c, host: u.Hostname(), direct: u.Scheme == "smtps"}
	port := u.Port()
	if n, err := strconv.ParseUint(port, 10, 16); port != "" && (err != nil || n == 0) {
		return nil, setting.At("server", fmt.Errorf("%.20q is not a port", port))
	}
	if port == "" {
		port = map[bool]string{true: "465", false: "587"}[s.direct]
	}
	s.addr = net.JoinHostPort(s.host, port)
	if s.from, err = mail.ParseAddress(c.From); err != nil {
		return nil, setting.At("from", fmt.Errorf("%q is not an address: write filter@school.example", c.From))
	}
	if (c.User == "") != (c.Password == "") {
		return nil, setting.At("user", errors.New("user and password belong together"))
	}
	if s.roots, err = c.CA.Roots(); err != nil {
		return nil, setting.At("ca", err)
	}
	return s, nil
}

// Address checks an address and returns it alone.
func Address(s string) (string, error) {
	a, err := mail.ParseAddress(s)
	if err != nil {
		return "", fmt.Errorf("%q is not an address of mail: write name@school.example", s)
	}
	return a.Address, nil
}

// A Message is a mail to send.
type Message struct {
	To      []string // addresses alone
	Subject string
	Text    string
	Files   []File
}

// A File is attached to a message.
type File struct {
	Name, Type string
	Data       []byte
}

const patience = 30 * time.Second

// Send hands a message to the server.
func (s *Sender) Send(ctx context.Context, m *Message) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := s.send(ctx, m); err != nil {
		return fmt.Errorf("mail by %s: %w", s.addr, err)
	}
	return nil
}

func (s *Sender) send(ctx context.Context, m *Message) error {
	if len(m.To) == 0 {
		return errors.New("the message has no recipient")
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", s.addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	end, _ := ctx.Deadline()
	_ = conn.SetDeadline(end)
	secure := &tls.Config{ServerName: s.host, RootCAs: s.roots, MinVersion: tls.VersionTLS12}
	if s.direct {
		conn = tls.Client(conn, secure)
	}
	c, err := smtp.NewClient(conn, s.host)
	if err != nil {
		return err
	}
	defer c.Close()
	encrypted := s.direct
	if offered, _ := c.Extension("STARTTLS"); offered && !encrypted {
		if err := c.StartTLS(secure); err != nil {
			return err
		}
		encrypted = true
	}
	if s.config.User != "" {
		if !encrypted {
			return errors.New("the server offers no encryption, so the password is not sent")
		}
		if err := c.Auth(smtp.PlainAuth("", s.config.User, s.config.Password, s.host)); err != nil {
			return err
		}
	}
	if err := c.Mail(s.from.Address); err != nil {
		return err
	}
	for _, to := range m.To {
		if err := c.Rcpt(to); err != nil {
			return fmt.Errorf("%s: %w", to, err)
		}
	}
	w, err := c.Data()
	if err != nil {
		return err
	}
	if _, err := w.Write(s.encode(m, time.Now())); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return c.Quit()
}

// encode writes a message in the form of RFC 5322 and MIME.
func (s *Sender) encode(m *Message, now time.Time) []byte {
	var b bytes.Buffer
	_, domain, _ := strings.Cut(s.from.Address, "@")
	fmt.Fprintf(&b, "From: %s\r\nTo: %s\r\nSubject: %s\r\nDate: %s\r\nMessage-ID: <%s@%s>\r\nAuto-Submitted: auto-generated\r\nMIME-Version: 1.0\r\n",
		s.from, strings.Join(m.To, ", "), mime.QEncoding.Encode("utf-8", ascii.OneLine(m.Subject)), now.Format(time.RFC1123Z), rand.Text(), domain)
	if len(m.Files) == 0 {
		part(&b, "text/plain; charset=utf-8", "", []byte(m.Text))
		return b.Bytes()
	}
	between := rand.Text()
	fmt.Fprintf(&b, "Content-Type: multipart/mixed; boundary=%s\r\n\r\n--%s\r\n", between, between)
	part(&b, "text/plain; charset=utf-8", "", []byte(m.Text))
	for _, f := range m.Files {
		fmt.Fprintf(&b, "--%s\r\n", between)
		part(&b, f.Type, f.Name, f.Data)
	}
	fmt.Fprintf(&b, "--%s--\r\n", between)
	return b.Bytes()
}

func part(b *bytes.Buffer, kind, name string, data []byte) {
	fmt.Fprintf(b, "Content-Type: %s\r\nContent-Transfer-Encoding: base64\r\n", kind)
	if name != "" {
		fmt.Fprintf(b, "Content-Disposition: %s\r\n", mime.FormatMediaType("attachment", map[string]string{"filename": name}))
	}
	b.WriteString("\r\n")
	text := base64.StdEncoding.EncodeToString(data)
	for len(text) > 76 {
		b.WriteString(text[:76] + "\r\n")
		text = text[76:]
	}
	b.WriteString(text + "\r\n")
}
