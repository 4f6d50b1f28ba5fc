package data_test

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"shuultuur/content"
	"shuultuur/content/conversation"
	"shuultuur/content/data"
	"shuultuur/test/reading"
)

// cborPages are bodies and messages of CBOR that show a word.
func cborPages(t testing.TB) map[string]string {
	packed := string(reading.Gzip("some porn here"))
	long := strings.Repeat("x ", 200)
	return map[string]string{
		"a text":                     "\x64porn",
		"with letters before it":     "\xa1\x61a\x64porn",
		"in chunks":                  "\xa1\x61a\x7f\x62po\x62rn\xff",
		"chunks of one byte":         "\x7f\x61p\x61o\x61r\x61n\xff",
		"in an array without length": "\x9f\x01\x64porn\xff",
		"in a map without length":    "\xbf\x61a\xf6\x61b\x64porn\xff",
		"a name":                     "\xa1\x64porn\x01",
		"with a tag":                 "\xd9\xd9\xf7\xa1\x01\xc0\x64porn",
		"in a byte string":           "\xa1\x61a\x44porn",
		"in chunks of bytes":         "\x5f\x42po\x42rn\xff",
		"CBOR in a byte string":      "\xd8\x18\x4b\xa1\x61a\x7f\x62po\x62rn\xff",
		"JSON in a text":             "\x71{\"a\":\"p\\u006frn\"}",
		"JSON in a byte string":      "\x4c{\"a\":\"porn\"}",
		"gzip in a byte string":      "\x58" + string([]byte{byte(len(packed))}) + packed,
		"base64":                     "\x78\x18c29tZSBwb3JuIGlzIGhlcmUu",
		"behind numbers":             "\x83\xfb\x40\x09\x21\xfb\x54\x44\x2d\x18\x39\x01\xf3\x64porn",
		"a series":                   "\x01\xf6\x63the\x64porn",
		"behind a long one":          "\x82\x79\x01\x90" + long + "\x7f\x62po\x62rn\xff",
		"a length of eight bytes":    "\x7b\x00\x00\x00\x00\x00\x00\x00\x04porn",
		"deep":                       strings.Repeat("\x81", data.MostCBORDeep) + "\x7f\x62po\x62rn\xff",
	}
}

// TestStringsOfCBORAreRead: in bodies and in binary messages of conversations.
func TestStringsOfCBORAreRead(t *testing.T) {
	for name, in := range cborPages(t) {
		for _, typ := range []string{"application/cbor", "application/cbor-seq", "application/senml+cbor"} {
			got, err := reading.In(t, content.Describe(typ, ""), []byte(in), content.Limits{}, rand.New(rand.NewPCG(1, 2)))
			if err != nil || !strings.Contains(got, " porn ") {
				t.Errorf("%s as %s: %q, %v", name, typ, got, err)
			}
		}
		var w conversation.Window
		w.Add(conversation.Message{Data: []byte(in)})
		if got := w.AppendText(nil); !bytes.Contains(got, []byte(" porn ")) {
			t.Errorf("%s in a message: %q", name, got)
		}
	}
}

// FuzzCBOR: no input takes long or gives text that is not normal, and a cut body is read as it
// came.
func FuzzCBOR(f *testing.F) {
	for _, in := range cborPages(f) {
		f.Add([]byte(in))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		said := 0
		whole := data.WalkCBOR(p, 1, 0, &data.CBORWork{}, func(_ uint64, s []byte) { said += len(s) })
		if said > 0 && !whole {
			t.Fatalf("%q is no CBOR, but its strings are visited", p)
		}
		got, err := reading.In(t, content.Describe("application/cbor", ""), p, content.Limits{}, rand.New(rand.NewPCG(1, 2)))
		if err != nil {
			t.Fatal(err)
		}
		reading.CheckNormal(t, got)
		var w conversation.Window
		w.Add(conversation.Message{Data: p})
		w.AppendText(nil)
	})
}
