package markup_test

import (
	"bytes"
	"strings"
	"testing"

	"shuultuur/content"
)

// TestAHostEndsTheShadowRootsInIt: a host that is forgotten because many elements are open also
// ends the shadow roots in it, whose end tags then mean nothing.
func TestAHostEndsTheShadowRootsInIt(t *testing.T) {
	const root = "<template shadowrootmode=open>"
	for n := range 40 {
		page := "<div>" + root + "</template>" + strings.Repeat("<i hidden>", n) + "<p>" + root + strings.Repeat("<i hidden>", 40-n) + "</template></template></div> word "
		var b content.Body
		b.Reset(content.Describe("text/html; charset=utf-8", ""), content.Limits{})
		b.Append([]byte(page))
		b.Finish()
		if text, err := b.Text(); err != nil || !bytes.Contains(text, []byte(" word ")) {
			t.Errorf("with %d elements before the inner root the text is %q, %v", n, text, err)
		}
		b.Release()
	}
}
