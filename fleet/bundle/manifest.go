// Package bundle takes what the gateways of a fleet decide by from one place, the desk, to all of them:
// settings, and the files beside them, such as lists, phrases, rules and texts.
//
// Data moves as follows. A [Desk] packs keys of its settings and the files that these name into a
// bundle: a [Manifest], which is signed, and one blob for each file, named by its digest. It offers
// both at a [Place]: a folder, a bucket of an object store, or its own admin address. Each node has a
// [Taker], which asks the place at intervals. It takes the bundle if the signature is that of its
// settings, the serial number is higher than that of the last one, and the share of the nodes for
// which the bundle is meant includes it. It fetches the blobs that it lacks, tries the whole, puts it
// into use, and reports what it runs by an instruction (package state). What a node cannot use changes
// nothing there.
//
// The desk reads the reports. While they are good it gives the bundle to more nodes, share by share;
// as soon as one is bad it offers the bundle before again, under a higher serial number.
package bundle

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"aead.dev/minisign"
)

// Bounds of a bundle. A manifest, and what a server sends instead of one, is read into memory.
const (
	maxManifest = 4 << 20
	maxFiles    = 10_000
	maxFile     = 256 << 20
	maxAll      = 1 << 30
	maxWords    = 500 // bytes of the version and of the reason for it
)

// SettingsName is the name of the file of a bundle that has the keys of the settings.
const SettingsName = "settings.yaml"

// Names of what a place offers.
const (
	manifestName  = "current.json"
	signatureName = manifestName + ".minisig"
	blobFolder    = "files"
)

// A Manifest says what is in a bundle, and which nodes take it.
type Manifest struct {
	Serial  uint64    `json:"serial"`  // rises with each manifest of a desk, whatever is in it
	Version string    `json:"version"` // for people
	Reason  string    `json:"reason,omitempty"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"` // nodes take it until then
	// Share is the part of the nodes that take the bundle, above 0 and at most 1. The others keep
	// what they have.
	Share float64  `json:"share"`
	Keys  []string `json:"keys"` // of the settings, on the outermost level
	Files []File   `json:"files"`
}

// A File is a file of a bundle.
type File struct {
	Name string `json:"name"` // relative to the folder of the settings, with slashes
	Size int64  `json:"size"`
	Sum  string `json:"sum"` // SHA-256 in hexadecimal digits
	// Blob is the digest of what is offered, if that is encrypted (age).
	Blob string `json:"blob,omitempty"`
}

// blob returns the name of what is offered for the file.
func (f *File) blob() string {
	if f.Blob != "" {
		return f.Blob
	}
	return f.Sum
}

// Content returns a digest of what the bundle contains. It is the same for two bundles with the same
// files and keys, whichever their serial numbers.
func (m *Manifest) Content() string {
	h := sha256.New()
	for _, k := range m.Keys {
		fmt.Fprintf(h, "key %q\n", k)
	}
	for _, f := range m.Files {
		fmt.Fprintf(h, "file %q %s\n", f.Name, f.Sum)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Takes reports whether a node is among those that take the bundle. Who takes it at one share takes it
// at every larger one.
func (m *Manifest) Takes(node string) bool { return m.Share >= 1 || rank(node) < m.Share }

// rank returns the place of a node in the order in which nodes take bundles, from 0 up to 1.
func rank(node string) float64 {
	sum := sha256.Sum256([]byte("shuultuur bundle " + node))
	return float64(binary.BigEndian.Uint64(sum[:])>>11) / (1 << 53)
}

// Sign returns the manifest as bytes, and the signature of them in minisign's format.
func (m *Manifest) Sign(key minisign.PrivateKey) (text, signature []byte, err error) {
	if err := m.check(); err != nil {
		return nil, nil, err
	}
	if text, err = jsonOf(m); err != nil {
		return nil, nil, err
	}
	if len(text) > maxManifest {
		return nil, nil, fmt.Errorf("the bundle has %d files, and its manifest %d bytes of at most %d: put lists together", len(m.Files), len(text), maxManifest)
	}
	return text, minisign.Sign(key, text), nil
}

func jsonOf(m *Manifest) ([]byte, error) {
	text, err := json.MarshalIndent(m, "", "  ")
	return append(text, '\n'), err
}

// ErrSignature reports that a manifest was not signed by the key that the settings name.
var ErrSignature = errors.New("the manifest is not signed by the key in fleet: bundles: key; if the desk has a new key, write that there")

// Open verifies a manifest and reads it.
func Open(text, signature []byte, key minisign.PublicKey) (*Manifest, error) {
	if !minisign.Verify(key, text, signature) {
		return nil, ErrSignature
	}
	m := &Manifest{}
	if err := json.Unmarshal(text, m); err != nil {
		return nil, fmt.Errorf("the manifest is not one of a bundle: %w", err)
	}
	return m, m.check()
}

// check finds mistakes in a manifest. A key that signs could still be used for a wrong one.
func (m *Manifest) check() error {
	var size int64
	seen := map[string]bool{}
	for i := range m.Files {
		f := &m.Files[i]
		size += f.Size
		switch folded := strings.ToLower(f.Name); {
		case !filepath.IsLocal(filepath.FromSlash(f.Name)) || path.Clean(f.Name) != f.Name || f.Name == "." || strings.ContainsAny(f.Name, "\\\x00:"):
			return fmt.Errorf("the bundle has a file %q, which is not below the folder of the settings", f.Name)
		case hidden(f.Name):
			return fmt.Errorf("the bundle has a file %q: names that begin with a point are not taken", f.Name)
		case seen[folded]:
			return fmt.Errorf("the bundle has two files %q", f.Name)
		case f.Size < 0 || f.Size > maxFile:
			return fmt.Errorf("%q has %d bytes, of at most %d", f.Name, f.Size, int64(maxFile))
		case !isSum(f.Sum) || f.Blob != "" && !isSum(f.Blob):
			return fmt.Errorf("%q has no digest", f.Name)
		default:
			seen[folded] = true
		}
	}
	for name := range seen {
		for at := path.Dir(name); at != "."; at = path.Dir(at) {
			if seen[at] {
				return fmt.Errorf("the bundle has %q as a file and as a folder", at)
			}
		}
	}
	switch {
	case m.Serial == 0:
		return errors.New("the bundle has no serial number")
	case math.IsNaN(m.Share) || m.Share <= 0 || m.Share > 1:
		return fmt.Errorf("the bundle is for a share of %v; write one above 0 and at most 1", m.Share)
	case !m.Expires.After(m.Created):
		return errors.New("the bundle expires before it was made")
	case len(m.Files) > maxFiles || size > maxAll:
		return fmt.Errorf("the bundle has %d files and %d bytes, of at most %d and %d", len(m.Files), size, maxFiles, int64(maxAll))
	case len(m.Version) > maxWords || len(m.Reason) > maxWords:
		return fmt.Errorf("the version and the reason have at most %d bytes each", maxWords)
	case !seen[SettingsName]:
		return fmt.Errorf("the bundle has no %s", SettingsName)
	case len(m.Keys) == 0 || slices.Contains(m.Keys, ""):
		return errors.New("the bundle says nothing about its keys of the settings")
	}
	return nil
}

func hidden(name string) bool {
	return slices.ContainsFunc(strings.Split(name, "/"), func(part string) bool { return strings.HasPrefix(part, ".") })
}

func isSum(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == sha256.Size && s == strings.ToLower(s)
}
