// Package smtp hands a message to a mail server (RFC 5321), which delivers it. The commands, TLS
// and sign-in are those of go-mail; this package chooses them by what the server offers, gives
// each step its own time, and goes on with the other recipients when one is refused.
package smtp

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/textproto"
	"os"
	"strings"
	"time"

	gomail "github.com/wneessen/go-mail/smtp"
)

// The time of each step (RFC 5321, 4.5.3.2). A server that scans a message before it accepts it
// may take minutes for its last answer; one that is given up there has the message twice.
const (
	connectTime = time.Minute
	commandTime = 5 * time.Minute
	dataTime    = 2 * time.Minute
	blockTime   = 3 * time.Minute
	endTime     = 10 * time.Minute
)

// paced gives each block that is written its time, however long the message is.
type paced struct{ net.Conn }

func (p paced) Write(b []byte) (int, error) {
	_ = p.SetWriteDeadline(time.Now().Add(blockTime))
	return p.Conn.Write(b)
}

// A Server is where messages are handed over.
type Server struct {
	Address  string      // host:port
	Direct   bool        // TLS from the first byte, as on port 465
	TLS      *tls.Config // names the host
	Name     string      // introduces this machine; "": its full name, or its address
	User     string      // "": no sign-in
	Password string
	Token    string // of OAuth 2.0, for XOAUTH2 in place of the password
}

// A Refusal says why one recipient does not get a message.
type Refusal struct {
	To  string
	Err error
}

// Temporary reports whether the server may take the message for this recipient later.
func (r *Refusal) Temporary() bool { return !Final(r.Err) }

// Refused are the recipients who do not get a message that others get.
type Refused []Refusal

func (r Refused) Error() string {
	all := make([]string, len(r))
	for i := range r {
		all[i] = fmt.Sprintf("%s: %v", r[i].To, r[i].Err)
	}
	return "some recipients are refused: " + strings.Join(all, "; ")
}

// Answered reports whether an error is an answer of the server, and not a failure to reach it.
func Answered(err error) bool {
	_, ok := errors.AsType[*textproto.Error](err)
	return ok
}

// Final reports whether an error is an answer that another attempt will not change (RFC 5321,
// 4.2.1).
func Final(err error) bool {
	answer, ok := errors.AsType[*textproto.Error](err)
	return ok && answer.Code >= 500
}

// Send hands over a message in the form of RFC 5322. It succeeds when the server has accepted it
// for all; a [Refused] says that it has accepted it for some. After any other error nobody gets
// it.
func (s *Server) Send(ctx context.Context, from string, to []string, message []byte) error {
	if len(to) == 0 {
		return errors.New("the message has no recipient")
	}
	d := net.Dialer{Timeout: connectTime}
	conn, err := d.DialContext(ctx, "tcp", s.Address)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	within := func(t time.Duration) { _ = conn.SetReadDeadline(time.Now().Add(t)) } // for the next answer
	within(commandTime)
	c, err := s.open(paced{conn})
	if err != nil {
		return err
	}
	within(commandTime)
	if err := c.Mail("<" + from + ">"); err != nil {
		return err
	}
	var refused Refused
	for _, r := range to {
		within(commandTime)
		if err := c.Rcpt("<" + r + ">"); err == nil {
			continue
		} else if !Answered(err) {
			return err // the connection is lost
		} else {
			refused = append(refused, Refusal{r, err})
		}
	}
	if len(refused) == len(to) {
		return fmt.Errorf("%s: %w", refused[0].To, refused[0].Err)
	}
	within(dataTime)
	w, err := c.Data()
	if err != nil {
		return err
	}
	within(endTime)
	if _, err := w.Write(message); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	within(time.Second) // the server has the message; how it says goodbye does not matter
	_ = c.Quit()
	if len(refused) > 0 {
		return refused
	}
	return nil
}

// open introduces this machine and signs in.
func (s *Server) open(conn net.Conn) (*gomail.Client, error) {
	local := conn.LocalAddr()
	if s.Direct {
		conn = tls.Client(conn, s.TLS)
	}
	c, err := gomail.NewClient(conn, s.TLS.ServerName)
	if err != nil {
		return nil, err
	}
	if err := c.Hello(cmp.Or(s.Name, machine(local))); err != nil {
		return nil, err
	}
	encrypted := s.Direct
	if offered, _ := c.Extension("STARTTLS"); offered && !encrypted {
		if err := c.StartTLS(s.TLS); err != nil {
			return nil, err
		}
		encrypted = true
	}
	if s.User == "" {
		return c, nil
	}
	if !encrypted {
		return nil, errors.New("the server offers no encryption, so the password is not sent")
	}
	_, offered := c.Extension("AUTH")
	auth, err := s.auth(offered)
	if err == nil {
		err = c.Auth(auth)
	}
	return c, err
}

// auth chooses a way to sign in of those that the server offers. The connection is encrypted.
func (s *Server) auth(offered string) (gomail.Auth, error) {
	type way struct {
		name string
		auth gomail.Auth
	}
	ways := []way{
		{"PLAIN", gomail.PlainAuth("", s.User, s.Password, s.TLS.ServerName, false)},
		{"LOGIN", gomail.LoginAuth(s.User, s.Password, s.TLS.ServerName, false)},
		{"SCRAM-SHA-256", gomail.ScramSHA256Auth(s.User, s.Password)},
		{"CRAM-MD5", gomail.CRAMMD5Auth(s.User, s.Password)},
	}
	if s.Token != "" {
		ways = []way{{"XOAUTH2", gomail.XOAuth2Auth(s.User, s.Token)}}
	}
	var names []string
	for _, w := range ways {
		for name := range strings.FieldsSeq(offered) {
			if strings.EqualFold(name, w.name) {
				return w.auth, nil
			}
		}
		names = append(names, w.name)
	}
	return nil, fmt.Errorf("the server offers %q to sign in; this program can %s", offered, strings.Join(names, ", "))
}

// machine returns the name of this machine for EHLO: its full name, or else its address (RFC
// 5321, 4.1.4). Servers refuse "localhost".
func machine(local net.Addr) string {
	if name, err := os.Hostname(); err == nil && strings.Contains(strings.Trim(name, "."), ".") && !strings.HasPrefix(strings.ToLower(name), "localhost.") {
		return strings.TrimSuffix(name, ".")
	}
	tcp, ok := local.(*net.TCPAddr)
	if !ok {
		return "[127.0.0.1]"
	}
	if v4 := tcp.IP.To4(); v4 != nil {
		return "[" + v4.String() + "]"
	}
	return "[IPv6:" + tcp.IP.String() + "]"
}
