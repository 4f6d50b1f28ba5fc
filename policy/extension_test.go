package policy

import (
	"strings"
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
		{"film", "application/octet-stream", "\x00\x00\x00\x18ftypisom\x00\x00\x02\x00", "mp4", "block"},
		{"song in the container of films", "application/octet-stream", "\x00\x00\x00\x18ftypM4A \x00\x00\x02\x00", "mp4", "pass"},
		{"picture in the container of films", "application/octet-stream", "\x00\x00\x00\x18ftypheic\x00\x00\x02\x00", "mp4", "pass"},
		{"newer picture in it", "", "\x00\x00\x00\x18ftypavif\x00\x00\x02\x00", "mp4", "pass"},
		{"raw picture in it", "", "\x00\x00\x00\x18ftypcrx \x00\x00\x02\x00", "mp4", "pass"},
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

func TestAnArchiveIsNotWhatIsKeptInOne(t *testing.T) {
	const archive = "PK\x03\x04\x14\x00\x00\x00\x08\x00"
	for path, want := range map[string]string{
		"/a.zip": "block", "/a": "block", "/a.bin": "block", "/a.docx": "pass", "/a.DOCX;v=1": "pass", "/a.epub?x=.zip": "pass", "/a.xpi": "pass", "/docx": "block", "/a.docx.zip": "block",
	} {
		e := newEngine(t, []Rule{{Name: "files", Action: "block", Extension: []string{"zip"}}})
		if tr, _ := (page{path: path, response: []string{"Content-Type", "application/octet-stream"}, body: archive}).judge(t, e); tr.Verdict.Action.String() != want {
			t.Errorf("%s: got %v, want %s", path, tr.Verdict.Action, want)
		}
	}
	e := newEngine(t, []Rule{{Name: "files", Action: "block", Extension: []string{"zip"}}})
	for name, want := range map[string]string{"b.docx": "pass", "b.zip": "block", "b": "block"} {
		if tr, _ := (page{path: "/download", response: []string{"Content-Disposition", "attachment; filename=" + name}, body: archive}).judge(t, e); tr.Verdict.Action.String() != want {
			t.Errorf("called %s: got %v, want %s", name, tr.Verdict.Action, want)
		}
	}
}

func TestAPageWhosePathEndsInComIsNoProgram(t *testing.T) {
	for _, c := range []struct{ path, typ, body, want string }{
		{"/sites/shop.com", "text/html; charset=utf-8", "<p>x", "pass"},
		{"/sites/shop.com", "", "<html>x", "pass"},
		{"/sites/shop.com", "application/octet-stream", "\xb4\x09\xba", "block"},
		{"/sites/shop.com", "", "\xb4\x09\xba\x00", "block"},
		{"/sites/shop.com", "text/html", "MZ\x90\x00\x03\x00\x00\x00", "pass"},
		{"/sites/setup.exe", "text/html", "<p>x", "block"},
	} {
		exts := []string{"com"}
		if strings.HasSuffix(c.path, ".exe") {
			exts = append(exts, "exe")
		}
		e := newEngine(t, []Rule{{Name: "files", Action: "block", Extension: exts}})
		p := page{path: c.path, response: []string{"X", "y"}, body: c.body}
		if c.typ != "" {
			p.response = []string{"Content-Type", c.typ}
		}
		if tr, _ := p.judge(t, e); tr.Verdict.Action.String() != c.want {
			t.Errorf("%s of type %q: got %v, want %s", c.path, c.typ, tr.Verdict.Action, c.want)
		}
	}
}
