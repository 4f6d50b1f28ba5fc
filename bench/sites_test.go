package main

import (
	"bytes"
	"strings"
	"testing"
)

// A template has the two ends of a page, cut at the beginnings of blocks; a page without a body
// or without blocks gives what it has.
func TestTemplateKeepsTheEndsOfAPage(t *testing.T) {
	long := "<html><head><style>a{}</style></head><body>" + strings.Repeat("<p>some text</p>", 100) + "<div>foot</div></body></html>"
	for _, page := range []string{long, "", "no blocks at all", "<p>one</p>", strings.Repeat("<p>x</p>", 50)} {
		before, between, after := template([]byte(page))
		if len(before)+between+len(after) != len(page) || !strings.HasPrefix(page, string(before)) || !strings.HasSuffix(page, string(after)) {
			t.Errorf("template of %.40q: %d + %d + %d of %d", page, len(before), between, len(after), len(page))
		}
	}
	before, between, after := template([]byte(long))
	if !bytes.HasSuffix(before, []byte("</p>")) || !bytes.HasPrefix(after, []byte("<p>")) || between < len(long)/2 {
		t.Errorf("cut at …%q, %d, %q…", before[len(before)-10:], between, after[:10])
	}
}
