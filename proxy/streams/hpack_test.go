package streams

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/net/http2/hpack"
)

// TestHeaderBlocksAreReadByOthers: another HPACK decoder reads our header blocks, including the
// indexes of its static table.
func TestHeaderBlocksAreReadByOthers(t *testing.T) {
	d := hpack.NewDecoder(4096, nil)
	long := strings.Repeat("x", 70_000)
	for _, code := range []string{"200", "204", "206", "304", "400", "404", "500", "431", "503"} {
		h := headerBlock{resize: code == "200"}
		h.status(code)
		want := ":status: " + code + "\n"
		for _, u := range usualNames {
			index, name := lowerName([]byte(u.name))
			h.field(index, name, []byte("v"))
			want += strings.ToLower(u.name) + ": v\n"
		}
		for _, value := range []string{"", long[:126], long[:127], long[:128], long[:255], long} {
			index, name := lowerName([]byte("X-" + value[:min(len(value), 300)]))
			h.field(index, name, []byte(value))
			want += strings.ToLower("X-"+value[:min(len(value), 300)]) + ": " + value + "\n"
		}
		fields, err := d.DecodeFull(h.block)
		var got strings.Builder
		for _, f := range fields {
			fmt.Fprintf(&got, "%s: %s\n", f.Name, f.Value)
		}
		if err != nil || got.String() != want {
			t.Errorf("%s: got %.300q, %v; want %.300q", code, got.String(), err, want)
		}
	}
}
