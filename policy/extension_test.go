package policy

import (
	"testing"

	"shuultuur/filter"
)

// A file is identified by its first bytes if neither its name nor its type
// does; a file that is not a program does not match.
func TestExtensionByFirstBytes(t *testing.T) {
	const program, archive = "MZ\x90\x00\x03\x00\x00\x00\x04", "PK\x03\x04\x14\x00\x00\x00\x08\x00"
	for _, c := range []struct{ name, typ, body, ext, want string }{
		{"program without a name", "application/octet-stream", program, "exe", "block"},
		{"program without a type", "", program, "exe", "block"},
		{"program said to be text", "text/plain", program, "exe", "block"},
		{"program to be downloaded", "application/x-download", program, "exe", "block"},
		{"archive", "binary/octet-stream", archive, "zip", "block"},
		{"archive is no program", "application/octet-stream", archive, "exe", "pass"},
		{"text", "text/plain", "plain words", "exe", "pass"},
		{"page", "", "<html>words", "exe", "pass"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newEngine(t, []Rule{{Name: "files", Action: "block", Extension: []string{c.ext}}})
			p := page{path: "/file", response: []string{"X", "y"}, body: c.body}
			if c.typ != "" {
				p.response = []string{"Content-Type", c.typ}
			}
			tr, stage := p.judge(t, e)
			if got := tr.Verdict.Action.String(); got != c.want || stage != filter.ResponseBody {
				t.Errorf("got %s at %v, want %s at the response's body", got, stage, c.want)
			}
		})
	}
}
