package policy

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"time"

	"shuultuur/filter"
)

// The names under which a client brings its tokens back. A warn page leads to
// the same URL with the parameter; the server turns that into the cookie, for
// that host, and sends the client on.
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
//	8 bytes   Unix time, in seconds, after which it means nothing, big endian
//	32 bytes  HMAC-SHA256 of policy, rule, host, client address, user and that time
//
// so that it says nothing by itself and holds for one rule, host and client.
const tokenSize = 8 + sha256.Size

var encoding = base64.RawURLEncoding.Strict()

// token makes the token with which the client of t may pass r until expiry.
func (w *walk) token(r *rule, expiry int64) string {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, tokenSize), uint64(expiry))
	return encoding.EncodeToString(w.sign(b, r, expiry))
}

func (w *walk) sign(dst []byte, r *rule, expiry int64) []byte {
	m := hmac.New(sha256.New, w.e.key)
	addr, _ := w.t.Client.Addr.MarshalBinary()
	// Every part goes with its length, so that no two lists of parts look
	// the same.
	for _, part := range [][]byte{
		[]byte("shuultuur warn"), []byte(w.p.name), []byte(r.name), []byte(w.t.Host), addr, []byte(w.t.Client.User),
	} {
		m.Write(binary.AppendUvarint(nil, uint64(len(part))))
		m.Write(part)
	}
	m.Write(binary.BigEndian.AppendUint64(nil, uint64(expiry)))
	return m.Sum(dst)
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
				if w.valid(r, token) {
					return true
				}
			}
		}
	}
	return false
}

func (w *walk) valid(r *rule, token []byte) bool {
	var b [tokenSize]byte
	if len(token) != encoding.EncodedLen(tokenSize) {
		return false
	}
	if _, err := encoding.Decode(b[:], token); err != nil {
		return false
	}
	expiry := int64(binary.BigEndian.Uint64(b[:]))
	// One made further ahead than this rule grants is from older settings.
	if left := expiry - w.now.Unix(); left <= 0 || left > int64(r.warnFor/time.Second) {
		return false
	}
	return subtle.ConstantTimeCompare(w.sign(nil, r, expiry), b[8:]) == 1
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
