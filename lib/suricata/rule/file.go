package rule

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// maxFile limits the bytes of a rule file, or of an unpacked member of a tarball.
const maxFile = 256 << 20

// A File is a rule file, or another file in a tarball that rules may name.
type File struct {
	Name string
	Data []byte
	// Source is the archive or fetched source that contains the file, "" for one on the disk.
	Source string
}

// Files reads a rule file, one compressed by gzip, a tarball of rule files, or a folder. From
// a tarball or folder it also returns the files that rules may name: scripts, lists and
// classification.config.
func Files(name string) ([]File, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return folder(name)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	files, err := unpack(name, data)
	if err != nil {
		return nil, fmt.Errorf("reading rules %s: %w", name, err)
	}
	return files, nil
}

func folder(name string) (files []File, err error) {
	entries, err := os.ReadDir(name)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.IsDir() || !wanted(e.Name()) {
			continue
		}
		if path.Ext(e.Name()) != ".rules" && e.Name() != "classification.config" && !e.Type().IsRegular() {
			continue // a link: it is read only if a rule names it, and then only below the folder
		}
		data, err := os.ReadFile(filepath.Join(name, e.Name()))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		files = append(files, File{Name: filepath.Join(name, e.Name()), Data: data})
	}
	return files, nil
}

// wanted reports whether a file in a tarball belongs to the rules.
func wanted(name string) bool {
	switch path.Ext(name) {
	case ".rules", ".lua", ".lst", ".list", ".json", ".csv", ".md5", ".sha1", ".sha256", ".txt":
		return true
	}
	return path.Base(name) == "classification.config" || path.Base(name) == "reference.config"
}

// unpack decompresses and unpacks data.
func unpack(name string, data []byte) ([]File, error) {
	if len(data) > maxFile {
		return nil, fmt.Errorf("the file has more than %d MiB", maxFile>>20)
	}
	if bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			return nil, err
		}
		if data, err = io.ReadAll(io.LimitReader(z, maxFile+1)); err != nil {
			return nil, err
		}
		if len(data) > maxFile {
			return nil, fmt.Errorf("the file has more than %d MiB unpacked", maxFile>>20)
		}
	}
	if len(data) < 512 || string(data[257:262]) != "ustar" {
		return []File{{Name: name, Data: data}}, nil
	}
	var files []File
	for r := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := r.Next()
		if err == io.EOF {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		if h.Typeflag != tar.TypeReg || !wanted(h.Name) || strings.HasPrefix(path.Base(h.Name), "._") {
			continue
		}
		member, err := io.ReadAll(io.LimitReader(r, maxFile))
		if err != nil {
			return nil, err
		}
		files = append(files, File{name + ":" + path.Clean(h.Name), member, name})
	}
}

// ReadFiles reads the rules in all paths. mistakes are those in single rules.
func (p *Parser) ReadFiles(paths ...string) (rules []*Rule, mistakes []*Error, err error) {
	for _, name := range paths {
		files, err := Files(name)
		if err != nil {
			return nil, nil, err
		}
		for _, f := range files {
			if len(files) > 1 && path.Ext(f.Name) != ".rules" {
				p.Beside[f.Name] = f.Data
				continue
			}
			p.Source = f.Source
			rs, ms, err := p.Read(f.Name, bytes.NewReader(f.Data))
			if err != nil {
				return nil, nil, err
			}
			rules, mistakes = append(rules, rs...), append(mistakes, ms...)
		}
	}
	return rules, mistakes, nil
}

// Unique keeps the newest revision of each rule and returns the dropped ones as mistakes.
func Unique(rules []*Rule) (kept []*Rule, dropped []*Error) {
	type id struct{ gid, sid uint32 }
	at := map[id]int{}
	for _, r := range rules {
		if r.Skip != "" {
			continue
		}
		k := id{r.GID, r.SID}
		i, ok := at[k]
		if !ok {
			at[k] = len(kept)
			kept = append(kept, r)
			continue
		}
		old := kept[i]
		if old.Rev < r.Rev {
			kept[i], r = r, old
		}
		dropped = append(dropped, &Error{File: r.File, Line: r.Line, Keyword: "sid", Err: fmt.Errorf("%d revision %d is also at %s:%d", r.SID, r.Rev, kept[i].File, kept[i].Line)})
	}
	return kept, dropped
}
