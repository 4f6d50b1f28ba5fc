package body

import (
	"bytes"
	"strconv"
	"strings"
	"testing"

	"github.com/ulikunitz/xz/lzma"
)

func TestBodiesInLZMA(t *testing.T) {
	pack := func(s string) string {
		var b bytes.Buffer
		w, err := lzma.NewWriter(&b)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = w.Write([]byte(s))
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	long := strings.Repeat("purr purr ", 5000)
	for _, x := range []struct{ about, coding, sent, want string }{
		{"short", "lzma", pack("purr"), "purr"},
		{"long", "lzma", pack(long), long},
		{"in capitals", "LZMA", pack("purr"), "purr"},
		{"twice", "lzma, lzma", pack(pack("purr")), "purr"},
		{"nothing", "lzma", "", ""},
		{"nothing packed", "lzma", pack(""), pack("")},
		{"not declared", "", pack("purr"), pack("purr")},
		{"not lzma", "lzma", "plain text of a page", "plain text of a page"},
		{"a great dictionary", "lzma", "\x5d\xff\xff\xff\xff" + pack("purr")[5:], "\x5d\xff\xff\xff\xff" + pack("purr")[5:]},
	} {
		b := New(x.coding, 2, 1<<20)
		for i := range len(x.sent) { // however it is cut
			b.Write([]byte(x.sent[i : i+1]))
		}
		if got := string(b.Decoded()); got != x.want {
			t.Errorf("%s: %.40q, want %.40q", x.about, got, x.want)
		}
	}
	var text strings.Builder
	for i := range 20_000 {
		text.WriteString(strconv.Itoa(i * i))
	}
	long = text.String()
	cut := pack(long)
	b := New("lzma", 2, 1<<20)
	b.Write([]byte(cut[:len(cut)-8]))
	if got := string(b.Decoded()); !strings.HasPrefix(long, got) || len(got) < 100 {
		t.Errorf("of a truncated body %d bytes are read: %.40q", len(got), got)
	}
}
