package source

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"golang.org/x/crypto/blake2b"
)

// Signatures of minisign and of OpenBSD's signify: a comment line, then in base64 two letters,
// the number of the key (8 bytes), and the Ed25519 signature; for minisign, then a trusted
// comment and the signature of both. "Ed" signs the content, "ED" its BLAKE2b-512.
const (
	maxSignature = 4 << 10
	maxSigned    = 64 << 20 // bytes of content signed without a digest
	numberSize   = 8
)

// A publicKey verifies signatures.
type publicKey struct {
	text   string // as it was given
	number [numberSize]byte
	key    ed25519.PublicKey
}

// parseKey reads the base64 of a public key: its second line in a key file.
func parseKey(s string) (*publicKey, error) {
	b, err := base64.StdEncoding.DecodeString(strings.TrimSpace(s))
	if err != nil || len(b) != 2+numberSize+ed25519.PublicKeySize || string(b[:2]) != "Ed" {
		return nil, fmt.Errorf("%q is not a public key of minisign or signify, which begins with RW", s)
	}
	return &publicKey{strings.TrimSpace(s), [numberSize]byte(b[2:]), ed25519.PublicKey(b[2+numberSize:])}, nil
}

// check returns why the signature is not a valid one of content.
func (k *publicKey) check(signature []byte, content *os.File) error {
	lines := bytes.Split(bytes.ReplaceAll(signature, []byte("\r"), nil), []byte("\n"))
	if len(lines) < 2 || !bytes.HasPrefix(lines[0], []byte("untrusted comment:")) {
		return errors.New("it is not a signature of minisign or signify")
	}
	b, err := base64.StdEncoding.DecodeString(string(lines[1]))
	if err != nil || len(b) != 2+numberSize+ed25519.SignatureSize {
		return errors.New("it is not a signature of minisign or signify")
	}
	kind, number, sig := string(b[:2]), b[2:2+numberSize], b[2+numberSize:]
	if !bytes.Equal(number, k.number[:]) {
		return fmt.Errorf("it is by the key %X, and the settings name %X", reversed(number), reversed(k.number[:]))
	}
	signed, err := signedData(kind, content)
	if err != nil {
		return err
	}
	if !ed25519.Verify(k.key, signed, sig) {
		return errors.New("it is not one of this content")
	}
	if comment, ok := bytes.CutPrefix(lines[min(2, len(lines)-1)], []byte("trusted comment: ")); ok {
		var global []byte
		if len(lines) > 3 {
			global, err = base64.StdEncoding.DecodeString(string(lines[3]))
		}
		if err != nil || len(global) != ed25519.SignatureSize || !ed25519.Verify(k.key, append(append([]byte(nil), sig...), comment...), global) {
			return errors.New("its comment has been changed")
		}
	}
	return nil
}

// reversed returns the number of a key as minisign prints it.
func reversed(b []byte) []byte {
	r := make([]byte, len(b))
	for i, c := range b {
		r[len(b)-1-i] = c
	}
	return r
}

func signedData(kind string, content *os.File) ([]byte, error) {
	if _, err := content.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	switch kind {
	case "ED":
		h, err := blake2b.New512(nil)
		if err == nil {
			_, err = io.Copy(h, content)
		}
		return h.Sum(nil), err
	case "Ed":
		b, err := io.ReadAll(io.LimitReader(content, maxSigned+1))
		if len(b) > maxSigned {
			return nil, fmt.Errorf("more than %d bytes have to be signed by their digest (minisign -H)", maxSigned)
		}
		return b, err
	}
	return nil, fmt.Errorf("%q is not a kind of signature", kind)
}

// verifySignature verifies content by the signature that the server offers.
func (s *Store) verifySignature(ctx context.Context, src Source, content *os.File) error {
	if src.key == nil {
		return nil
	}
	var signature []byte
	err := s.retry(ctx, func(ctx context.Context) error {
		r, err := src.request(ctx, src.Signature)
		if err != nil {
			return err
		}
		res, err := s.Client.Do(r)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		if res.StatusCode == http.StatusNotFound {
			return permanentError{errors.New("there is none")}
		}
		if err := statusError(res); err != nil {
			return err
		}
		signature, err = io.ReadAll(io.LimitReader(res.Body, maxSignature))
		return err
	})
	if err == nil {
		err = src.key.check(signature, content)
	}
	if err != nil {
		return fmt.Errorf("the signature %s: %w", src.Signature, err)
	}
	return nil
}
