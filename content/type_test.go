package content

import (
	"strings"
	"testing"
)

// TestATypeIsWhatTheLabelAndTheBytesSay: a label alone says nothing of what can be started.
func TestATypeIsWhatTheLabelAndTheBytesSay(t *testing.T) {
	png := "\x89PNG\r\n\x1a\n" + strings.Repeat("\x00", 600)
	exe := "MZ\x90\x00" + strings.Repeat("\x00", 600)
	for _, tt := range []struct {
		label, bytes string
		cut          bool // more will come
		want         bool
	}{
		{"image/png", png, false, true},
		{"image/jpeg", png, true, true}, // a picture all the same
		{"image/png", png[:20], false, true},
		{"image/png", png[:20], true, false}, // it is not known yet
		{"image/png", exe, false, false},
		{"video/mp4", exe, true, false},
		{"image/x-unknown", strings.Repeat("\x01\x02", 300), false, true},
		{"image/png", "#!/bin/sh\nrm -rf /\n", false, false},
		{"image/png", "PK\x03\x04" + strings.Repeat("\x00", 600), false, false},
		{"image/png", "<html><script>", false, false},
		{"image/png", "%PDF-1.7\n" + strings.Repeat("\x00", 600), false, false},
		{"application/octet-stream", png, false, false},
		{"", png, false, false},
	} {
		var b Body
		b.Reset(Describe(tt.label, ""), Limits{})
		b.Append([]byte(tt.bytes))
		if !tt.cut {
			b.Finish()
		}
		if got := b.Is([]string{"image/*", "video/*"}); got != tt.want {
			t.Errorf("%q with %.12q, cut %v: skipped %v, want %v", tt.label, tt.bytes, tt.cut, got, tt.want)
		}
		b.Release()
	}
}
