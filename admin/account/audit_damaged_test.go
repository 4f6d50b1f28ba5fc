package account

import (
	"os"
	"path/filepath"
	"testing"
)

// An audit log that has lost its end, or all of it, is a problem, at once and after the next entry, when
// a copy says so. So is a head that is damaged, beside which entries go on.
func TestAnAuditLogThatLostItsEndIsAProblem(t *testing.T) {
	for name, c := range map[string]struct {
		file  string
		do    func(data []byte) []byte // nil deletes the file
		aside bool
	}{
		"nothing":          {auditFile, func(data []byte) []byte { return data }, false},
		"emptied":          {auditFile, func([]byte) []byte { return nil }, true},
		"deleted":          {auditFile, nil, true},
		"halved":           {auditFile, func(data []byte) []byte { return data[:len(data)/2] }, true},
		"zeros":            {auditFile, func(data []byte) []byte { return make([]byte, len(data)) }, true},
		"the head emptied": {headFile, func([]byte) []byte { return nil }, true},
		"the head halved":  {headFile, func(data []byte) []byte { return data[:len(data)/2] }, true},
		"the head deleted": {headFile, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := NewLog(t.TempDir())
			if err := l.Problem(); err != nil {
				t.Errorf("before the first entry: %v", err)
			}
			for range 3 {
				if err := l.Add(Entry{By: "anna", Action: "POST /pause"}); err != nil {
					t.Fatal(err)
				}
			}
			file := filepath.Join(l.dir, c.file)
			if c.do == nil {
				if err := os.Remove(file); err != nil {
					t.Fatal(err)
				}
			} else {
				damage(t, file, c.do)
			}
			if err := l.Problem(); (err != nil) != c.aside {
				t.Errorf("the problem is %v", err)
			}
			for range 2 {
				if err := l.Add(Entry{By: "anna", Action: "POST /pause"}); err != nil {
					t.Errorf("the next entry: %v", err)
				}
			}
			if err := l.Problem(); err != nil {
				t.Errorf("after the next entry: %v", err)
			}
			if n := aside(t, file); (n == 1) != c.aside || n > 1 {
				t.Errorf("%d files are set aside", n)
			}
			v, err := l.Verify()
			if whole := c.file == headFile || !c.aside; err != nil || (v.Broken == "") != whole {
				t.Errorf("verified: %+v, %v", v, err)
			}
		})
	}
}
