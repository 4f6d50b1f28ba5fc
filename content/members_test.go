package content

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
)

func tarOf(t testing.TB, files ...string) string {
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

// stored makes a ZIP archive whose members are not compressed and have their sizes in front.
func stored(t testing.TB, method uint16, flags uint16, files ...string) string {
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

func TestMembersOfArchivesAreRead(t *testing.T) {
	deep := "bottom"
	for range mostNested + 1 {
		deep = archive(t, "in.zip", deep)
	}
	many := make([]string, 0, 2*mostMembers+4)
	for range mostMembers + 2 {
		many = append(many, "a", "")
	}
	inner := archive(t, "word/document.xml", "<w:document xmlns:w='x'><w:p><w:t>po</w:t><w:t>rn</w:t></w:p></w:document>")
	for _, c := range []struct {
		name, typ, in, want string
		why                 Reason
	}{
		{"zip", "application/zip", archive(t, "a.txt", "plain words", "b/c.html", "<p>po<b>rn</b>"), " a txt plain words b c html porn ", AllRead},
		{"zip by its first bytes", "", archive(t, "a.txt", "plain words"), " a txt plain words ", AllRead},
		{"zip, stored", "application/x-zip-compressed", stored(t, 0, 0, "a", "plain", "b", "words"), " a plain b words ", AllRead},
		{"zip of one program", "application/zip", archive(t, "setup.exe", "MZ\x90\x00\x03porn\x00\x00"), " setup exe ", AllRead},
		{"empty zip", "application/zip", archive(t), " ", AllRead},
		{"zip in zip", "application/zip", archive(t, "x.zip", archive(t, "y.txt", "words")), " x zip y txt words ", AllRead},
		{"document in zip", "application/zip", archive(t, "x.docx", inner, "y", "z"), " x docx porn y z ", AllRead},
		{"mail in zip", "application/zip", archive(t, "x.eml", "Subject: hello\r\nContent-Transfer-Encoding: base64\r\n\r\ncG9ybg==\r\n"), " x eml hello porn ", AllRead},
		{"script in zip", "application/zip", archive(t, "x.js", "if (porn) say()"), " x js ", AllRead},
		{"zip with a password", "application/zip", stored(t, 0, 1, "a.txt", "secret", "b.txt", "more"), " a txt b txt ", Encrypted},
		{"zip of another method", "application/zip", stored(t, 93, 0, "a.txt", "secret") + "", " a txt ", UnsupportedType},
		{"zip cut off", "application/zip", stored(t, 0, 0, "a.txt", "plain words")[:40], " a txt plain ", Cut},
		{"zip without end", "application/zip", strings.Split(archive(t, "a.txt", "plain"), zipDirectory)[0], " a txt plain ", Cut},
		{"no zip", "application/zip", "PKporn", " ", Cut},
		{"too deep", "application/zip", deep, " in zip in zip in zip in zip in zip ", TooLarge},
		{"too many", "application/zip", stored(t, 0, 0, many...), " " + strings.Repeat("a ", mostMembers+1), TooLarge},
		{"tar", "application/x-tar", tarOf(t, "a.txt", "plain words", "b.html", "<p>po<b>rn</b>"), " a txt plain words b html porn ", AllRead},
		{"tar by its first bytes", "", tarOf(t, "a.txt", "plain words"), " a txt plain words ", AllRead},
		{"tar cut off", "application/x-tar", tarOf(t, "a.txt", strings.Repeat("words ", 200))[:1024], " a txt " + strings.Repeat("words ", 85) + "wo ", Cut},
		{"7z", "application/x-7z-compressed", "7z\xBC\xAF\x27\x1C\x00\x04", " ", UnsupportedType},
		{"rar by its first bytes", "", "Rar!\x1A\x07\x01\x00", " ", Cut},
		{"rar 5", "", rar5Of(0, "a b.txt", "plain words", "c.html", "<p>po<b>rn</b>"), " a b txt plain words c html porn ", AllRead},
		{"rar 5 of another method", "", rar5Of(3, "a.txt", "packed", "b.txt", "more"), " a txt b txt ", UnsupportedType},
		{"rar 5 cut off", "", strings.Split(rar5Of(0, "a.txt", "plain words"), "ds")[0], " a txt plain wor ", Cut},
		{"rar 5 with a password", "", rar5Mark + "\x00\x00\x00\x00\x03\x04\x00\x00", " ", Encrypted},
		{"rar 4", "application/vnd.rar", rar4Of(0x30, 0, "a b.txt", "plain words", "c.html", "<p>po<b>rn</b>"), " a b txt plain words c html porn ", AllRead},
		{"rar 4 of another method", "", rar4Of(0x33, 0, "a.txt", "packed"), " a txt ", UnsupportedType},
		{"rar 4 with a password", "", rar4Of(0x30, 4, "a.txt", "secret", "b", "x"), " a txt b ", Encrypted},
		{"rar 4 in Unicode", "", rar4Of(0x30, 0x200, "x\x00\x04\x54\x3F\x40\x41z", "words"), " прсz words ", AllRead},
		{"tar.gz", "application/gzip", string(encode(t, "gzip", []byte(tarOf(t, "a.txt", "plain words")))), " a txt plain words ", AllRead},
		{"text in gzip", "application/x-gzip", string(encode(t, "gzip", []byte("plain words"))), " plain words ", AllRead},
		{"zip in tar.gz", "", string(encode(t, "gzip", []byte(tarOf(t, "a.zip", archive(t, "b", "words"))))), " a zip b words ", AllRead},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b Body
			b.Reset(Describe(c.typ, ""), Limits{})
			defer b.Release()
			b.Append([]byte(c.in))
			b.Finish()
			got, err := b.Text()
			if string(got) != c.want || err != nil || b.Unread() != c.why {
				t.Errorf("the text is %.200q, %v, unread %v; want %.200q, unread %v", got, err, b.Unread(), c.want, c.why)
			}
			if b.Unread() != AllRead && !b.Archive() {
				t.Error("Archive returned false")
			}
			r := rand.New(rand.NewPCG(1, 2))
			for range 5 {
				if got, _ := readIn(t, Describe(c.typ, ""), []byte(c.in), Limits{}, r); got != c.want {
					t.Fatalf("in pieces the text is %.200q, want %.200q", got, c.want)
				}
			}
		})
	}
}

// TestArchivesAreBounded: an archive that unpacks without end costs no more than its limits.
func TestArchivesAreBounded(t *testing.T) {
	zeros := archive(t, "zeros", strings.Repeat("\x00", 8<<20))
	var files []string
	for range 40 {
		files = append(files, "x.zip", zeros)
	}
	for _, c := range []struct{ name, in string }{
		{"one member", zeros},
		{"members of members", archive(t, files...)},
		{"a size that is not true", func() string {
			p := []byte(stored(t, 0, 0, "a", "words"))
			binary.LittleEndian.PutUint32(p[18:], 1<<31)
			return string(p)
		}()},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var b Body
		b.Reset(Describe("application/zip", ""), Limits{Decoded: 16 << 20})
		b.Append([]byte(c.in))
		b.Finish()
		_ = b.Read(context.Background())
		why := b.Unread()
		b.Release()
		runtime.ReadMemStats(&after)
		if why != TooLarge && why != Cut {
			t.Errorf("%s: Unread is %v, want that a limit was reached", c.name, why)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 24<<20 {
			t.Errorf("%s: reading allocated %d bytes, want at most 24 MiB", c.name, n)
		}
	}
}

// TestArchiveIsGivenUp: an abandoned body leaves nothing running.
func TestArchiveIsGivenUp(t *testing.T) {
	in := []byte(archive(t, "x.zip", archive(t, "a.txt", strings.Repeat("plain words ", 500))))
	n := runtime.NumGoroutine()
	for range 50 {
		var b Body
		b.Reset(Describe("application/zip", ""), Limits{})
		b.Append(in[:len(in)/2])
		_ = b.Read(context.Background())
		b.Release()
	}
	if got := runtime.NumGoroutine(); got > n+5 {
		t.Errorf("%d goroutines are left, there were %d", got, n)
	}
}

// rar5Of makes an archive of names and contents with the given method in its headers.
func rar5Of(method byte, files ...string) string {
	var b strings.Builder
	block := func(p []byte) {
		b.WriteString("\x00\x00\x00\x00")
		b.Write(binary.AppendUvarint(nil, uint64(len(p))))
		b.Write(p)
	}
	b.WriteString(rar5Mark)
	block([]byte{1, 0, 0})
	for i := 0; i < len(files); i += 2 {
		name, data := files[i], files[i+1]
		p := []byte{rar5File, 2}
		p = binary.AppendUvarint(p, uint64(len(data)))
		p = append(p, 4, byte(len(data)), 0, 1, 2, 3, 4)
		p = binary.AppendUvarint(p, uint64(method)<<7)
		p = append(p, 1, byte(len(name)))
		block(append(p, name...))
		b.WriteString(data)
	}
	block([]byte{rar5End, 0, 0})
	return b.String()
}

// rar4Of is like rar5Of for the older format, with flags for each file.
func rar4Of(method byte, flags uint16, files ...string) string {
	var b strings.Builder
	block := func(typ byte, flags uint16, p []byte) {
		h := []byte{0, 0, typ}
		h = binary.LittleEndian.AppendUint16(h, flags)
		b.Write(binary.LittleEndian.AppendUint16(h, uint16(7+len(p))))
		b.Write(p)
	}
	b.WriteString(rar4Mark)
	block(rar4Main, 0, make([]byte, 6))
	for i := 0; i < len(files); i += 2 {
		name, data := files[i], files[i+1]
		p := binary.LittleEndian.AppendUint32(nil, uint32(len(data)))
		p = binary.LittleEndian.AppendUint32(p, uint32(len(data)))
		p = append(p, 2, 0, 0, 0, 0, 0, 0, 0, 0, 20, method)
		p = binary.LittleEndian.AppendUint16(p, uint16(len(name)))
		p = append(p, 0, 0, 0, 0)
		block(rar4File, flags|0x8000, append(p, name...))
		b.WriteString(data)
	}
	block(rar4End, 0, nil)
	return b.String()
}
