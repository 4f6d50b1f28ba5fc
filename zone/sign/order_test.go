package sign

import (
	"bytes"
	"testing"

	miekg "github.com/miekg/dns"
	"pgregory.net/rapid"

	"shuultuur/lib/dns"
)

// names draws names in wire form and lower case, of all bytes, up to the
// longest there may be.
var names = rapid.Custom(func(t *rapid.T) []byte {
	alphabet := rapid.SampledFrom([]byte{0, 1, 2, '-', '0', '@', '[', '`', 'a', 'z', '{', 254, 255})
	var name []byte
	for range rapid.IntRange(1, 6).Draw(t, "labels") {
		label := rapid.SliceOfN(alphabet, 1, 63).Draw(t, "label")
		if len(name)+1+len(label) > 254 {
			break
		}
		name = append(append(name, byte(len(label))), label...)
	}
	return append(name, 0)
})

func sound(t *rapid.T, what string, name []byte) {
	text, off, err := miekg.UnpackDomainName(name, 0)
	if err != nil || off != len(name) || len(name) > 255 {
		t.Fatalf("%s: %x (%d bytes) is not a valid name: %q, %v", what, name, len(name), text, err)
	}
	folded := bytes.Clone(name)
	dns.ToLower(folded)
	if !bytes.Equal(folded, name) {
		t.Fatalf("%s: %q has upper-case letters", what, text)
	}
}

func TestNamesAroundAName(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := names.Draw(t, "name")
		key := dns.SortKey(name)
		prior, next, below := nameBefore(name), sibling(name), child(name)
		sound(t, "before", prior)
		sound(t, "sibling", next)
		sound(t, "child", below)
		if dns.SortKey(prior) >= key {
			t.Fatalf("prior name %q does not sort before %q", prior, name)
		}
		if dns.SortKey(below) <= key {
			t.Fatalf("name below %q does not sort after %q", below, name)
		}
		if dns.SortKey(next) <= key {
			t.Fatalf("next name %q does not sort after %q", next, name)
		}
		// Everything below the name sorts before its sibling.
		deep := prepend(bytes.Repeat([]byte{255}, 63), name)
		if len(deep) <= 255 && dns.SortKey(next) <= dns.SortKey(deep) {
			t.Fatalf("next name %q does not sort after a name below %q", next, name)
		}
	})
}

func TestOrderIsThatOfRFC4034(t *testing.T) {
	// Section 6.1.
	in := []string{"example.", "a.example.", "yljkjljk.a.example.", "Z.a.example.", "zABC.a.EXAMPLE.", "z.example.", `\001.z.example.`, "*.z.example.", `\200.z.example.`}
	last := ""
	for _, n := range in {
		wire, err := dns.Name(n)
		if err != nil {
			t.Fatal(err)
		}
		if key := dns.SortKey(wire); key <= last {
			t.Errorf("%s does not sort after its predecessor", n)
		} else {
			last = key
		}
	}
}

func TestTheLastLabelOfAll(t *testing.T) {
	name := prepend(bytes.Repeat([]byte{255}, 63), []byte("\x01a\x00"))
	if got := sibling(name); string(got) != "\x02a\x00\x00" {
		t.Errorf("sibling of the last name below a.: got %q", got)
	}
}
