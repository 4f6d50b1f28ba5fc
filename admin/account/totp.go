package account

import (
	"crypto/hmac"
	"crypto/sha1"
	"crypto/subtle"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// One-time passwords by time follow RFC 6238: SHA-1, six digits, 30 s, as every authenticator
// has them. A code is valid in its step and the ones before and after it, and only once.

const (
	stepTime      = 30 // seconds
	digits        = 6
	slack         = 1 // steps that a clock may be wrong
	recoveryCodes = 8
	maxPending    = 1000
)

var b32 = base32.StdEncoding.WithPadding(base32.NoPadding)

// code returns the one-time password of a step.
func code(secret []byte, step uint64, digits int) string {
	mac := hmac.New(sha1.New, secret)
	_ = binary.Write(mac, binary.BigEndian, step) // a hash never fails
	sum := mac.Sum(nil)
	at := sum[len(sum)-1] & 15
	n := binary.BigEndian.Uint32(sum[at:]) & 0x7fffffff
	for m, i := uint32(1), 0; ; i++ {
		if i == digits {
			return fmt.Sprintf("%0*d", digits, n%m)
		}
		m *= 10
	}
}

// matches returns the step that a code is of, if it is later than the last one
// used.
func matches(secret, given string, last uint64, now time.Time) (step uint64, ok bool) {
	key, err := b32.DecodeString(secret)
	if err != nil || len(given) != digits {
		return 0, false
	}
	at := uint64(now.Unix()) / stepTime
	for s := at - slack; s <= at+slack; s++ {
		if subtle.ConstantTimeCompare([]byte(code(key, s, digits)), []byte(given)) == 1 && s > last {
			step, ok = s, true
		}
	}
	return step, ok
}

// errHasTOTP keeps somebody who finds an open session from replacing the second factor:
// ending the codes requires the password.
var errHasTOTP = errors.New("this account has one-time codes already: end them first, with the password")

// Offer makes a secret for one-time passwords, and the address that authenticators read. The
// secret counts once Confirm has seen a code of it.
func (b *Book) Offer(name, issuer string) (secret, address string, err error) {
	a, err := b.One(name)
	if err != nil {
		return "", "", err
	}
	if a.TOTP != "" {
		return "", "", errHasTOTP
	}
	raw := make([]byte, 20)
	fill(raw)
	secret = b32.EncodeToString(raw)
	b.mu.Lock()
	if len(b.pending) >= maxPending {
		clear(b.pending)
	}
	b.pending[strings.ToLower(name)] = secret
	b.mu.Unlock()
	return secret, totpAddress(secret, name, issuer), nil
}

// totpAddress is what authenticators read.
func totpAddress(secret, name, issuer string) string {
	q := url.Values{"secret": {secret}, "issuer": {issuer}, "algorithm": {"SHA1"}, "digits": {"6"}, "period": {"30"}}
	return "otpauth://totp/" + url.PathEscape(issuer+":"+name) + "?" + strings.ReplaceAll(q.Encode(), "+", "%20")
}

// Confirm takes the offered secret into use. It returns codes that replace a lost
// authenticator, each valid once.
func (b *Book) Confirm(name, given string) (codes []string, err error) {
	b.mu.Lock()
	secret := b.pending[strings.ToLower(name)]
	b.mu.Unlock()
	if secret == "" {
		return nil, errors.New("no secret was offered: begin anew")
	}
	step, ok := matches(secret, strings.TrimSpace(given), 0, b.now())
	if !ok {
		return nil, fmt.Errorf("%q is not the code of this moment; is the clock of the device right?", given)
	}
	var digests []string
	for range recoveryCodes {
		raw := make([]byte, 10)
		fill(raw)
		c := strings.ToLower(b32.EncodeToString(raw))
		codes, digests = append(codes, c), append(digests, digest(c))
	}
	err = b.edit(name, func(_ *accountFile, a *Account) error {
		if a.TOTP != "" {
			return errHasTOTP
		}
		a.TOTP, a.Step, a.Recovery = secret, step, digests
		return nil
	})
	if err == nil {
		b.mu.Lock()
		delete(b.pending, strings.ToLower(name))
		b.mu.Unlock()
	}
	return codes, err
}

// EndTOTP removes the one-time passwords of an account.
func (b *Book) EndTOTP(name string) error {
	return b.edit(name, func(_ *accountFile, a *Account) error {
		a.TOTP, a.Step, a.Recovery = "", 0, nil
		return nil
	})
}

// useCode uses up a one-time password or a recovery code of an account.
func (b *Book) useCode(name, given string) error {
	given = strings.ToLower(strings.ReplaceAll(strings.TrimSpace(given), " ", ""))
	return b.edit(name, func(_ *accountFile, a *Account) error {
		if step, ok := matches(a.TOTP, given, a.Step, b.now()); ok {
			a.Step = step
			return nil
		}
		if i := slices.Index(a.Recovery, digest(given)); i >= 0 {
			a.Recovery = slices.Delete(a.Recovery, i, i+1)
			return nil
		}
		return ErrWrong
	})
}
