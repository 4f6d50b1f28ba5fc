package seal

import (
	"strings"
	"testing"
)

func TestOnlyABoxOfTheSameKeyAndPurposeOpens(t *testing.T) {
	box := func(key, purpose string) *Box {
		b, err := New([]byte(key), purpose)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	type value struct {
		Name string
		N    int
	}
	want := value{"Уlaan; \"x\"", 7}
	sealed, err := box("a key of a gateway", "login").Seal(want)
	if err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(sealed, " ;,=\"\\\r\n") {
		t.Errorf("the sealed value %q is no value of a cookie", sealed)
	}
	again, err := box("a key of a gateway", "login").Seal(want)
	if err != nil || again == sealed {
		t.Errorf("sealing a value twice gave the same result, or the error %v", err)
	}
	flipped := []byte(sealed)
	flipped[len(flipped)/2] ^= 1
	for name, tt := range map[string]struct {
		box    *Box
		sealed string
		fails  string
	}{
		"the same":        {box("a key of a gateway", "login"), sealed, ""},
		"another key":     {box("a key of another", "login"), sealed, errForeign.Error()},
		"another purpose": {box("a key of a gateway", "vote"), sealed, errForeign.Error()},
		"changed":         {box("a key of a gateway", "login"), string(flipped), "it is"},
		"cut off":         {box("a key of a gateway", "login"), sealed[:8], errDamaged.Error()},
		"not base64":      {box("a key of a gateway", "login"), "%%%", errDamaged.Error()},
		"empty":           {box("a key of a gateway", "login"), "", errDamaged.Error()},
	} {
		var got value
		err := tt.box.Open(tt.sealed, &got)
		if (err == nil) != (tt.fails == "") || err != nil && !strings.Contains(err.Error(), tt.fails) || err == nil && got != want || err != nil && got != (value{}) {
			t.Errorf("%s: Open returned %+v, %v; want an error with %q", name, got, err, tt.fails)
		}
	}
}

func FuzzOpen(f *testing.F) {
	b, err := New([]byte("a key of a gateway"), "login")
	if err != nil {
		f.Fatal(err)
	}
	f.Add("AAAA")
	f.Fuzz(func(t *testing.T, s string) {
		var v any
		if b.Open(s, &v) == nil {
			t.Errorf("Open accepts %q, which was made without the key", s)
		}
	})
}
