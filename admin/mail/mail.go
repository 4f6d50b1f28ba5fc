// Package mail sends messages by SMTP (RFC 5321): alerts and reports, as text
// with attachments. A message is handed to one server of the settings, which
// delivers it; nothing is kept here.
package mail

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/mail"
	"net/url"
	"os"
	"strconv"
	"strings"

	gomail "github.com/wneessen/go-mail"

	"shuultuur/lib/ascii"
	"shuultuur/lib/release"
	"shuultuur/lib/setting"
	"shuultuur/lib/smtp"
)

// A Sender sends mail.
type Sender struct {
	server smtp.Server
	from   *mail.Address
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
	host := u.Hostname()
	s := &Sender{server: smtp.Server{Direct: u.Scheme == "smtps", Name: c.Name, User: c.User, Password: c.Password}}
	port := u.Port()
	if n, err := strconv.ParseUint(port, 10, 16); port != "" && (err != nil || n == 0) {
		return nil, setting.At("server", fmt.Errorf("%.20q is not a port", port))
	}
	if port == "" {
		port = map[bool]string{true: "465", false: "587"}[s.server.Direct]
	}
	s.server.Address = net.JoinHostPort(host, port)
	if s.from, err = mail.ParseAddress(c.From); err != nil {
		return nil, setting.At("from", fmt.Errorf("%q is not an address: write filter@school.example", c.From))
	}
	if strings.ContainsFunc(c.Name, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, setting.At("name", fmt.Errorf("%q is not a host name: write filter.school.example", c.Name))
	}
	if s.server.Token, err = token(c.Token); err != nil {
		return nil, setting.At("token", err)
	}
	switch secret := c.Password != "" || c.Token != ""; {
	case (c.User != "") != secret:
		return nil, setting.At("user", errors.New("user and password, or user and token, belong together"))
	case c.Password != "" && c.Token != "":
		return nil, setting.At("token", errors.New("there is a password as well; which one counts?"))
	}
	roots, err := c.CA.Roots()
	if err != nil {
		return nil, setting.At("ca", err)
	}
	s.server.TLS = &tls.Config{ServerName: host, RootCAs: roots, MinVersion: tls.VersionTLS12}
	return s, nil
}

// token reads an access token from its file.
func token(f setting.File) (string, error) {
	if f == "" {
		return "", nil
	}
	b, err := os.ReadFile(string(f))
	if err != nil {
		return "", err
	}
	s := strings.TrimSpace(string(b))
	if s == "" || len(s) > 16<<10 || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("%s: this is not an access token: one line of ASCII is expected", f)
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

// Send hands a message to the server. After a [smtp.Refused], those whom it does not name get
// the message.
func (s *Sender) Send(ctx context.Context, m *Message) error {
	text, err := s.encode(m)
	if err == nil {
		err = s.server.Send(ctx, s.from.Address, m.To, text)
	}
	if err != nil {
		return fmt.Errorf("mail by %s: %w", s.server.Address, err)
	}
	return nil
}

// encode writes a message in the form of RFC 5322 and MIME.
func (s *Sender) encode(m *Message) ([]byte, error) {
	x := gomail.NewMsg(gomail.WithNoDefaultUserAgent())
	_, domain, _ := strings.Cut(s.from.Address, "@")
	x.SetMessageIDWithValue(rand.Text() + "@" + domain)
	x.SetDate()
	x.SetGenHeader("Auto-Submitted", "auto-generated")
	x.Subject(ascii.OneLine(m.Subject))
	x.SetBodyString(gomail.TypeTextPlain, m.Text)
	for _, f := range m.Files {
		if err := x.AttachReader(f.Name, bytes.NewReader(f.Data), gomail.WithFileContentType(gomail.ContentType(f.Type))); err != nil {
			return nil, err
		}
	}
	err := errors.Join(x.From(s.from.String()), x.To(m.To...))
	var b bytes.Buffer
	if err == nil {
		_, err = x.WriteTo(&b)
	}
	return b.Bytes(), err
}
