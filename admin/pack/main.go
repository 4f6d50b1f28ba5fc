// Pack writes the pages and all that they load into one compressed file for the
// program: the plain files are three times as large.
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
	"slices"
)

func main() {
	if err := pack("admin"); err != nil {
		fmt.Fprintln(os.Stderr, "packing the pages:", err)
		os.Exit(1)
	}
}

func pack(dir string) error {
	var files []string
	for _, kind := range []string{"*.html", "static/*.*", "static/vendored/[^R]*"} {
		some, err := filepath.Glob(filepath.Join(dir, kind))
		if err != nil {
			return err
		}
		files = append(files, some...)
	}
	slices.Sort(files)
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.BestCompression) })
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		w, err := z.CreateHeader(&zip.FileHeader{Name: filepath.Base(file), Method: zip.Deflate}) // without a time, so that equal files give equal packs
		if err == nil {
			_, err = w.Write(text)
		}
		if err != nil {
			return err
		}
	}
	if err := z.Close(); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "pages.zip"), b.Bytes(), 0o644)
}
