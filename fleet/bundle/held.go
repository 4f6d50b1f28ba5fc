package bundle

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"filippo.io/age"

	"shuultuur/lib/atomicfile"
)

// Dir is the folder of a node's bundles, in its data folder. What it holds is laid out like a place, so
// that other nodes can take it from here.
type Dir string

// Held is what a node remembers of the bundle that it runs.
type Held struct {
	Serial  uint64    `json:"serial"`  // the highest that was taken or refused for good: nodes go forward only
	Runs    Manifest  `json:"runs"`    // the bundle in use; its serial number is 0 if there is none
	Since   time.Time `json:"since"`   // when it was put into use
	Before  Rates     `json:"before"`  // how the node fared in the hour before
	Known   []string  `json:"known"`   // problems from before
	Refused uint64    `json:"refused"` // the serial number of a bundle that cannot be used here
	Why     string    `json:"why"`     // the reason
}

const heldName = "held.json"

// KeptIn is the name of the folder in a data folder.
const KeptIn = "bundles"

// Held reads what the node remembers. A file that is damaged is set aside, with an error.
func (d Dir) Held() (h Held, err error) {
	b, err := os.ReadFile(filepath.Join(string(d), heldName))
	if errors.Is(err, fs.ErrNotExist) {
		return h, nil
	}
	if err == nil {
		if err = json.Unmarshal(b, &h); err != nil {
			h = Held{}
			err = errors.Join(fmt.Errorf("%s: %w; the next bundle replaces it", filepath.Join(string(d), heldName), err), atomicfile.SetAside(filepath.Join(string(d), heldName)))
		}
	}
	return h, err
}

func (d Dir) keep(h *Held) error {
	b, err := json.Marshal(h)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(string(d), 0o750); err != nil {
		return err
	}
	return atomicfile.WriteBytes(filepath.Join(string(d), heldName), 0o640, b)
}

// has reports whether a blob is held, whole.
func (d Dir) has(f *File) bool {
	r, err := os.Open(d.at(f))
	if err != nil {
		return false
	}
	defer r.Close()
	h := sha256.New()
	_, err = io.Copy(h, r)
	return err == nil && sums(h, f.blob())
}

// at returns the path of a blob.
func (d Dir) at(f *File) string { return filepath.Join(string(d), blobFolder, f.blob()) }

// fetch gets a blob from a place, unless it is held. It keeps no blob with another digest than the
// manifest names.
func (d Dir) fetch(ctx context.Context, from Place, f *File) error {
	if d.has(f) {
		return nil
	}
	r, err := from.Get(ctx, blobFolder+"/"+f.blob())
	if err != nil {
		return err
	}
	defer r.Close()
	if err := os.MkdirAll(filepath.Dir(d.at(f)), 0o750); err != nil {
		return err
	}
	return atomicfile.Write(d.at(f), 0o640, func(w *os.File) error {
		h := sha256.New()
		// An encrypted file is a little longer than its content.
		n, err := io.Copy(io.MultiWriter(w, h), io.LimitReader(r, f.Size+f.Size/100+maxSeal))
		if err == nil && !sums(h, f.blob()) {
			err = fmt.Errorf("%q: %s offers something else than its manifest says (%d bytes)", f.Name, from, n)
		}
		return err
	})
}

// maxSeal bounds what encryption adds to a short file.
const maxSeal = 64 << 10

// unpack writes the files of a bundle whose blobs are held into a folder.
func (d Dir) unpack(m *Manifest, identities []age.Identity, to string) error {
	for i := range m.Files {
		f := &m.Files[i]
		file := filepath.Join(to, filepath.FromSlash(f.Name))
		if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
			return err
		}
		if err := d.unpackFile(f, identities, file); err != nil {
			return fmt.Errorf("%q of the bundle: %w", f.Name, err)
		}
	}
	return nil
}

func (d Dir) unpackFile(f *File, identities []age.Identity, file string) error {
	r, err := os.Open(d.at(f))
	if err != nil {
		return err
	}
	defer r.Close()
	var in io.Reader = r
	if f.Blob != "" {
		if len(identities) == 0 {
			return errors.New("it is encrypted; name the age identity of this node under fleet: bundles: identity")
		}
		if in, err = age.Decrypt(r, identities...); err != nil {
			return fmt.Errorf("%w; the identity under fleet: bundles: identity has to be one of the desk's recipients", err)
		}
	}
	return atomicfile.Write(file, 0o640, func(w *os.File) error {
		h := sha256.New()
		n, err := io.Copy(io.MultiWriter(w, h), io.LimitReader(in, f.Size+1))
		if err == nil && (n != f.Size || !sums(h, f.Sum)) {
			err = errors.New("its content is not what the manifest says")
		}
		return err
	})
}

func sums(h hash.Hash, want string) bool { return hex.EncodeToString(h.Sum(nil)) == want }

// clean removes blobs that none of the bundles has.
func (d Dir) clean(keep ...*Manifest) {
	used := map[string]bool{}
	for _, m := range keep {
		for i := range m.Files {
			used[m.Files[i].blob()] = true
		}
	}
	folder := filepath.Join(string(d), blobFolder)
	all, _ := os.ReadDir(folder) // what cannot be listed is not removed
	for _, e := range all {
		if !used[e.Name()] {
			_ = os.Remove(filepath.Join(folder, e.Name())) // it is tried again with the next bundle
		}
	}
}
