package web

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	_ "embed"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"regexp"
	"strings"
	"sync"
	"time"

	"shuultuur/lib/message"
)

// packed has the pages and all that they load: style sheets, scripts and the icon.
// "go run ./admin/pack" makes it.
//
//go:embed pages.zip
var packed string

// packedFiles has the files of packed by name. The pages are a ZIP file within it, which is
// compressed as a whole: they have much in common.
var packedFiles = sync.OnceValue(func() map[string]*zip.File {
	all := map[string]*zip.File{}
	open := func(text string) {
		z, err := zip.NewReader(strings.NewReader(text), int64(len(text)))
		if err != nil {
			panic(err) // a test reads them all
		}
		for _, f := range z.File {
			all[f.Name] = f
		}
	}
	open(packed)
	pages, err := unzipped(all["html.zip"])
	if err != nil {
		panic(err)
	}
	delete(all, "html.zip")
	open(string(pages))
	return all
})

// readPacked returns a file of packed.
func readPacked(name string) ([]byte, error) {
	f := packedFiles()[name]
	if f == nil {
		return nil, fmt.Errorf("pages.zip: %s: %w", name, fs.ErrNotExist)
	}
	return unzipped(f)
}

func unzipped(f *zip.File) ([]byte, error) {
	r, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

// gzipped returns a file of packed as a gzip stream (RFC 1952). It wraps the compressed bytes
// that the ZIP file has.
func gzipped(f *zip.File) ([]byte, error) {
	r, err := f.OpenRaw()
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.MultiReader(strings.NewReader("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"), r))
	return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(b, f.CRC32), uint32(f.UncompressedSize64)), err
}

// An asset is a file that pages load.
type asset struct {
	// at is its address. The address contains a digest, so that browsers may cache the file for
	// ever and never show a new page in an old style.
	at            string
	plain, zipped []byte
}

var assets = sync.OnceValues(func() (map[string]asset, error) {
	all := map[string]asset{}
	styles := map[string]*zip.File{} // they name files by their addresses: those come first
	for name, f := range packedFiles() {
		switch path.Ext(name) {
		case ".html":
			continue
		case ".css":
			styles[name] = f
			continue
		}
		plain, err := readPacked(name)
		if err != nil {
			return nil, err
		}
		zipped, err := gzipped(f)
		if err != nil {
			return nil, err
		}
		all[name] = newAsset(name, plain, zipped)
	}
	for name, f := range styles {
		plain, err := readPacked(name)
		if err != nil {
			return nil, err
		}
		named := inStyles.ReplaceAllFunc(plain, func(b []byte) []byte {
			if a := all[string(b[len(`url("`):len(b)-len(`")`)])]; a.at != "" {
				return []byte(`url("` + a.at + `")`)
			}
			return b
		})
		zipped, err := gzipped(f)
		if err == nil && !bytes.Equal(named, plain) {
			zipped, err = compressed(named)
		}
		if err != nil {
			return nil, err
		}
		all[name] = newAsset(name, named, zipped)
	}
	return all, nil
})

// inStyles matches where a style sheet names a file.
var inStyles = regexp.MustCompile(`url\("[^"]+"\)`)

func newAsset(name string, plain, zipped []byte) asset {
	sum := sha256.Sum256(plain)
	return asset{"/static/" + hex.EncodeToString(sum[:8]) + "/" + name, plain, zipped}
}

func compressed(plain []byte) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err == nil {
		_, err = z.Write(plain)
	}
	if err == nil {
		err = z.Close()
	}
	return b.Bytes(), err
}

// iconAt returns a drawing of icons.svg.
func iconAt(name string) (template.HTML, error) {
	at, err := assetAt("icons.svg")
	size := ""
	if short, ok := strings.CutSuffix(name, ".s"); ok {
		name, size = short, " s"
	}
	if turn, ok := strings.CutSuffix(name, ".turn"); ok {
		name, size = turn, size+" turn"
	}
	return template.HTML(`<svg class="icon` + size + `" aria-hidden="true"><use href="` + at + "#" + name + `"/></svg>`), err
}

// assetAt returns the address of an asset.
func assetAt(name string) (string, error) {
	all, err := assets()
	if err == nil && all[name].at == "" {
		err = fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	return all[name].at, err
}

// StaticFile serves an asset. If the address has another digest, it serves the asset uncached.
func StaticFile(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	all, err := assets()
	a, ok := all[name]
	if err != nil || !ok {
		http.NotFound(w, r)
		return
	}
	keep := "no-cache"
	if r.URL.Path == a.at {
		keep = "public, max-age=31536000, immutable"
	}
	h, b, tag := w.Header(), a.plain, path.Base(path.Dir(a.at))
	if message.AcceptsGzip([]byte(strings.Join(r.Header["Accept-Encoding"], ","))) {
		b, tag = a.zipped, tag+"-gzip"
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("Vary", "Accept-Encoding")
	h.Set("Content-Type", mime.TypeByExtension(path.Ext(name)))
	h.Set("Cache-Control", keep)
	h.Set("ETag", `"`+tag+`"`)
	h.Set("X-Content-Type-Options", "nosniff")
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(b))
}
