package state

import (
	"strings"
	"testing"
)

func FuzzInstruction(f *testing.F) {
	f.Add([]byte("t\x00a\x001700000000000\x00n"), []byte(`{"topic":"t","key":"a","value":"1","at":1700000000000,"node":"n"}`))
	f.Add([]byte("t\x00\x00-1\x00"), []byte(`{"topic":"t","at":-1,"until":"2026-01-01T00:00:00Z"}`))
	f.Add([]byte("a\x00b"), []byte(`{`))
	f.Fuzz(func(t *testing.T, field, value []byte) {
		i, ok := parseInstruction(field, value)
		if !ok {
			return
		}
		if i.field() != string(field) || i.Check() != nil || i.newer(&i) {
			t.Errorf("field %q, value %q became the invalid instruction %+v", field, value, i)
		}
	})
}

func FuzzJournal(f *testing.F) {
	f.Add(`{"topic":"t","key":"a","value":"1","at":1,"node":"n","done":true}` + "\n\n" + `{"topic":` + "\n")
	f.Add(strings.Repeat("x", 100_000) + "\n" + `{"topic":"t","at":1,"node":"n"}` + "\n")
	f.Fuzz(func(t *testing.T, text string) {
		all, damaged, err := readJournal(strings.NewReader(text))
		if lines := 1 + strings.Count(text, "\n"); err != nil || len(all)+damaged > lines {
			t.Errorf("read %d instructions and %d damaged lines of %d lines, %v", len(all), damaged, lines, err)
		}
		for _, i := range all {
			if i.Check() != nil {
				t.Errorf("readJournal accepted the invalid instruction %+v", i)
			}
		}
	})
}
