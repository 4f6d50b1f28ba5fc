package backup

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"filippo.io/age"
)

// ageMark begins a file in the format of age.
const ageMark = "age-encryption.org/v1"

// ErrPassphrase says that a backup is encrypted.
var ErrPassphrase = errors.New("the backup is encrypted: name a file with its passphrase (-passphrase FILE)")

// leastPassphrase is the length of the shortest passphrase, in bytes.
const leastPassphrase = 12

// maxPassphrase bounds what is read for a passphrase, in bytes.
const maxPassphrase = 4096

// Passphrase returns the first line of a file, or of stdin for "-"; "" for no file.
func Passphrase(stdin io.Reader, file string) (string, error) {
	if file == "" {
		return "", nil
	}
	in := stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return "", err
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, maxPassphrase))
	if err != nil {
		return "", err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	if line = strings.TrimSuffix(line, "\r"); line == "" {
		return "", fmt.Errorf("%s has no passphrase in its first line", file)
	}
	return line, nil
}

// Encrypted calls write with a writer that encrypts with a passphrase, or with w for none.
func Encrypted(w io.Writer, passphrase string, write func(io.Writer) error) error {
	if passphrase == "" {
		return write(w)
	}
	to, err := Encrypt(w, passphrase)
	if err != nil {
		return err
	}
	if err := write(to); err != nil {
		return err
	}
	return to.Close()
}

// Encrypt returns a writer that encrypts a backup with a passphrase, in the format of age, which other
// programs read as well. Close it after the last byte.
func Encrypt(w io.Writer, passphrase string) (io.WriteCloser, error) {
	if len(passphrase) < leastPassphrase {
		return nil, fmt.Errorf("the passphrase has %d bytes: write at least %d, such as several words", len(passphrase), leastPassphrase)
	}
	to, err := age.NewScryptRecipient(passphrase)
	if err != nil {
		return nil, err
	}
	return age.Encrypt(w, to)
}

// Open returns a reader of a backup, which a passphrase decrypts if it is encrypted. Without one, an
// encrypted backup is ErrPassphrase.
func Open(r io.Reader, passphrase string) (io.Reader, error) {
	b := bufio.NewReader(r)
	if first, _ := b.Peek(len(ageMark)); !bytes.Equal(first, []byte(ageMark)) {
		return b, nil
	}
	if passphrase == "" {
		return nil, ErrPassphrase
	}
	with, err := age.NewScryptIdentity(passphrase)
	if err != nil {
		return nil, err
	}
	plain, err := age.Decrypt(b, with)
	if err != nil {
		return nil, fmt.Errorf("decrypting the backup: %w", err)
	}
	return plain, nil
}

// OpenFile opens the backup in a file, which the passphrase in the file secret decrypts (see
// [Passphrase]).
func OpenFile(name string, stdin io.Reader, secret string) (io.ReadCloser, error) {
	passphrase, err := Passphrase(stdin, secret)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	plain, err := Open(f, passphrase)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return struct {
		io.Reader
		io.Closer
	}{plain, f}, nil
}
