//go:build !small

package picture

import (
	"bufio"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"shuultuur/lib/atomicfile"
)

// A locked list is stored as lockedMagic, a salt of 32 bytes, and pieces of 64 KiB, each
// encrypted and authenticated with AES-256-GCM. The key is the HMAC-SHA256 of the salt with
// the gateway's key. The nonce of a piece is its number, and whether it is the last.
const (
	lockedMagic = "shuultuur locked list 1\n"
	saltBytes   = 32
	pieceBytes  = 64 << 10
)

var errForeign = errors.New("the list was locked by a gateway with another key, or the file is damaged: replace it by the original list")

// pieces encrypt and decrypt the pieces of a locked file.
type pieces struct {
	aead cipher.AEAD
	n    uint64
}

func newPieces(key, salt []byte) (*pieces, error) {
	h := hmac.New(sha256.New, key)
	h.Write([]byte("locked list\x00"))
	h.Write(salt)
	block, err := aes.NewCipher(h.Sum(nil))
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	return &pieces{aead: aead}, err
}

func (p *pieces) nonce(last bool) []byte {
	nonce := binary.BigEndian.AppendUint64(nil, p.n)
	p.n++
	if last {
		return append(nonce, 1, 0, 0, 0)
	}
	return append(nonce, 0, 0, 0, 0)
}

// A lockedReader reads a locked file.
type lockedReader struct {
	*pieces
	in    *bufio.Reader
	piece [pieceBytes + 16]byte
	left  []byte
	err   error // after left
}

// openLocked returns the decrypted content of r. locked reports whether it was encrypted.
func openLocked(r io.Reader, key []byte) (plain io.Reader, locked bool, err error) {
	in := bufio.NewReaderSize(r, pieceBytes+16+1)
	if b, _ := in.Peek(len(lockedMagic)); string(b) != lockedMagic {
		return in, false, nil
	}
	if key == nil {
		return nil, true, errors.New("the list is locked, and the gateway has no key for it")
	}
	head := make([]byte, len(lockedMagic)+saltBytes)
	if _, err := io.ReadFull(in, head); err != nil {
		return nil, true, errForeign
	}
	p, err := newPieces(key, head[len(lockedMagic):])
	return &lockedReader{pieces: p, in: in}, true, err
}

func (o *lockedReader) Read(b []byte) (int, error) {
	for len(o.left) == 0 {
		if o.err != nil {
			return 0, o.err
		}
		o.left, o.err = o.next()
	}
	n := copy(b, o.left)
	o.left = o.left[n:]
	return n, nil
}

// next decrypts the next piece. With the last one it returns io.EOF.
func (o *lockedReader) next() ([]byte, error) {
	n, err := io.ReadFull(o.in, o.piece[:])
	if err != nil && err != io.ErrUnexpectedEOF {
		return nil, errForeign // the last piece is missing
	}
	_, end := o.in.Peek(1)
	plain, err := o.aead.Open(o.piece[:0], o.nonce(end != nil), o.piece[:n], nil)
	if err != nil {
		return nil, errForeign
	}
	return plain, end
}

// lock replaces a file by an encrypted copy.
func lock(file string, key []byte) error {
	from, err := os.Open(file)
	if err != nil {
		return err
	}
	defer from.Close()
	info, err := from.Stat()
	if err != nil {
		return err
	}
	return atomicfile.Write(file, info.Mode().Perm(), func(to *os.File) error {
		salt := make([]byte, saltBytes)
		_, _ = rand.Read(salt) // cannot fail (crypto/rand)
		p, err := newPieces(key, salt)
		if err != nil {
			return err
		}
		if _, err := to.Write(append([]byte(lockedMagic), salt...)); err != nil {
			return err
		}
		in := bufio.NewReaderSize(from, pieceBytes+1)
		piece := make([]byte, pieceBytes, pieceBytes+16)
		for last := false; !last; {
			n, err := io.ReadFull(in, piece)
			if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
				return err
			}
			_, err = in.Peek(1)
			last = err != nil
			if _, err := to.Write(p.aead.Seal(piece[:0], p.nonce(last), piece[:n], nil)); err != nil {
				return err
			}
		}
		return nil
	})
}

// lockLists encrypts the files of locked lists that are not encrypted yet, and reports
// failures as problems.
func (c *Check) lockLists(key []byte) {
	for _, name := range c.names {
		l := c.lists[name]
		if !l.locked || l.sealed {
			continue
		}
		if err := lock(l.file, key); err != nil {
			c.problems = append(c.problems, fmt.Sprintf("picture list %s is locked, but its file %s could not be encrypted: %v", name, l.file, err))
		}
	}
}

// Problems returns what the operator should look at.
func (c *Check) Problems() []string { return c.problems }

// Locked returns the SHA-256 of the content of locked lists, by name. Unlike their encrypted
// files, it is the same on all nodes.
func (c *Check) Locked() map[string][32]byte {
	all := map[string][32]byte{}
	for name, l := range c.lists {
		if l.locked {
			all[name] = l.digest
		}
	}
	return all
}
