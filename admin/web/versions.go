package web

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"shuultuur/lib/atomicfile"
)

// Versions keeps the texts of settings that were in use, one file for each.
type Versions struct{ Dir string }

const maxVersions = 500

// stampForm makes names of files that sort by time.
const stampForm = "20060102T150405.000000Z"

// versionName matches the names of these files.
var versionName = regexp.MustCompile(`^\d{8}T\d{6}\.\d{6}Z$`)

// Names returns the identifiers, the newest first.
func (v Versions) Names() ([]string, error) {
	files, err := os.ReadDir(v.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []string
	for _, f := range files {
		if id, ok := strings.CutSuffix(f.Name(), ".json"); ok && versionName.MatchString(id) {
			all = append(all, id)
		}
	}
	slices.Sort(all)
	slices.Reverse(all)
	return all, nil
}

// One returns a version with its text.
func (v Versions) One(id string) (*Version, error) {
	if !versionName.MatchString(id) {
		return nil, fmt.Errorf("%q is not a version", id)
	}
	text, err := os.ReadFile(filepath.Join(v.Dir, id+".json"))
	if err != nil {
		return nil, fmt.Errorf("there is no version %q", id)
	}
	var x Version
	if err := json.Unmarshal(text, &x); err != nil {
		return nil, fmt.Errorf("version %q: %w", id, err)
	}
	return &x, nil
}

// All returns the versions without their texts, the newest first.
func (v Versions) All() ([]Version, error) {
	names, err := v.Names()
	if err != nil {
		return nil, err
	}
	all := []Version{}
	for _, id := range names {
		x, err := v.One(id)
		if err != nil {
			continue // it was removed, or is not ours
		}
		x.Text = ""
		all = append(all, *x)
	}
	return all, nil
}

// KeepDisk keeps the text that is on disk, unless it is the newest version.
func (v Versions) KeepDisk(text []byte) error {
	names, err := v.Names()
	if err != nil {
		return err
	}
	if len(names) > 0 {
		if x, err := v.One(names[0]); err == nil && x.Tag == Tag(text) {
			return nil
		}
	}
	return v.Add(text, "on the disk", "")
}

// Add keeps a text that is in use from now on.
func (v Versions) Add(text []byte, by, reason string) error {
	now := time.Now().UTC()
	if err := os.MkdirAll(v.Dir, 0o700); err != nil {
		return err
	}
	x := Version{ID: now.Format(stampForm), At: now, By: by, Reason: reason, Tag: Tag(text), Text: string(text)}
	out, err := json.Marshal(x)
	if err != nil {
		return err
	}
	if err := atomicfile.WriteBytes(filepath.Join(v.Dir, x.ID+".json"), 0o600, out); err != nil {
		return err
	}
	names, err := v.Names()
	if err != nil {
		return err
	}
	for _, id := range names[min(len(names), maxVersions):] {
		if err := os.Remove(filepath.Join(v.Dir, id+".json")); err != nil {
			return err
		}
	}
	return nil
}

// Erase removes the versions that name a person in their text (inText), or as author or in the
// reason (in), and returns their number; with dry it only counts them. It keeps the text in use, which
// has the tag.
func (v Versions) Erase(tag string, inText, in func(string) bool, dry bool) (n int64, err error) {
	all, err := v.Names()
	if err != nil {
		return 0, err
	}
	for _, id := range all {
		x, err := v.One(id)
		if err != nil {
			return n, err
		}
		named := inText(x.Text)
		if !named && !in(x.By+" "+x.Reason) || named && x.Tag == tag {
			continue
		}
		if !dry {
			if err := os.Remove(filepath.Join(v.Dir, id+".json")); err != nil {
				return n, err
			}
		}
		n++
	}
	return n, nil
}

// A Version is a text of settings that was in use, or is.
type Version struct {
	ID     string    `json:"id"`
	At     time.Time `json:"at"` // when it was saved, or found
	By     string    `json:"by"`
	Reason string    `json:"reason,omitempty"`
	Tag    string    `json:"tag"`
	Text   string    `json:"text,omitempty"`
}

// ErrChanged reports that the settings on the disk are others than those that were
// read.
var ErrChanged = errors.New("the settings on the disk were changed meanwhile; read them again, so that no change is lost")

// Tag is the entity tag of a text of settings.
func Tag(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:12])
}

// VersionsShown is how many versions a page shows.
const VersionsShown = 20
