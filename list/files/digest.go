package files

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// A DamagedError reports a file whose content is not what it was.
type DamagedError struct{ Why string }

func (e *DamagedError) Error() string { return "it is damaged: " + e.Why }

// CheckDigest returns a [DamagedError] unless the file has this SHA-256, in hexadecimal.
func CheckDigest(file, digest string) error {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return &DamagedError{"its file is gone"}
	}
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	if err != nil {
		return &DamagedError{err.Error()}
	}
	if sum := hex.EncodeToString(h.Sum(nil)); sum != digest {
		return &DamagedError{fmt.Sprintf("its %d bytes have the SHA-256 %.16s…, and it had %.16s…", n, sum, digest)}
	}
	return nil
}
