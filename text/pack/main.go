// Pack writes the texts of all languages into one compressed file for the
// program: the plain files are five times as large.
//
//	go run ./text/pack
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/zstd"

	"shuultuur/text"
)

func main() {
	if err := pack("text"); err != nil {
		fmt.Fprintln(os.Stderr, "packing the texts:", err)
		os.Exit(1)
	}
}

func pack(dir string) error {
	all, err := text.Pack(os.DirFS(dir))
	if err != nil {
		return err
	}
	w, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithWindowSize(1<<20))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, text.Packed), w.EncodeAll(all, nil), 0o644)
}
