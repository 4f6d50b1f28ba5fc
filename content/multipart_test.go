package content

import (
	"archive/zip"
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestACodedPartOfAFormIsAlsoReadAsSent: most servers do not decode a transfer coding.
func TestACodedPartOfAFormIsAlsoReadAsSent(t *testing.T) {
	coded := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	for name, tt := range map[string]struct {
		typ, coding, body string
		want              string
		none              string // is not in the text
	}{
		"base64 that is none":     {"form-data", "base64", "bad words, plainly", " bad words plainly ", ""},
		"base64":                  {"form-data", "base64", coded("bad words in code"), " bad words in code ", ""},
		"lenient base64":          {"form-data", "base64", "!" + coded("bad words in code"), " bad words in code ", ""},
		"quoted-printable":        {"form-data", "quoted-printable", "bad wo=\r\nrds, =66ar =\r\n", " bad words far ", ""},
		"the same as it came":     {"form-data", "quoted-printable", "bad wo=\r\nrds, =66ar =\r\n", " bad wo rds 66ar ", ""},
		"long base64":             {"form-data", "base64", coded(strings.Repeat("bad words ", 5000)), " bad words bad ", " ywqgd29yzhmg"},
		"a mail":                  {"mixed", "base64", "bad words, plainly", " ", " bad words plainly "},
		"words behind each other": {"form-data", "base64", strings.Repeat("some of the bad words\r\n", 4000), " bad words some of ", ""},
	} {
		body := "--b\r\nContent-Disposition: form-data; name=f\r\nContent-Transfer-Encoding: " + tt.coding + "\r\n\r\n" + tt.body + "\r\n--b\r\nContent-Disposition: form-data; name=f\r\n\r\nlast\r\n--b--\r\n"
		for _, n := range []int{1, 7, 1000, 1 << 20} {
			var b Body
			b.Reset(Describe("multipart/"+tt.typ+"; boundary=b", ""), Limits{})
			for p := []byte(body); len(p) > 0; p = p[min(n, len(p)):] {
				b.Append(p[:min(n, len(p))])
				_ = b.Read(t.Context())
			}
			b.Finish()
			text, err := b.Text()
			if err != nil || !bytes.Contains(text, []byte(tt.want)) || tt.none != "" && bytes.Contains(text, []byte(tt.none)) || !bytes.HasSuffix(text, []byte(" last ")) || b.Unread() != AllRead {
				t.Errorf("%s in pieces of %d: error %v, unread %v, text %.200q", name, n, err, b.Unread(), text)
			}
			b.Release()
		}
	}
}

func TestACodedPartOfAFormHasALimit(t *testing.T) {
	var b Body
	b.Reset(Describe("multipart/form-data; boundary=b", ""), Limits{})
	defer b.Release()
	b.Append([]byte("--b\r\nContent-Transfer-Encoding: base64\r\n\r\n"))
	for range mostSentText / 1000 {
		b.Append([]byte(strings.Repeat("no base64, word by word. ", 50)))
		_ = b.Read(t.Context())
	}
	b.Finish()
	if text, err := b.Text(); err != nil || b.Unread() != TooLarge {
		t.Errorf("a form with too many parts: error %v, unread %v, %d bytes of text", err, b.Unread(), len(text))
	}
}

// TestATruncatedFormIsForgotten: archives are read by coroutines.
func TestATruncatedFormIsForgotten(t *testing.T) {
	var archive bytes.Buffer
	z := zip.NewWriter(&archive)
	w, err := z.CreateHeader(&zip.FileHeader{Name: "a.txt", Method: zip.Store})
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(w, strings.Repeat("words of a text ", 10000))
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	before := runtime.NumGoroutine()
	for _, coding := range []string{"binary", "quoted-printable"} {
		var b Body
		b.Reset(Describe("multipart/form-data; boundary=b", ""), Limits{})
		b.Append([]byte("--b\r\nContent-Type: application/zip\r\nContent-Transfer-Encoding: " + coding + "\r\n\r\n"))
		b.Append(archive.Bytes()[:archive.Len()/2])
		_ = b.Read(t.Context())
		b.Release()
	}
	for end := time.Now().Add(time.Minute); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines are left, there were %d", runtime.NumGoroutine(), before)
		}
	}
}

// A partNotes records the parts that a [Multipart] reports.
type partNotes struct{ b bytes.Buffer }

func (n *partNotes) Begin(fields []byte) { fmt.Fprintf(&n.b, "[%q:", fields) }
func (n *partNotes) Between()            { n.b.WriteString("<") }
func (n *partNotes) Take(p []byte)       { n.b.Write(p) }
func (n *partNotes) End()                { n.b.WriteString("]") }

// FuzzMultipart: the same parts are found however the body is divided, and little of it is
// kept.
func FuzzMultipart(f *testing.F) {
	f.Add("--b\r\nContent-Disposition: form-data; filename=x\r\n\r\nevil\r\n--b--\r\nend", "form-data", 3)
	f.Add("\n--b\nContent-Type: x\n\n\n--bb\n--b \n\n\r", "mixed", 1)
	f.Add("--b\r\nContent-Type: image/png\r\n\r\nx\r\n--b", "x-mixed-replace", 2)
	f.Fuzz(func(t *testing.T, body, typ string, size int) {
		read := func(size int) string {
			var notes partNotes
			m := NewMultipart(Describe("multipart/"+typ+"; boundary=b", ""), &notes)
			if m == nil {
				return ""
			}
			for rest := body; rest != ""; {
				k := min(size, len(rest))
				m.Write([]byte(rest[:k]))
				if rest = rest[k:]; len(m.buf) > mostFields {
					t.Fatalf("the splitter keeps %d bytes, more than its limit", len(m.buf))
				}
			}
			m.Finish()
			return notes.b.String()
		}
		if pieces, whole := read(max(1, size)), read(len(body)+1); pieces != whole {
			t.Errorf("in pieces the parts are %q, in one piece %q", pieces, whole)
		}
	})
}
