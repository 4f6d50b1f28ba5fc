// Package seal encrypts and authenticates values that a browser stores, so that
// only this gateway, or nodes that share its key, can read or make them
// (AES-256-GCM).
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
)

// A Box seals values for one purpose. It is safe for concurrent use.
type Box struct{ aead cipher.AEAD }

// New returns a Box. key is a secret of any length. Values sealed for one
// purpose cannot be opened for another.
func New(key []byte, purpose string) (*Box, error) {
	sum := sha256.Sum256(append([]byte("shuultuur "+purpose+"\x00"), key...))
	block, err := aes.NewCipher(sum[:])
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	return &Box{aead}, err
}

// Seal encodes v as JSON, encrypts it, and returns it in the characters of a
// cookie.
func (b *Box) Seal(v any) (string, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	nonce := make([]byte, b.aead.NonceSize(), b.aead.NonceSize()+len(text)+b.aead.Overhead())
	_, _ = rand.Read(nonce) // never fails (crypto/rand)
	return base64.RawURLEncoding.EncodeToString(b.aead.Seal(nonce, nonce, text, nil)), nil
}

var (
	errDamaged = errors.New("it is damaged")
	errForeign = errors.New("it is not of this gateway")
)

// Open decrypts the result of Seal into v.
func (b *Box) Open(sealed string, v any) error {
	text, err := base64.RawURLEncoding.DecodeString(sealed)
	n := b.aead.NonceSize()
	if err != nil || len(text) < n {
		return errDamaged
	}
	if text, err = b.aead.Open(nil, text[:n], text[n:], nil); err != nil {
		return errForeign
	}
	return json.Unmarshal(text, v)
}
