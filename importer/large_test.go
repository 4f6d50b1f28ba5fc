package importer

import (
	"fmt"
	"strings"
	"testing"
)

// TestLargeFilesAreRead: the YAML reader compares each key with each, which a file of hundreds
// of thousands of keys must not pay for, and text between XML elements is collected once.
func TestLargeFilesAreRead(t *testing.T) {
	var doc, list strings.Builder
	const n = 60_000
	list.WriteString("<opnsense>")
	for i := range n {
		fmt.Fprintf(&doc, "name%d.example: 10.0.0.1\n", i)
		fmt.Fprintf(&list, "<item>%d</item>\n", i)
	}
	list.WriteString("</opnsense>")
	var all map[string]string
	if err := loadYAML([]byte(doc.String()), &all); err != nil || len(all) != n {
		t.Errorf("reading %d keys: got %d, error %v", n, len(all), err)
	}
	if err := loadYAML([]byte("a: 1\na: 2\n"), &all); err == nil {
		t.Error("reading a short file with a key twice: got no error")
	}
	root, err := readXML([]byte(list.String()))
	if err != nil || len(root.nodes) != 1 || len(root.nodes[0].nodes) != n || root.nodes[0].nodes[n-1].text != fmt.Sprint(n-1) {
		t.Errorf("reading %d elements: error %v", n, err)
	}
}
