package document_test

import (
	"archive/zip"
	"bytes"
	"encoding/base64"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"shuultuur/content"
	"shuultuur/test/reading"
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
			var b content.Body
			b.Reset(content.Describe("multipart/"+tt.typ+"; boundary=b", ""), content.Limits{})
			for p := []byte(body); len(p) > 0; p = p[min(n, len(p)):] {
				b.Append(p[:min(n, len(p))])
				_ = b.Read(t.Context())
			}
			b.Finish()
			text, err := b.Text()
			if err != nil || !bytes.Contains(text, []byte(tt.want)) || tt.none != "" && bytes.Contains(text, []byte(tt.none)) || !bytes.HasSuffix(text, []byte(" last ")) || b.Unread() != content.AllRead {
				t.Errorf("%s in pieces of %d: error %v, unread %v, text %.200q", name, n, err, b.Unread(), text)
			}
			b.Release()
		}
	}
}

func TestACodedPartOfAFormHasALimit(t *testing.T) {
	var b content.Body
	b.Reset(content.Describe("multipart/form-data; boundary=b", ""), content.Limits{})
	defer b.Release()
	b.Append([]byte("--b\r\nContent-Transfer-Encoding: base64\r\n\r\n"))
	for range reading.Limit("mostSentText") / 1000 {
		b.Append([]byte(strings.Repeat("no base64, word by word. ", 50)))
		_ = b.Read(t.Context())
	}
	b.Finish()
	if text, err := b.Text(); err != nil || b.Unread() != content.Intricate {
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
		var b content.Body
		b.Reset(content.Describe("multipart/form-data; boundary=b", ""), content.Limits{})
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
