package charset

import "testing"

func TestToUTF8(t *testing.T) {
	if got, err := ToUTF8([]byte("\xf0\xd2"), "koi8-r"); err != nil || string(got) != "Пр" {
		t.Errorf("ToUTF8 from koi8-r returned %q, %v", got, err)
	}
	if got, err := ToUTF8([]byte("a\xffb"), "utf-8"); err != nil || string(got) != "a\uFFFDb" {
		t.Errorf("ToUTF8 of malformed UTF-8 returned %q, %v", got, err)
	}
	if _, err := ToUTF8([]byte("a"), "no such"); err == nil {
		t.Error("ToUTF8 accepts an unknown charset")
	}
}
