package directory

import (
	"context"
	"crypto/hmac"
	"crypto/md5" // RFC 3579 requires it
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"layeh.com/radius"
	"layeh.com/radius/rfc2865"
	"layeh.com/radius/rfc2869"

	"shuultuur/lib/release"
	"shuultuur/lib/setting"
)

type access struct {
	servers []string
	secret  []byte
	timeout time.Duration
	order   order
}

// NewRADIUS reads the settings.
func NewRADIUS(cfg RADIUS) (Source, error) {
	if release.Small {
		return nil, release.Lacks("RADIUS servers for passwords")
	}
	a := &access{secret: []byte(cfg.Secret), timeout: cfg.Timeout.Or(5 * time.Second)}
	switch {
	case len(cfg.Servers) == 0:
		return nil, setting.At("servers", errors.New("no server is named"))
	case cfg.Secret == "":
		return nil, setting.At("secret", errors.New("the secret that is shared with the servers is not given"))
	case a.timeout == 0:
		return nil, setting.At("timeout", errors.New("off: a client would wait forever"))
	}
	for _, s := range cfg.Servers {
		if _, _, err := net.SplitHostPort(s); err != nil {
			s = net.JoinHostPort(s, "1812")
		}
		a.servers = append(a.servers, s)
	}
	return a, nil
}

// Verify implements [Source]. Groups are the values of Filter-Id in the answer.
func (a *access) Verify(ctx context.Context, name, password string) (user string, groups []string, err error) {
	if name == "" || password == "" || len(name) > 253 || len(password) > 128 {
		return "", nil, ErrRefused
	}
	var errs []error
	for _, server := range a.order.sorted(a.servers) {
		user, groups, err = a.ask(ctx, server, name, password)
		ok := err == nil || errors.Is(err, ErrRefused)
		if ok || ctx.Err() == nil {
			a.order.note(server, ok)
		}
		if ok {
			return user, groups, err
		}
		errs = append(errs, fmt.Errorf("RADIUS server %s: %w", server, err))
		if ctx.Err() != nil {
			break
		}
	}
	return "", nil, errors.Join(errs...)
}

// ask asks one server. The user is the one that the server names in its answer (RFC 2865, 5.1),
// whatever spelling was sent.
func (a *access) ask(ctx context.Context, server, name, password string) (user string, groups []string, err error) {
	q := radius.New(radius.CodeAccessRequest, a.secret)
	err = errors.Join(rfc2865.UserName_SetString(q, name), rfc2865.UserPassword_SetString(q, password), rfc2865.NASIdentifier_SetString(q, "shuultuur"))
	if err == nil {
		err = sign(q)
	}
	if err != nil {
		return "", nil, fmt.Errorf("make the request: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	c := radius.Client{Retry: time.Second, MaxPacketErrors: 10}
	s, err := c.Exchange(ctx, q, server)
	if err != nil {
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			err = fmt.Errorf("no answer within %v: %w; the server is away, or does not have this machine as a client with the same secret: its log tells", a.timeout, err)
		case errors.Is(err, syscall.ECONNREFUSED):
			err = fmt.Errorf("%w; is it running, and is this its port for passwords (1812)?", err)
		}
		return "", nil, fmt.Errorf("ask for the password: %w", err)
	}
	if err := signed(s, q.Authenticator); err != nil {
		return "", nil, err
	}
	switch s.Code {
	case radius.CodeAccessAccept:
		if named := rfc2865.UserName_GetString(s); named != "" && utf8.ValidString(named) && strings.IndexFunc(named, unicode.IsControl) < 0 {
			name = named
		}
		groups, err = rfc2865.FilterID_GetStrings(s)
		return name, groups, err
	case radius.CodeAccessReject:
		return "", nil, ErrRefused
	}
	return "", nil, fmt.Errorf("the answer %s asks for more than a password; exempt this client from second factors", s.Code)
}

// sign adds a Message-Authenticator to a request (RFC 3579, 3.2).
func sign(q *radius.Packet) error {
	if err := rfc2869.MessageAuthenticator_Set(q, make([]byte, md5.Size)); err != nil {
		return err
	}
	b, err := q.MarshalBinary()
	if err != nil {
		return err
	}
	h := hmac.New(md5.New, q.Secret)
	h.Write(b)
	return rfc2869.MessageAuthenticator_Set(q, h.Sum(nil))
}

// signed reports whether an answer has the required Message-Authenticator. Without
// it, others could forge answers (CVE-2024-3596).
func signed(s *radius.Packet, request [16]byte) error {
	got := rfc2869.MessageAuthenticator_Get(s)
	if got == nil {
		return errors.New("the answer has no Message-Authenticator; update the server, or let it send one")
	}
	got = append([]byte(nil), got...)
	if err := rfc2869.MessageAuthenticator_Set(s, make([]byte, md5.Size)); err != nil {
		return err
	}
	p := *s
	p.Authenticator = request
	b, err := p.MarshalBinary()
	if err != nil {
		return err
	}
	h := hmac.New(md5.New, s.Secret)
	h.Write(b)
	if !hmac.Equal(got, h.Sum(nil)) {
		return errors.New("the Message-Authenticator of the answer is wrong: is the secret the same on both sides?")
	}
	return nil
}
