package zone

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	miekg "github.com/miekg/dns"

	"shuultuur/lib/setting"
)

const tiny = "$TTL 60\n@ SOA ns host 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n"

func write(t testing.TB, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// address returns the A record of a name, or "".
func address(t testing.TB, z *Responder, name string) string {
	t.Helper()
	r := ask(t, z, question(name, miekg.TypeA), 512)
	if r == nil || len(r.Answer) == 0 {
		return ""
	}
	return r.Answer[0].(*miekg.A).A.String()
}

func TestFilesAreReadAgainWhenTheyChange(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "one.test.zone"), tiny+"$INCLUDE more\n")
	write(t, filepath.Join(dir, "more"), "www A 192.0.2.1\n")
	write(t, filepath.Join(dir, "two.test.zone"), tiny)
	write(t, filepath.Join(dir, "notes.txt"), "no zone")
	var log strings.Builder
	synctest.Test(t, func(t *testing.T) {
		z := NewResponder()
		f, err := NewFiles(Config{Files: []File{{Path: setting.Source(dir)}}}, "", z, nil, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- f.Run(ctx) }()
		later := func() {
			time.Sleep(3 * time.Second)
			synctest.Wait()
		}
		expect := func(what, name, want string) {
			t.Helper()
			later()
			if got := address(t, z, name); got != want {
				t.Errorf("%s: A of %s is %q, want %q", what, name, got, want)
			}
		}
		expect("at first", "www.one.test.", "192.0.2.1")
		write(t, filepath.Join(dir, "more"), "www A 192.0.2.22\n")
		expect("an included file changed", "www.one.test.", "192.0.2.22")
		write(t, filepath.Join(dir, "one.test.zone"), tiny+"www A 192.0.2.333\n")
		expect("a mistake was made", "www.one.test.", "192.0.2.22")
		if want := "one.test.zone:5: "; strings.Count(log.String(), want) != 1 {
			t.Errorf("the log does not name %q once:\n%s", want, log.String())
		}
		write(t, filepath.Join(dir, "one.test.zone"), tiny+"www A 192.0.2.4\n")
		expect("the mistake was mended", "www.one.test.", "192.0.2.4")
		write(t, filepath.Join(dir, "three.test.zone"), tiny)
		expect("a file is new", "ns.three.test.", "192.0.2.1")
		if err := os.Remove(filepath.Join(dir, "two.test.zone")); err != nil {
			t.Fatal(err)
		}
		expect("a file has gone", "ns.two.test.", "")
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestMistakesInTheSettingsOfFilesAreRefused(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "ok.test.zone"), tiny)
	ok := setting.Source(filepath.Join(dir, "ok.test.zone"))
	for _, c := range []struct {
		files []File
		want  string
	}{
		{[]File{{}}, "files[0].path: give a file or a folder"},
		{[]File{{Path: setting.Source(dir), Origin: "x.test"}}, "files[0].origin: "},
		{[]File{{Path: ok, Origin: "a..b"}}, "files[0].origin: "},
		{[]File{{Path: ok}, {Path: setting.Source(dir)}}, "files[1]: zone \"ok.test.\""},
		{[]File{{Path: ok, Clients: []netip.Prefix{netip.MustParsePrefix("10.0.0.1/8")}}}, "files[0].clients[0]: "},
		{[]File{{Path: ok}, {Path: ok, View: "inside"}}, ""},
	} {
		_, err := NewFiles(Config{Files: c.files}, "", NewResponder(), nil, slog.New(slog.DiscardHandler))
		if got := fmt.Sprint(err); c.want == "" && err != nil || !strings.HasPrefix(got, c.want) && c.want != "" {
			t.Errorf("files %v: got error %v, want %q", c.files, err, c.want)
		}
	}
}

func TestABadZoneFileStopsNoOther(t *testing.T) {
	dir, data := t.TempDir(), t.TempDir()
	bad, good := filepath.Join(dir, "bad.test.zone"), filepath.Join(dir, "good.test.zone")
	cfg := Config{Files: []File{{Path: setting.Source(dir)}}}
	start := func(previous *Files, z *Responder) *Files {
		t.Helper()
		f, err := NewFiles(cfg, data, z, previous, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	expect := func(when string, z *Responder, f *Files, want, instead string) {
		t.Helper()
		r := ask(t, z, question("www.bad.test.", miekg.TypeA), 4096)
		got := miekg.RcodeToString[r.Rcode]
		if len(r.Answer) > 0 {
			got = r.Answer[0].(*miekg.A).A.String()
		}
		if got != want || address(t, z, "www.good.test.") != "192.0.2.1" {
			t.Errorf("%s: the bad zone answers %s, want %s; the good one %q", when, got, want, address(t, z, "www.good.test."))
		}
		faults := f.Faults()
		if instead == "" && len(faults) > 0 || instead != "" && !slices.ContainsFunc(faults, func(f Fault) bool { return strings.Contains(f.String(), instead) }) {
			t.Errorf("%s: got faults %v, want one with %q", when, faults, instead)
		}
	}
	write(t, good, tiny+"www A 192.0.2.1\n")
	write(t, bad, tiny+"www A nonsense\n")

	z := NewResponder()
	f := start(nil, z)
	expect("at a first start", z, f, "SERVFAIL", "bad.test.zone:5: ")

	write(t, bad, tiny+"www A 192.0.2.7\n")
	f.round()
	f.round()
	f.keepCopies()
	expect("when it was mended", z, f, "192.0.2.7", "")

	write(t, bad, tiny+"www A nonsense again\n")
	f.round()
	f.round()
	f.keepCopies()
	expect("when it became bad", z, f, "192.0.2.7", "as it was before")
	expect("at a reload", z, start(f, z), "192.0.2.7", "as it was before")

	z = NewResponder()
	expect("at another start", z, start(nil, z), "192.0.2.7", "its last good copy, of 20")

	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	z = NewResponder()
	expect("at a start without the folder", z, start(nil, z), "192.0.2.7", "its last good copy, of 20")
}

func TestCheckNamesMistakes(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"www A 192.0.2.1\n", ""},
		{"mail MX 10 ns\n", ""},
		{"www CNAME ns\nwww A 192.0.2.1\n", "6: error: www.x.test. has a A beside its CNAME (line 5)"},
		{"www CNAME ns\nwww CNAME mail\n", "6: error: www.x.test. has more than one CNAME"},
		{"www.other. A 192.0.2.1\n", "5: warning: www.other. A is outside the zone x.test. and not served"},
		{"@ SOA ns host 9 2 3 4 5\n", "5: error: x.test. has more than one SOA"},
		{"sub SOA ns host 9 2 3 4 5\n", "5: error: sub.x.test.: an SOA record is allowed only at the origin"},
		{"sub NS ns.sub\n", "5: warning: sub.x.test. NS points at ns.sub.x.test., which lies below it and has no address: glue is missing"},
		{"sub NS ns.other\n", "5: warning: sub.x.test. NS points at ns.other.x.test., which has no address"},
		{"sub NS ns\nnet.sub NS ns\n", "6: warning: net.sub.x.test. is below the delegation of sub.x.test. (line 5)"},
		{"sub DNAME other.\nwww.sub A 192.0.2.1\n", "6: warning: www.sub.x.test. is below the DNAME"},
		{"www CNAME ns\nmail MX 10 www\n", "6: warning: mail.x.test. MX points at www.x.test., which is a CNAME"},
		{"www 10 A 192.0.2.1\nwww 20 A 192.0.2.2\n", "6: warning: www.x.test. A has a TTL of 20, and of 10 before (line 5)"},
		{"www A 192.0.2.1\nwww A 192.0.2.1\n", "6: warning: www.x.test. A is a duplicate (line 5)"},
		{"*.in A 192.0.2.1\nmail MX 10 a.in\n", ""},
	} {
		z, err := Read(strings.NewReader(tiny+c.text), "x.test.", "")
		if err != nil {
			t.Fatal(err)
		}
		z.places = slices.Clone(z.places)
		var got []string
		for _, p := range Check(z) {
			got = append(got, p.String())
		}
		if c.want == "" && len(got) > 0 || c.want != "" && (len(got) != 1 || !strings.Contains(got[0], c.want)) {
			t.Errorf("Check of %q: got\n%s\nwant %q", c.text, strings.Join(got, "\n"), c.want)
		}
	}
	z, err := Read(strings.NewReader("www 60 A 192.0.2.1\n"), "x.test.", "")
	if err != nil {
		t.Fatal(err)
	}
	if p := Check(z); len(p) != 2 || !strings.Contains(p[0].What, "no NS record") || !strings.Contains(p[1].What, "no SOA record") || !p[1].Fatal {
		t.Errorf("Check of a zone without SOA and NS: got %v", p)
	}
}
