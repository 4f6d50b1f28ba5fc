package document_test

import (
	"context"
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"shuultuur/content"
	"shuultuur/test/reading"
	"shuultuur/test/webpage"
)

func TestMembersOfArchivesAreRead(t *testing.T) {
	deep := "bottom"
	for range reading.Limit("mostNested") + 1 {
		deep = reading.Archive(t, "in.zip", deep)
	}
	many := make([]string, 0, 2*reading.Limit("mostMembers")+4)
	for range reading.Limit("mostMembers") + 2 {
		many = append(many, "a", "")
	}
	inner := reading.Archive(t, "word/document.xml", "<w:document xmlns:w='x'><w:p><w:t>po</w:t><w:t>rn</w:t></w:p></w:document>")
	for _, c := range []struct {
		name, typ, in, want string
		why                 content.Reason
	}{
		{"zip", "application/zip", reading.Archive(t, "a.txt", "plain words", "b/c.html", "<p>po<b>rn</b>"), " a txt plain words b c html porn ", content.AllRead},
		{"zip by its first bytes", "", reading.Archive(t, "a.txt", "plain words"), " a txt plain words ", content.AllRead},
		{"zip, stored", "application/x-zip-compressed", reading.Stored(t, 0, 0, "a", "plain", "b", "words"), " a plain b words ", content.AllRead},
		{"zip of one program", "application/zip", reading.Archive(t, "setup.exe", "MZ\x90\x00\x03porn\x00\x00"), " setup exe ", content.AllRead},
		{"empty zip", "application/zip", reading.Archive(t), " ", content.AllRead},
		{"zip in zip", "application/zip", reading.Archive(t, "x.zip", reading.Archive(t, "y.txt", "words")), " x zip y txt words ", content.AllRead},
		{"document in zip", "application/zip", reading.Archive(t, "x.docx", inner, "y", "z"), " x docx porn y z ", content.AllRead},
		{"mail in zip", "application/zip", reading.Archive(t, "x.eml", "Subject: hello\r\nContent-Transfer-Encoding: base64\r\n\r\ncG9ybg==\r\n"), " x eml hello porn ", content.AllRead},
		{"script in zip", "application/zip", reading.Archive(t, "x.js", "if (porn) say()"), " x js ", content.AllRead},
		{"zip with a password", "application/zip", reading.Stored(t, 0, 1, "a.txt", "secret", "b.txt", "more"), " a txt b txt ", content.Encrypted},
		{"zip of another method", "application/zip", reading.Stored(t, 93, 0, "a.txt", "secret") + "", " a txt ", content.UnsupportedType},
		{"zip cut off", "application/zip", reading.Stored(t, 0, 0, "a.txt", "plain words")[:40], " a txt plain ", content.Cut},
		{"zip without end", "application/zip", strings.Split(reading.Archive(t, "a.txt", "plain"), "PK\x01\x02")[0], " a txt plain ", content.Cut},
		{"no zip", "application/zip", "PKporn", " pkporn ", content.AllRead},
		{"too deep", "application/zip", deep, " in zip in zip in zip in zip in zip ", content.Intricate},
		{"too many", "application/zip", reading.Stored(t, 0, 0, many...), " " + strings.Repeat("a ", reading.Limit("mostMembers")+1), content.TooLarge},
		{"tar", "application/x-tar", reading.Tar(t, "a.txt", "plain words", "b.html", "<p>po<b>rn</b>"), " a txt plain words b html porn ", content.AllRead},
		{"tar by its first bytes", "", reading.Tar(t, "a.txt", "plain words"), " a txt plain words ", content.AllRead},
		{"tar cut off", "application/x-tar", reading.Tar(t, "a.txt", strings.Repeat("words ", 200))[:1024], " a txt " + strings.Repeat("words ", 85) + "wo ", content.Cut},

		{"rar by its first bytes", "", "Rar!\x1A\x07\x01\x00", " ", content.Cut},
		{"rar 5", "", rar5Of(0, "a b.txt", "plain words", "c.html", "<p>po<b>rn</b>"), " a b txt plain words c html porn ", content.AllRead},
		{"rar 5 of another method", "", rar5Of(3, "a.txt", "packed", "b.txt", "more"), " a txt ", content.Cut},
		{"rar 5, compressed", "", rar5Packed(0, "a.txt", "plain words", "b/c.html", "<p>po<b>rn</b>"), " a txt plain words b c html porn ", content.AllRead},
		{"rar 5, compressed behind stored", "", strings.Split(rar5Of(0, "s.txt", "stored words"), "\x00\x00\x00\x00\x03\x05\x00\x00")[0] + strings.TrimPrefix(rar5Packed(0, "a.txt", "plain words"), "Rar!\x1A\x07\x01\x00"), " s txt stored words a txt plain words ", content.AllRead},
		{"rar 5, compressed and cut", "", strings.Split(rar5Packed(0, "a.txt", "plain words"), "rds")[0], " a txt plain w ", content.Cut},
		{"rar 5, compressed, of a large window", "", rar5Packed(13, "a.txt", "plain words"), " a txt plain words ", content.AllRead},
		{"rar 5 cut off", "", strings.Split(rar5Of(0, "a.txt", "plain words"), "ds")[0], " a txt plain wor ", content.Cut},
		{"rar 5 with a password", "", "Rar!\x1A\x07\x01\x00" + "\x00\x00\x00\x00\x03\x04\x00\x00", " ", content.Encrypted},
		{"rar 4", "application/vnd.rar", rar4Of(0x30, 0, "a b.txt", "plain words", "c.html", "<p>po<b>rn</b>"), " a b txt plain words c html porn ", content.AllRead},
		{"rar 4 of another method", "", rar4Of(0x33, 0, "a.txt", "packed"), " a txt ", content.Cut},
		{"rar 4 with a password", "", rar4Of(0x30, 4, "a.txt", "secret", "b", "x"), " a txt b ", content.Encrypted},
		{"rar 4 in Unicode", "", rar4Of(0x30, 0x200, "x\x00\x04\x54\x3F\x40\x41z", "words"), " прсz words ", content.AllRead},
		{"zip with long sizes", "", zip64Of("words", true) + zip64Of("odds", false) + "PK\x05\x06" + strings.Repeat("\x00", 18), " a words a odds ", content.AllRead},
		{"zip behind a script", "application/zip", "#!/bin/sh\nexec java -jar PK\x03 $0\n" + reading.Archive(t, "a.txt", "plain words"), " a txt plain words ", content.AllRead},
		{"zip behind a long script", "application/zip", "#!" + strings.Repeat("PK\x03", 300_000) + reading.Archive(t, "a.txt", "plain words"), " a txt plain words ", content.AllRead},
		{"a script that says it is a zip", "application/zip", "#!/bin/sh\nexit\n", " bin sh exit ", content.AllRead},
		{"tar.gz", "application/gzip", string(webpage.Encode(t, "gzip", []byte(reading.Tar(t, "a.txt", "plain words")))), " a txt plain words ", content.AllRead},
		{"text in gzip", "application/x-gzip", string(webpage.Encode(t, "gzip", []byte("plain words"))), " plain words ", content.AllRead},
		{"zip in tar.gz", "", string(webpage.Encode(t, "gzip", []byte(reading.Tar(t, "a.zip", reading.Archive(t, "b", "words"))))), " a zip b words ", content.AllRead},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b content.Body
			b.Reset(content.Describe(c.typ, ""), content.Limits{})
			defer b.Release()
			b.Append([]byte(c.in))
			b.Finish()
			got, err := b.Text()
			if string(got) != c.want || err != nil || b.Unread() != c.why {
				t.Errorf("the text is %.200q, %v, unread %v; want %.200q, unread %v", got, err, b.Unread(), c.want, c.why)
			}
			if b.Unread() != content.AllRead && !b.Archive() {
				t.Error("Archive returned false")
			}
			r := rand.New(rand.NewPCG(1, 2))
			for range 5 {
				if got, _ := reading.In(t, content.Describe(c.typ, ""), []byte(c.in), content.Limits{}, r); got != c.want {
					t.Fatalf("in pieces the text is %.200q, want %.200q", got, c.want)
				}
			}
		})
	}
}

// zip64Of returns a stored member of a ZIP archive whose packed size, or both sizes, are in an extra field
// (APPNOTE.TXT 4.5.3).
func zip64Of(text string, both bool) string {
	p := []byte("PK\x03\x04" + strings.Repeat("\x00", 26) + "a\x01\x00")
	binary.LittleEndian.PutUint16(p[26:], 1)
	binary.LittleEndian.PutUint32(p[18:], 1<<32-1)
	binary.LittleEndian.PutUint32(p[22:], uint32(len(text)))
	var sizes []byte
	if both {
		binary.LittleEndian.PutUint32(p[22:], 1<<32-1)
		sizes = binary.LittleEndian.AppendUint64(sizes, uint64(len(text)))
	}
	sizes = binary.LittleEndian.AppendUint64(sizes, uint64(len(text)))
	p = append(binary.LittleEndian.AppendUint16(p, uint16(len(sizes))), sizes...)
	binary.LittleEndian.PutUint16(p[28:], uint16(len(sizes)+4))
	return string(p) + text
}

// TestArchivesAreBounded: an archive that unpacks without end costs no more than its limits.
func TestArchivesAreBounded(t *testing.T) {
	zeros := reading.Archive(t, "zeros", strings.Repeat("\x00", 32<<20))
	var files []string
	for range 40 {
		files = append(files, "x.zip", zeros)
	}
	for _, c := range []struct{ name, in string }{
		{"one member", zeros},
		{"members of members", reading.Archive(t, files...)},
		{"a size that is not true", func() string {
			p := []byte(reading.Stored(t, 0, 0, "a", "words"))
			binary.LittleEndian.PutUint32(p[18:], 1<<31)
			return string(p)
		}()},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var b content.Body
		b.Reset(content.Describe("application/zip", ""), content.Limits{Decoded: 16 << 20})
		b.Append([]byte(c.in))
		b.Finish()
		_ = b.Read(context.Background())
		why := b.Unread()
		b.Release()
		runtime.ReadMemStats(&after)
		if why != content.TooLarge && why != content.Bomb && why != content.Cut {
			t.Errorf("%s: Unread is %v, want that a limit was reached", c.name, why)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 24<<20 {
			t.Errorf("%s: reading allocated %d bytes, want at most 24 MiB", c.name, n)
		}
	}
}

// TestArchiveIsGivenUp: an abandoned body leaves nothing running.
func TestArchiveIsGivenUp(t *testing.T) {
	in := []byte(reading.Archive(t, "x.zip", reading.Archive(t, "a.txt", strings.Repeat("plain words ", 500))))
	n := runtime.NumGoroutine()
	for range 50 {
		var b content.Body
		b.Reset(content.Describe("application/zip", ""), content.Limits{})
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
	b.WriteString("Rar!\x1A\x07\x01\x00")
	block([]byte{1, 0, 0})
	for i := 0; i < len(files); i += 2 {
		name, data := files[i], files[i+1]
		p := []byte{2, 2}
		p = binary.AppendUvarint(p, uint64(len(data)))
		p = append(p, 4, byte(len(data)), 0, 1, 2, 3, 4)
		p = binary.AppendUvarint(p, uint64(method)<<7)
		p = append(p, 1, byte(len(name)))
		block(append(p, name...))
		b.WriteString(data)
	}
	block([]byte{5, 0, 0})
	return b.String()
}

// rar5Packed makes an archive of names and contents that are compressed: each byte is a literal, with
// the code of eight bits that is the byte itself. window is the size of the window, as a power of two
// times 128 KiB.
func rar5Packed(window int, files ...string) string {
	var b strings.Builder
	block := func(p []byte) {
		p = append(binary.AppendUvarint(nil, uint64(len(p))), p...)
		b.Write(binary.LittleEndian.AppendUint32(nil, crc32.ChecksumIEEE(p)))
		b.Write(p)
	}
	b.WriteString("Rar!\x1A\x07\x01\x00")
	block([]byte{1, 0, 0})
	for i := 0; i < len(files); i += 2 {
		name, text := files[i], files[i+1]
		var bits []byte // one each
		put := func(v, n int) {
			for n--; n >= 0; n-- {
				bits = append(bits, byte(v>>n&1))
			}
		}
		for symbol := range 20 { // lengths of the codes for lengths: 0 for a length of 8, 1 for many of 0
			if symbol == 8 || symbol == 19 {
				put(1, 4)
			} else {
				put(0, 4)
			}
		}
		put(0, 256)
		put(1, 1)
		put(138-11, 7)
		put(1, 1)
		put(430-256-138-11, 7)
		for _, c := range []byte(text) {
			put(int(c), 8)
		}
		used := (len(bits)+7)%8 + 1
		var data []byte
		for len(bits) > 0 {
			c := byte(0)
			for k := range 8 {
				if k < len(bits) {
					c |= bits[k] << (7 - k)
				}
			}
			data, bits = append(data, c), bits[min(8, len(bits)):]
		}
		flags := byte(0x80 | 0x40 | 1<<3 | (used - 1))
		size := len(data)
		data = append([]byte{flags, 0x5A ^ flags ^ byte(size) ^ byte(size>>8), byte(size), byte(size >> 8)}, data...)
		p := []byte{2, 2}
		p = binary.AppendUvarint(p, uint64(len(data)))
		p = append(p, 4)
		p = binary.AppendUvarint(p, uint64(len(text)))
		p = append(p, 0)
		p = binary.LittleEndian.AppendUint32(p, crc32.ChecksumIEEE([]byte(text)))
		p = binary.AppendUvarint(p, uint64(3<<7|window<<10))
		p = append(p, 1, byte(len(name)))
		block(append(p, name...))
		b.Write(data)
	}
	block([]byte{5, 0, 0})
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
	b.WriteString("Rar!\x1A\x07\x00")
	block(0x73, 0, make([]byte, 6))
	for i := 0; i < len(files); i += 2 {
		name, data := files[i], files[i+1]
		p := binary.LittleEndian.AppendUint32(nil, uint32(len(data)))
		p = binary.LittleEndian.AppendUint32(p, uint32(len(data)))
		p = append(p, 2, 0, 0, 0, 0, 0, 0, 0, 0, 20, method)
		p = binary.LittleEndian.AppendUint16(p, uint16(len(name)))
		p = append(p, 0, 0, 0, 0)
		block(0x74, flags|0x8000, append(p, name...))
		b.WriteString(data)
	}
	block(0x7B, 0, nil)
	return b.String()
}
