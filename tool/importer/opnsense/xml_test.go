package opnsense

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"

	"shuultuur/lib/charset"
)

// TestLargeFilesAreRead: the text between elements is collected once.
func TestLargeFilesAreRead(t *testing.T) {
	var list strings.Builder
	const n = 60_000
	list.WriteString("<opnsense>")
	for i := range n {
		fmt.Fprintf(&list, "<item>%d</item>\n", i)
	}
	list.WriteString("</opnsense>")
	root, err := readXML([]byte(list.String()))
	if err != nil || len(root.nodes) != 1 || len(root.nodes[0].nodes) != n || root.nodes[0].nodes[n-1].text != fmt.Sprint(n-1) {
		t.Errorf("reading %d elements: error %v", n, err)
	}
}

// TestEveryEncodingIsRead: with a declaration, a byte order mark, both, or a declaration that is no
// longer true.
func TestEveryEncodingIsRead(t *testing.T) {
	const text = "<opnsense><descr>K\u00fcche \u20ac</descr></opnsense>"
	utf16 := func(e encoding.Encoding, s string) string {
		b, err := e.NewEncoder().String(s)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for name, data := range map[string]string{
		"UTF-8":                                text,
		"UTF-8 with a mark":                    "\xEF\xBB\xBF<?xml version=\"1.0\"?>" + text,
		"windows-1252":                         "<?xml version=\"1.0\" encoding=\"windows-1252\"?>" + utf16(charmap.Windows1252, text),
		"ISO-8859-15":                          "<?xml version='1.0' encoding='iso-8859-15'?>" + utf16(charmap.ISO8859_15, text),
		"UTF-16, little":                       "\xFF\xFE" + utf16(charset.UTF16LE, "<?xml version=\"1.0\" encoding=\"UTF-16\"?>"+text),
		"UTF-16, big, without a declaration":   "\xFE\xFF" + utf16(charset.UTF16BE, text),
		"UTF-16, little, without a mark":       utf16(charset.UTF16LE, "<?xml version=\"1.0\" encoding=\"UTF-16LE\"?>"+text),
		"UTF-16, big, declared as another one": "\xFE\xFF" + utf16(charset.UTF16BE, "<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?>"+text),
	} {
		root, err := readXML([]byte(data))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if got := root.at("opnsense", "descr").text; got != "K\u00fcche \u20ac" {
			t.Errorf("%s: got %q", name, got)
		}
	}
	for name, data := range map[string]string{"an unknown encoding": "<?xml version=\"1.0\" encoding=\"x-none\"?><a/>", "half a character": "\xFF\xFE<\x00a\x00/\x00>"} {
		if root, err := readXML([]byte(data)); err == nil && len(root.nodes) != 1 {
			t.Errorf("%s: got %v and no error", name, root)
		}
	}
}
