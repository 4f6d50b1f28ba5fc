package input

import (
	"fmt"
	"strings"
	"testing"
)

// TestLargeFilesAreRead: the YAML reader compares each key with each, which a file of hundreds
// of thousands of keys must not pay for.
func TestLargeFilesAreRead(t *testing.T) {
	var doc strings.Builder
	const n = 60_000
	for i := range n {
		fmt.Fprintf(&doc, "name%d.example: 10.0.0.1\n", i)
	}
	var all map[string]string
	if err := LoadYAML([]byte(doc.String()), &all); err != nil || len(all) != n {
		t.Errorf("reading %d keys: got %d, error %v", n, len(all), err)
	}
	if err := LoadYAML([]byte("a: 1\na: 2\n"), &all); err == nil {
		t.Error("reading a short file with a key twice: got no error")
	}
}
