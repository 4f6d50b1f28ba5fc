package account

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Passkeys follow WebAuthn level 2, without attestation, because the kind of authenticator does
// not matter. The browser sends the public key in the form that certificates use, so we need
// not parse CBOR.

// A Passkey is a key pair whose public half is known here.
type Passkey struct {
	ID      string    `json:"id"` // base64url
	Name    string    `json:"name"`
	Key     []byte    `json:"key,omitempty"` // PKIX, DER
	Count   uint32    `json:"count,omitempty"`
	Created time.Time `json:"created"`
}

// A challenge is an open challenge.
type challenge struct {
	name  string // account whose new passkey it is for; "" for signing in
	until time.Time
}

const (
	challengeTime = 5 * time.Minute
	maxChallenges = 1000
	maxPasskeys   = 20

	flagPresent  = 1 << 0
	flagVerified = 1 << 2
)

// Algorithms has the COSE algorithms that a passkey may have: ES256, EdDSA, RS256.
var Algorithms = []int{-7, -8, -257}

// Challenge returns a challenge for a new passkey of an account, or for signing in if user is
// "".
func (b *Book) Challenge(name string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	if len(b.asked) >= maxChallenges {
		for k, c := range b.asked {
			if now.After(c.until) || len(b.asked) >= maxChallenges {
				delete(b.asked, k)
			}
		}
	}
	c := random(32)
	b.asked[c] = challenge{strings.ToLower(name), now.Add(challengeTime)}
	return c
}

// Handle returns the identifier of an account for passkeys, and the passkeys that it has.
func (b *Book) Handle(name string) (handle string, have []string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.read(); err != nil {
		return "", nil, err
	}
	i := b.kept.at(name)
	if i < 0 {
		return "", nil, ErrNone
	}
	for _, p := range b.kept.Accounts[i].Passkeys {
		have = append(have, p.ID)
	}
	return b.kept.Accounts[i].Handle, have, nil
}

// A Proof is a browser's answer to a challenge. Bytes are base64url.
type Proof struct {
	ID         string `json:"id"`
	Name       string `json:"name"`      // of a new passkey
	PublicKey  string `json:"publicKey"` // of a new passkey, PKIX
	ClientData string `json:"clientDataJSON"`
	AuthData   string `json:"authenticatorData"`
	Signature  string `json:"signature"`
	Handle     string `json:"userHandle"`
}

func unb64(s string) ([]byte, error) {
	return base64.RawURLEncoding.DecodeString(strings.TrimRight(s, "="))
}

// A site is where a passkey is used.
type site struct {
	origin string // "https://filter.example:8081"
	id     string // "filter.example"
}

// checked verifies the parts of a proof that do not depend on the key: that it answers our
// challenge, is for this site, and that a person was present.
func (b *Book) checked(p *Proof, kind, name string, at site) (auth, client []byte, count uint32, err error) {
	if client, err = unb64(p.ClientData); err != nil {
		return nil, nil, 0, fmt.Errorf("clientDataJSON: %w", err)
	}
	if auth, err = unb64(p.AuthData); err != nil {
		return nil, nil, 0, fmt.Errorf("authenticatorData: %w", err)
	}
	var c struct {
		Type, Challenge, Origin string
		CrossOrigin             bool
	}
	if err := json.Unmarshal(client, &c); err != nil {
		return nil, nil, 0, fmt.Errorf("clientDataJSON: %w", err)
	}
	b.mu.Lock()
	was, ok := b.asked[c.Challenge]
	delete(b.asked, c.Challenge)
	b.mu.Unlock()
	id := sha256.Sum256([]byte(at.id))
	switch {
	case !ok || b.now().After(was.until) || was.name != strings.ToLower(name):
		err = errors.New("the challenge is not ours or too old: try again")
	case c.Type != kind:
		err = fmt.Errorf("the answer is of type %q, not %q", c.Type, kind)
	case c.Origin != at.origin || c.CrossOrigin:
		err = fmt.Errorf("the answer was made for %q, not for %q", c.Origin, at.origin)
	case len(auth) < 37 || !bytes.Equal(auth[:32], id[:]):
		err = fmt.Errorf("the passkey is not for %q", at.id)
	case auth[32]&flagPresent == 0 || auth[32]&flagVerified == 0:
		err = errors.New("the authenticator did not ask who is there: it needs a PIN, a finger or a face")
	default:
		count = binary.BigEndian.Uint32(auth[33:37])
	}
	return auth, client, count, err
}

// AddPasskey gives an account the passkey that a browser has made.
func (b *Book) AddPasskey(name string, p *Proof, origin, id string) error {
	_, _, count, err := b.checked(p, "webauthn.create", name, site{origin, id})
	if err != nil {
		return err
	}
	der, err := unb64(p.PublicKey)
	if err != nil {
		return fmt.Errorf("publicKey: %w", err)
	}
	if _, err := publicKey(der); err != nil {
		return err
	}
	if raw, err := unb64(p.ID); err != nil || len(raw) < 16 || len(raw) > 1023 {
		return errors.New("the identifier of the passkey has 16 to 1023 bytes")
	}
	key := Passkey{ID: p.ID, Name: clean(p.Name, 100), Key: der, Count: count, Created: b.now().UTC().Truncate(time.Second)}
	return b.change(func(k *accountFile) error {
		for _, a := range k.Accounts {
			if slices.ContainsFunc(a.Passkeys, func(q Passkey) bool { return q.ID == p.ID }) {
				return errors.New("this passkey is known already")
			}
		}
		i := k.at(name)
		if i < 0 {
			return ErrNone
		}
		if len(k.Accounts[i].Passkeys) >= maxPasskeys {
			return fmt.Errorf("the account has %d passkeys already", maxPasskeys)
		}
		k.Accounts[i].Passkeys = append(k.Accounts[i].Passkeys, key)
		return nil
	})
}

// EndPasskey removes a passkey from an account.
func (b *Book) EndPasskey(name, id string) error {
	return b.edit(name, func(_ *accountFile, a *Account) error {
		n := len(a.Passkeys)
		if a.Passkeys = slices.DeleteFunc(a.Passkeys, func(p Passkey) bool { return p.ID == id }); len(a.Passkeys) == n {
			return errors.New("the account has no such passkey")
		}
		return nil
	})
}

// publicKey reads a key of a kind that we offer.
func publicKey(der []byte) (crypto.PublicKey, error) {
	key, err := x509.ParsePKIXPublicKey(der)
	if err != nil {
		return nil, fmt.Errorf("the public key: %w", err)
	}
	switch k := key.(type) {
	case *ecdsa.PublicKey:
		if k.Curve.Params().Name == "P-256" {
			return key, nil
		}
	case ed25519.PublicKey:
		return key, nil
	case *rsa.PublicKey:
		if k.N.BitLen() >= 2048 {
			return key, nil
		}
	}
	return nil, errors.New("the public key is of a kind that was not offered")
}

func signed(key crypto.PublicKey, message, signature []byte) bool {
	sum := sha256.Sum256(message)
	switch k := key.(type) {
	case *ecdsa.PublicKey:
		return ecdsa.VerifyASN1(k, sum[:], signature)
	case ed25519.PublicKey:
		return ed25519.Verify(k, message, signature)
	case *rsa.PublicKey:
		return rsa.VerifyPKCS1v15(k, crypto.SHA256, sum[:], signature) == nil
	}
	return false
}

// SignInPasskey begins a session with a passkey.
func (b *Book) SignInPasskey(p *Proof, origin, id string, from Origin) (name, secret string, err error) {
	auth, client, count, err := b.checked(p, "webauthn.get", "", site{origin, id})
	if err != nil {
		return "", "", err
	}
	signature, err := unb64(p.Signature)
	if err != nil {
		return "", "", fmt.Errorf("signature: %w", err)
	}
	sum := sha256.Sum256(client)
	message := append(slices.Clone(auth), sum[:]...)
	err = b.change(func(k *accountFile) error {
		for i := range k.Accounts {
			for j := range k.Accounts[i].Passkeys {
				key := &k.Accounts[i].Passkeys[j]
				if key.ID != p.ID {
					continue
				}
				public, err := publicKey(key.Key)
				if err != nil {
					return err
				}
				if p.Handle != "" && p.Handle != k.Accounts[i].Handle || !signed(public, message, signature) {
					return ErrWrong
				}
				if count != 0 && count <= key.Count {
					return errors.New("the passkey has counted backwards: there may be a copy of it; remove it and make a new one")
				}
				key.Count, name = count, k.Accounts[i].Name
				return nil
			}
		}
		return ErrWrong
	})
	if err != nil {
		return "", "", err
	}
	secret, err = b.Begin(name, "passkey", from)
	return name, secret, err
}
