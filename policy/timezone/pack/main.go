// Pack writes the time zones that come with Go into the file that the program
// carries.
//
//	go run ./policy/timezone/pack
package main

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/andybalholm/brotli"

	"shuultuur/policy/timezone"
)

func main() {
	if err := pack(filepath.Join("policy", "timezone", timezone.Packed)); err != nil {
		fmt.Fprintln(os.Stderr, "packing time zones:", err)
		os.Exit(1)
	}
}

func pack(to string) error {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("asking Go where it is: %w", err)
	}
	z, err := zip.OpenReader(filepath.Join(strings.TrimSpace(string(root)), "lib", "time", "zoneinfo.zip"))
	if err != nil {
		return err
	}
	defer z.Close()
	names := map[string][]string{} // of each zone, by its data
	for _, f := range z.File {
		if strings.HasSuffix(f.Name, "/") {
			continue
		}
		r, err := f.Open()
		if err != nil {
			return err
		}
		data, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		names[string(data)] = append(names[string(data)], f.Name)
	}
	// Zones that resemble each other stand together, for the compressor.
	var all bytes.Buffer
	for _, data := range slices.SortedFunc(maps.Keys(names), func(a, b string) int { return strings.Compare(footer(a)+a, footer(b)+b) }) {
		fmt.Fprintln(&all, strings.Join(names[data], " "))
		all.Write(binary.BigEndian.AppendUint32(nil, uint32(len(data))))
		all.WriteString(data)
	}
	var b bytes.Buffer
	w := brotli.NewWriterLevel(&b, brotli.BestCompression)
	if _, err := w.Write(all.Bytes()); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(to, b.Bytes(), 0o644)
}

// footer is the last line of a zone's data: the rule for years to come.
func footer(data string) string {
	data = strings.TrimSuffix(data, "\n")
	return data[strings.LastIndexByte(data, '\n')+1:]
}
