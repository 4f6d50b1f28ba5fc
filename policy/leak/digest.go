package leak

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"strings"
)

// Digests are the hashes of a body, computed from the bytes written to it.
type Digests struct {
	md5, sha1, sha256 hash.Hash
}

// NewDigests returns the hashes of an empty body.
func NewDigests() *Digests { return &Digests{md5.New(), sha1.New(), sha256.New()} }

// Write takes the next bytes.
func (d *Digests) Write(p []byte) (int, error) {
	_, _ = d.md5.Write(p)
	_, _ = d.sha1.Write(p)
	return d.sha256.Write(p)
}

// Is reports whether sum, in hexadecimal digits, is one of the hashes.
func (d *Digests) Is(sum string) bool {
	for _, h := range [...]hash.Hash{d.md5, d.sha1, d.sha256} {
		if len(sum) == 2*h.Size() && strings.EqualFold(sum, hex.EncodeToString(h.Sum(nil))) {
			return true
		}
	}
	return false
}
