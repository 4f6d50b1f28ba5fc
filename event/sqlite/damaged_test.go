package sqlite

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"shuultuur/event"
)

// A damaged record is set aside, and a new one begun: the filter starts. A file elsewhere, or one that
// is not named as a database is, may be somebody's and stays.
func TestADamagedRecordIsSetAside(t *testing.T) {
	for name, c := range map[string]struct {
		file  string
		do    func(data []byte) []byte
		aside bool
	}{
		"the head is halved": {"events.db", func(data []byte) []byte { return data[:50] }, true},
		"the first page":     {"events.db", func(data []byte) []byte { return data[:2000] }, true},
		"emptied":            {"events.db", func([]byte) []byte { return nil }, true},
		"zeros":              {"events.db", func(data []byte) []byte { return make([]byte, len(data)) }, true},
		"rubbish behind": {"events.db", func(data []byte) []byte {
			return append(bytes.Clone(data[:100]), bytes.Repeat([]byte{0xff}, len(data)-100)...)
		}, true},
		"a text":           {"events.db", func([]byte) []byte { return []byte("these are no events at all, and nobody can read them\n") }, true},
		"not named as one": {"notes.txt", func([]byte) []byte { return []byte("these are no events at all, and nobody can read them\n") }, false},
		"not damaged":      {"events.db", func(data []byte) []byte { return data }, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := event.Opening{Data: t.TempDir(), Keep: year}
			file := filepath.Join(o.Data, c.file)
			s, err := Open(filepath.Join(o.Data, "whole.db"), year)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			data, err := os.ReadFile(filepath.Join(o.Data, "whole.db"))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, c.do(data), 0o600); err != nil {
				t.Fatal(err)
			}
			look := o
			look.Trial = true
			_, checked := Path(c.file).Open(look)
			all, err := Path(c.file).Open(o)
			if (checked == nil) != (err == nil) {
				t.Errorf("check says %v, and a start %v", checked, err)
			}
			for _, s := range all {
				if err := s.Write(t.Context(), []event.Row{{Time: time.Now(), ID: "x"}}); err != nil {
					t.Error(err)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
			if (err == nil) != (c.file == "events.db") {
				t.Errorf("opening it: %v", err)
			}
			set, _ := filepath.Glob(file + ".damaged-*")
			if (len(set) == 1) != c.aside {
				t.Errorf("set aside: %q, want one: %v", set, c.aside)
			}
		})
	}
}
