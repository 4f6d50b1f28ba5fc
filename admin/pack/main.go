// Pack writes the pages and all that they load into one compressed file for the
// program: the plain files are three times as large. A page stands in the folder of its subject.
//
//	go run ./admin/pack
package main

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

func main() {
	if err := pack("admin"); err != nil {
		fmt.Fprintln(os.Stderr, "packing the pages:", err)
		os.Exit(1)
	}
}

func pack(dir string) error {
	pages, err := zipped(zip.Store, nil, filepath.Join(dir, "*/*.html"))
	if err != nil {
		return err
	}
	all, err := zipped(zip.Deflate, pages, filepath.Join(dir, "web/static/*.*"), filepath.Join(dir, "web/static/vendored/[^R]*"))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "web/pages.zip"), all, 0o644)
}

// zipped returns a ZIP file of the files of patterns, and of pages as html.zip unless that is nil.
func zipped(method uint16, pages []byte, patterns ...string) ([]byte, error) {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.BestCompression) })
	add := func(name string, text []byte) error {
		w, err := z.CreateHeader(&zip.FileHeader{Name: name, Method: method}) // without a time, so that equal files give equal packs
		if err == nil {
			_, err = w.Write(text)
		}
		return err
	}
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err == nil {
				err = add(filepath.Base(file), text)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	if pages != nil {
		if err := add("html.zip", pages); err != nil {
			return nil, err
		}
	}
	err := z.Close()
	return b.Bytes(), err
}
