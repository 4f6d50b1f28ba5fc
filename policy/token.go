package policy

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"time"

	"shuultuur/filter"
	"shuultuur/state"
)

// The names under which a client returns its tokens. A warn page links to the same URL with
// the parameter, and a click spends its token. In return the server puts another token into
// the cookie of that site, and redirects the client. So the click also covers what the page loads
// from other hosts of its site.
const (
	// Cookie holds tokens joined by ".", newest first; those beyond MaxTokens are ignored.
	Cookie    = "shuultuur"
	MaxTokens = 16
)

// A token is base64url, unpadded, of
//
//	8 bytes   expiry, Unix time in nanoseconds, big endian
//	32 bytes  HMAC-SHA256 of use, policy, rule, site, client address, user and expiry
//
// so that it reveals nothing and is valid for one rule, site and client. No two pages have the
// same token, since they are not made in the same nanosecond.
const tokenSize = 8 + sha256.Size

// A use is the purpose of a token: one click, or passing until it expires.
type use string

const (
	forClick use = "shuultuur warn click"
	forPass  use = "shuultuur warn pass"
)

var encoding = base64.RawURLEncoding.Strict()

// token makes the token of r for the client of t, valid as long as a click is.
func (w *walk) token(u use, r *rule) string {
	expiry := w.now.Add(r.warnFor).UnixNano()
	b := binary.BigEndian.AppendUint64(make([]byte, 0, tokenSize), uint64(expiry))
	return encoding.EncodeToString(w.sign(b, u, r, expiry))
}

func (w *walk) sign(dst []byte, u use, r *rule, expiry int64) []byte {
	m := hmac.New(sha256.New, w.e.key)
	addr, _ := w.t.Client.Addr.MarshalBinary()
	site, _ := filter.Site(w.t.Host)
	// Each part is preceded by its length, so that different parts never hash the same bytes.
	for _, part := range [][]byte{
		[]byte(u), []byte(w.p.name), []byte(r.name), []byte(site), addr, []byte(w.t.Client.User),
	} {
		m.Write(binary.AppendUvarint(nil, uint64(len(part))))
		m.Write(part)
	}
	m.Write(binary.BigEndian.AppendUint64(nil, uint64(expiry)))
	return m.Sum(dst)
}

// Reasons why a click does not count.
var (
	errNoClick = errors.New("the token belongs to another client, site or settings, or is too old")
	errSpent   = errors.New("its token was used before")
	errUnknown = errors.New("it is not known at the moment whether its token was used before")
	// The state has no room for another counter.
	errUncounted = errors.New("there is no room to remember that its token was used")
)

// Accept spends the token of a click on a warn page; t has the client and the host. It returns
// the token that lets the client pass for the rule's time. An invalid or spent token gives an
// error that says so.
func (e *Engine) Accept(ctx context.Context, t *filter.Transaction, token string) (string, error) {
	now := timeOf(t)
	p := e.policyFor(&t.Client, now)
	if p == nil {
		return "", errNoClick
	}
	w := e.walk(p, t, filter.Request, now)
	defer w.release()
	for _, r := range p.rules {
		if r.action != filter.Warn || !w.valid(forClick, r, []byte(token)) {
			continue
		}
		if err := e.markSpent(ctx, p, token, now.Add(r.warnFor)); err != nil {
			return "", err
		}
		return w.token(forPass, r), nil
	}
	return "", errNoClick
}

// markSpent counts a token as spent.
func (e *Engine) markSpent(ctx context.Context, p *policy, token string, until time.Time) error {
	if e.counter == nil {
		return nil
	}
	sum := sha256.Sum256([]byte("spent\x00" + token))
	n := []state.Count{{Key: [16]byte(sum[:16]), Until: until, Add: 1, Most: 1}}
	e.counter.Count(ctx, n)
	switch {
	case n[0].Over:
		return errSpent
	case n[0].Sum == 0: // without room to count it, it could be spent again
		return errUncounted
	case p.warnClosed && !n[0].Known:
		return errUnknown
	}
	return nil
}

// accepted reports whether the client has clicked through a warning of r on this site and the
// click is still valid.
func (w *walk) accepted(r *rule) bool {
	q := w.t.Request
	if q == nil {
		return false
	}
	left := MaxTokens
	for i := range q.Fields {
		if !equalFold(q.Fields[i].Name, "cookie") {
			continue
		}
		for rest := q.Fields[i].Value; len(rest) > 0; {
			var pair []byte
			pair, rest, _ = bytes.Cut(rest, []byte(";"))
			name, tokens, _ := bytes.Cut(bytes.TrimSpace(pair), []byte("="))
			if string(name) != Cookie {
				continue
			}
			for len(tokens) > 0 && left > 0 {
				var token []byte
				token, tokens, _ = bytes.Cut(tokens, []byte("."))
				left--
				if w.valid(forPass, r, token) {
					return true
				}
			}
		}
	}
	return false
}

func (w *walk) valid(u use, r *rule, token []byte) bool {
	var b [tokenSize]byte
	if len(token) != encoding.EncodedLen(tokenSize) {
		return false
	}
	if _, err := encoding.Decode(b[:], token); err != nil {
		return false
	}
	expiry := int64(binary.BigEndian.Uint64(b[:]))
	// An expiry beyond what this rule grants is from older settings.
	if left := expiry - w.now.UnixNano(); left <= 0 || left > int64(r.warnFor) {
		return false
	}
	return subtle.ConstantTimeCompare(w.sign(nil, u, r, expiry), b[8:]) == 1
}

// noteAccepted records that r would have warned.
func (w *walk) noteAccepted(r *rule) {
	f := filter.Finding{Check: "policy", Category: "accepted", Evidence: r.name}
	for _, g := range w.t.Findings {
		if g == f {
			return
		}
	}
	w.t.Findings = append(w.t.Findings, f)
}
