package reading

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/zlib"
	"fmt"
	"io"
	"testing"
	"unicode/utf16"
)

// Archive returns a ZIP archive of files given as name, content, name, content.
func Archive(t testing.TB, files ...string) string {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i := 0; i < len(files); i += 2 {
		w, err := z.Create(files[i])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(files[i+1])); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// PDF makes a document with one page that shows content.
func PDF(content string) string {
	return "%PDF-1.4\n1 0 obj\n<</Type/Catalog/Pages 2 0 R>>\nendobj\n2 0 obj\n<</Type/Pages/Kids[3 0 R]/Count 1/Resources<</Font<</F1 5 0 R>>>>>>\nendobj\n" +
		"3 0 obj\n<</Type/Page/Parent 2 0 R/Contents 4 0 R>>\nendobj\n4 0 obj\n" + fmt.Sprintf("<</Length %d>>", len(content)) + "\nstream\n" + content + "\nendstream\nendobj\n" +
		"5 0 obj\n<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding<</Differences[200/eacute/afii10065 /uni4E2D]>>>>\nendobj\n6 0 obj\n<</Title(The Title)>>\nendobj\ntrailer\n<</Root 1 0 R/Info 6 0 R>>\n%%EOF"
}

func Tar(t testing.TB, files ...string) string {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i := 0; i < len(files); i += 2 {
		if err := w.WriteHeader(&tar.Header{Name: files[i], Mode: 0o600, Size: int64(len(files[i+1]))}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, files[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Stored makes a ZIP archive whose members are not compressed and have their sizes in front.
func Stored(t testing.TB, method uint16, flags uint16, files ...string) string {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i := 0; i < len(files); i += 2 {
		w, err := z.CreateRaw(&zip.FileHeader{Name: files[i], Method: method, Flags: flags, CompressedSize64: uint64(len(files[i+1])), UncompressedSize64: uint64(len(files[i+1]))})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, files[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func Zlib(s string) string {
	var b bytes.Buffer
	w := zlib.NewWriter(&b)
	w.Write([]byte(s))
	w.Close()
	return b.String()
}

func UTF16(s string, be bool, bom bool) string {
	var b []byte
	u := utf16.Encode([]rune(s))
	if bom {
		u = append([]uint16{0xfeff}, u...)
	}
	for _, c := range u {
		if be {
			b = append(b, byte(c>>8), byte(c))
		} else {
			b = append(b, byte(c), byte(c>>8))
		}
	}
	return string(b)
}

func ZIP(t testing.TB, method uint16, prefix, suffix string, files ...string) string {
	var b bytes.Buffer
	b.WriteString(prefix)
	z := zip.NewWriter(&b)
	z.SetOffset(int64(len(prefix)))
	for i := 0; i < len(files); i += 2 {
		w, _ := z.CreateHeader(&zip.FileHeader{Name: files[i], Method: method})
		w.Write([]byte(files[i+1]))
	}
	z.Close()
	b.WriteString(suffix)
	return b.String()
}
