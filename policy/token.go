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

// The names under which a client brings its tokens back. A warn page leads to
// the same URL with the parameter, whose token is spent by the click; the
// server puts the one it gets for it into the cookie, for that host, and sends
// the client on.
const (
	// Cookie holds tokens joined by ".", newest first; more than MaxTokens
	// are not looked at.
	Cookie = "shuultuur"
	// Accept is the query parameter that carries one token.
	Accept    = "shuultuur-accept"
	MaxTokens = 16
)

// A token is base64url, unpadded, of
//
//	8 bytes   Unix time, in nanoseconds, after which it means nothing, big endian
//	32 bytes  HMAC-SHA256 of use, policy, rule, host, client address, user and that time
//
// so that it says nothing by itself and holds for one rule, host and client.
// No two pages have the same, since they are not made in the same nanosecond.
const tokenSize = 8 + sha256.Size

// A use is what a token is good for: one click, or to pass while it lasts.
type use string

const (
	forClick use = "shuultuur warn click"
	forPass  use = "shuultuur warn pass"
)

var encoding = base64.RawURLEncoding.Strict()

// token makes the token of r for the client of t, for as long as a click holds.
func (w *walk) token(u use, r *rule) string {
	expiry := w.now.Add(r.warnFor).UnixNano()
	b := binary.BigEndian.AppendUint64(make([]byte, 0, tokenSize), uint64(expiry))
	return encoding.EncodeToString(w.sign(b, u, r, expiry))
}

func (w *walk) sign(dst []byte, u use, r *rule, expiry int64) []byte {
	m := hmac.New(sha256.New, w.e.key)
	addr, _ := w.t.Client.Addr.MarshalBinary()
	// Every part goes with its length, so that no two lists of parts look
	// the same.
	for _, part := range [][]byte{
		[]byte(u), []byte(w.p.name), []byte(r.name), []byte(w.t.Host), addr, []byte(w.t.Client.User),
	} {
		m.Write(binary.AppendUvarint(nil, uint64(len(part))))
		m.Write(part)
	}
	m.Write(binary.BigEndian.AppendUint64(nil, uint64(expiry)))
	return m.Sum(dst)
}

// Why a click does not count.
var (
	errNoClick = errors.New("not a token of this client, host and settings, or too old")
	errSpent   = errors.New("its token was spent before")
	errUnknown = errors.New("whether its token was spent before is not known at the moment")
	// The state holds no more counters.
	errUncounted = errors.New("there is no room to remember that its token is spent")
)

// Accept spends the token of a click on a warn page, of which t has the client
// and the host, and returns the one that lets the client pass from now on, for
// the rule's time. A token that is none, or was spent before, gives an error
// that says so.
func (e *Engine) Accept(ctx context.Context, t *filter.Transaction, token string) (string, error) {
	now := (*clock)(t).now()
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
		if err := e.spent(ctx, p, token, now.Add(r.warnFor)); err != nil {
			return "", err
		}
		return w.token(forPass, r), nil
	}
	return "", errNoClick
}

// spent counts a token as spent.
func (e *Engine) spent(ctx context.Context, p *policy, token string, until time.Time) error {
	if e.counter == nil {
		return nil
	}
	sum := sha256.Sum256([]byte("spent\x00" + token))
	n := []state.Count{{Key: [16]byte(sum[:16]), Until: until, Add: 1, Most: 1}}
	e.counter.Count(ctx, n)
	switch {
	case n[0].Over:
		return errSpent
	case n[0].Sum == 0: // there was no room: it could be spent again
		return errUncounted
	case p.warnClosed && !n[0].Known:
		return errUnknown
	}
	return nil
}

// accepted says whether the client has clicked through a warning of r on this
// host and it still holds.
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
	// One made further ahead than this rule grants is from older settings.
	if left := expiry - w.now.UnixNano(); left <= 0 || left > int64(r.warnFor) {
		return false
	}
	return subtle.ConstantTimeCompare(w.sign(nil, u, r, expiry), b[8:]) == 1
}

// noteAccepted puts on record that r would have warned.
func (w *walk) noteAccepted(r *rule) {
	f := filter.Finding{Check: "policy", Category: "accepted", Evidence: r.name}
	for _, g := range w.t.Findings {
		if g == f {
			return
		}
	}
	w.t.Findings = append(w.t.Findings, f)
}
