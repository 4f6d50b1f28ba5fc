package opnsense

import (
	"fmt"
	"strings"
	"testing"
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
