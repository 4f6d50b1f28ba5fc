package vote

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"time"
)

// A Sealer makes the tokens of block pages and opens them. A token is encrypted
// and authenticated (AES-256-GCM), so that only a blocked client can vote on the
// block, and cannot read which list line caused it. Nodes with the same key open
// each other's tokens.
type Sealer struct{ aead cipher.AEAD }

// TokenFor is how long a token is valid.
const TokenFor = 24 * time.Hour

const (
	nonceSize = 12
	maxToken  = 6000
)

var (
	errToken    = errors.New("the token is not that of a block page here; load the page anew and vote again")
	errOldToken = fmt.Errorf("the token is more than %v old; load the page anew and vote again", TokenFor)
)

// NewSealer returns a sealer with a key derived from a secret.
func NewSealer(secret []byte) (*Sealer, error) {
	key, err := hkdf.Key(sha256.New, secret, nil, "shuultuur votes", 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	return &Sealer{aead}, nil
}

// Seal makes a token of an event.
func (s *Sealer) Seal(e *Event) string {
	nonce := make([]byte, nonceSize, 512)
	rand.Read(nonce)
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nonce, nonce, e.append(nil), nil))
}

// Open reads a token.
func (s *Sealer) Open(token string, now time.Time) (e Event, err error) {
	if len(token) > maxToken {
		return e, errToken
	}
	b, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(b) < nonceSize {
		return e, errToken
	}
	plain, err := s.aead.Open(nil, b[:nonceSize], b[nonceSize:], nil)
	if err != nil {
		return e, errToken
	}
	d := decoder{b: plain}
	e = d.event()
	switch age := now.Sub(e.At); {
	case d.bad || len(d.b) > 0 || age < -time.Hour:
		return Event{}, errToken
	case age > TokenFor:
		return Event{}, errOldToken
	}
	return e, nil
}
