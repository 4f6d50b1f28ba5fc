package identity

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"strconv"
	"strings"
)

// Hashes that htpasswd and crypt(3) make besides bcrypt. MD5 and SHA-1 are quick to guess by whoever
// has the file; they are read so that people keep their passwords when they come from another proxy.

// cryptAlphabet has the digits of crypt(3)'s base 64, the low bits first.
const cryptAlphabet = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// appendCrypt appends three bytes in n digits.
func appendCrypt(dst []byte, a, b, c byte, n int) []byte {
	for v := uint(a)<<16 | uint(b)<<8 | uint(c); n > 0; n, v = n-1, v>>6 {
		dst = append(dst, cryptAlphabet[v&63])
	}
	return dst
}

// A cryptHash is a hash whose text is computed again from the password and its salt.
type cryptHash struct {
	sum    string // the part behind the salt
	rounds uint64
	make   func(password []byte) []byte
}

func (h *cryptHash) matches(password []byte) bool {
	return subtle.ConstantTimeCompare(h.make(password), []byte(h.sum)) == 1
}

func (h *cryptHash) cost() uint64 { return h.rounds }

// parseSHA1 reads {SHA} and the SHA-1 in base 64.
func parseSHA1(s string) (passwordHash, error) {
	sum := strings.TrimPrefix(s, "{SHA}")
	if b, err := base64.StdEncoding.Strict().DecodeString(sum); err != nil || len(b) != sha1.Size {
		return nil, errors.New("the hash behind {SHA} is no SHA-1 in base 64")
	}
	return &cryptHash{sum, 1, func(password []byte) []byte {
		sum := sha1.Sum(password)
		return base64.StdEncoding.AppendEncode(nil, sum[:])
	}}, nil
}

// cryptParts splits $ID$SALT$SUM; the sum has size digits.
func cryptParts(s, id string, most, size int) (salt, sum string, err error) {
	salt, sum, ok := strings.Cut(strings.TrimPrefix(s, id), "$")
	if !ok || len(salt) > most || len(sum) != size || strings.Trim(sum, cryptAlphabet) != "" {
		return "", "", fmt.Errorf("a hash of this kind is %sSALT$ and %d letters, digits, dots and slashes", id, size)
	}
	return salt, sum, nil
}

// parseMD5Crypt reads the hashes that begin with $apr1$ (Apache) or $1$.
func parseMD5Crypt(s, id string) (passwordHash, error) {
	salt, sum, err := cryptParts(s, id, 8, 22)
	if err != nil {
		return nil, err
	}
	return &cryptHash{sum, 1000, func(password []byte) []byte { return md5Crypt(password, salt, id) }}, nil
}

func md5Crypt(password []byte, salt, id string) []byte {
	alternate := md5.New()
	alternate.Write(password)
	alternate.Write([]byte(salt))
	alternate.Write(password)
	sum := alternate.Sum(nil)
	first := md5.New()
	first.Write(password)
	first.Write([]byte(id + salt))
	for n := len(password); n > 0; n -= len(sum) {
		first.Write(sum[:min(n, len(sum))])
	}
	for n := len(password); n > 0; n >>= 1 {
		switch {
		case n&1 == 1:
			first.Write([]byte{0})
		default:
			first.Write(password[:1])
		}
	}
	sum = first.Sum(nil)
	for i := range 1000 {
		h := md5.New()
		writeRound(h, i, sum, password, []byte(salt))
		sum = h.Sum(nil)
	}
	var out []byte
	for i := range 5 {
		last := i + 12
		if last == 16 {
			last = 5
		}
		out = appendCrypt(out, sum[i], sum[i+6], sum[last], 4)
	}
	return appendCrypt(out, 0, 0, sum[11], 2)
}

// writeRound writes what is hashed in a round: which of password and salt depends on its number.
func writeRound(h hash.Hash, i int, sum, password, salt []byte) {
	begin, end := sum, password
	if i&1 == 1 {
		begin, end = password, sum
	}
	h.Write(begin)
	if i%3 != 0 {
		h.Write(salt)
	}
	if i%7 != 0 {
		h.Write(password)
	}
	h.Write(end)
}

// maxCryptRounds bounds the time of a comparison; crypt(3) permits a thousand times more.
const maxCryptRounds = 1_000_000

// parseSHACrypt reads the hashes of crypt(3) that begin with $5$ (SHA-256) or $6$ (SHA-512).
func parseSHACrypt(s string) (passwordHash, error) {
	id, size, digest, order := s[:3], 43, sha256.New, order256
	if id == "$6$" {
		size, digest, order = 86, sha512.New, order512
	}
	rounds, prefix := 5000, id
	if text, ok := strings.CutPrefix(s, id+"rounds="); ok {
		number, _, _ := strings.Cut(text, "$")
		n, err := strconv.Atoi(number)
		if err != nil || n < 1000 || n > maxCryptRounds {
			return nil, fmt.Errorf("%q rounds: from 1000 to %d are used", number, maxCryptRounds)
		}
		rounds, prefix = n, id+"rounds="+number+"$"
	}
	salt, sum, err := cryptParts(s, prefix, 16, size)
	if err != nil {
		return nil, err
	}
	return &cryptHash{sum, uint64(rounds), func(password []byte) []byte {
		return order(shaCrypt(password, []byte(salt), rounds, digest))
	}}, nil
}

func shaCrypt(password, salt []byte, rounds int, digest func() hash.Hash) []byte {
	sumOf := func(parts ...[]byte) []byte {
		h := digest()
		for _, p := range parts {
			h.Write(p)
		}
		return h.Sum(nil)
	}
	fill := func(sum []byte, n int) (all []byte) {
		for ; n > 0; n -= len(sum) {
			all = append(all, sum[:min(n, len(sum))]...)
		}
		return all
	}
	alternate := sumOf(password, salt, password)
	first := digest()
	first.Write(password)
	first.Write(salt)
	first.Write(fill(alternate, len(password)))
	for n := len(password); n > 0; n >>= 1 {
		if n&1 == 1 {
			first.Write(alternate)
		} else {
			first.Write(password)
		}
	}
	sum := first.Sum(nil)
	h := digest()
	for range password {
		h.Write(password)
	}
	p := fill(h.Sum(nil), len(password))
	h = digest()
	for range 16 + int(sum[0]) {
		h.Write(salt)
	}
	s := fill(h.Sum(nil), len(salt))
	for i := range rounds {
		h := digest()
		writeRound(h, i, sum, p, s)
		sum = h.Sum(nil)
	}
	return sum
}

func order256(sum []byte) (out []byte) {
	a, b, c := 0, 10, 20
	for range 10 {
		out = appendCrypt(out, sum[a], sum[b], sum[c], 4)
		a, b, c = c+1, a+1, b+1
	}
	return appendCrypt(out, 0, sum[31], sum[30], 3)
}

func order512(sum []byte) (out []byte) {
	a, b, c := 0, 21, 42
	for range 21 {
		out = appendCrypt(out, sum[a], sum[b], sum[c], 4)
		a, b, c = b+1, c+1, a+1
	}
	return appendCrypt(out, 0, 0, sum[63], 2)
}
