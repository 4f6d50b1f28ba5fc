package element

import (
	"encoding/binary"
	"strings"
	"testing"
)

func TestElementsAreFoundByTheirLetters(t *testing.T) {
	for name, want := range map[string]Kind{
		"p": Block, "b": Inline, "script": Script, "blockquote": Block, "foreignobject": HTMLIn, "img": Word, "svg": Foreign, "template": Aside, "nothing": Unknown, "": Unknown,
	} {
		key, more := Letters(name)
		if got := Find(key, more); got.Kind != want || got != Named(name) {
			t.Errorf("%q is of kind %d, want %d", name, got.Kind, want)
		}
	}
	if Longer().Kind != Unknown {
		t.Error("an element with a long name is known")
	}
	for name, want := range map[string]bool{"br": true, "link": true, "map": false, "picture": false, "p": false} {
		if got := IsVoid(Named(name)); got != want {
			t.Errorf("%s has no content: %v, want %v", name, got, want)
		}
	}
}

func TestAttributesMeanWhatTheirElementSays(t *testing.T) {
	for _, c := range []struct {
		kind Kind
		name string
		want AttrKind
	}{
		{Block, "title", AttrTitle}, {Block, "TITLE", AttrTitle}, {Meta, "content", AttrMaybe}, {Block, "content", AttrNone}, {Inline, "href", AttrURL},
		{Inline, "aria-Label", AttrMore}, {Inline, "aria-nothing", AttrNone}, {Meta, "class", AttrNone}, {Block, "class", AttrClass}, {Aside, "shadowrootmode", attrType},
	} {
		if got := Attribute(c.kind, []byte(c.name)); got != c.want {
			t.Errorf("%s of kind %d means %d, want %d", c.name, c.kind, got, c.want)
		}
	}
	if !AttrTitle.IsText() || AttrURL.IsText() {
		t.Error("a title is text, a URL is not")
	}
	for which, want := range map[string][2]bool{"description": {true, false}, "password": {false, false}, "submit": {false, true}} {
		if got := [2]bool{Wanted(Meta, []byte(which)), Wanted(Input, []byte(which))}; got != want {
			t.Errorf("%s is wanted of meta and input: %v, want %v", which, got, want)
		}
	}
}

func TestNamesAreComparedInLowerCase(t *testing.T) {
	if Hash('.', []byte("Ab")) != Hash('.', []byte("aB")) || Hash('.', []byte("ab")) == Hash('#', []byte("ab")) {
		t.Error("the hash of a name depends on its case, or not on its mark")
	}
	for c := range 256 {
		p := []byte(strings.Repeat(string([]byte{byte(c)}), 8))
		low := binary.LittleEndian.AppendUint64(nil, LowerEight(binary.LittleEndian.Uint64(p)))
		want := byte(c)
		if c >= 'A' && c <= 'Z' {
			want += 32
		}
		if low[0] != want || low[7] != want {
			t.Errorf("byte %x becomes %x", c, low)
		}
	}
}
