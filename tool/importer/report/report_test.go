package report

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func at(n *Note, file string, line int, what string) *Note {
	n.Place, n.What = Place{File: file, Line: line}, what
	return n
}

func TestARowSaysWhatBecomesOfAValue(t *testing.T) {
	table := Rows(
		Row[*int, string]{Keys: "port listen", Standard: []string{"3128", ""}, Take: func(c *int, v string) *Note { *c += len(v); return Same("listen.proxy") }},
		Row[*int, string]{Keys: "spare", Note: None("nobody needs it")},
		Row[*int, string]{Keys: "silent"},
	)
	taken := 0
	for _, tt := range []struct {
		key, value, kind, why string
	}{
		{"port", "8080", "Carried over", ""}, {"listen", "80", "Carried over", ""},
		{"port", "3128", "Was at its default", ""}, {"port", "", "Was at its default", ""},
		{"spare", "x", "Lost, and what to do", "nobody needs it"}, {"silent", "x", "", ""}, {"unknown", "x", "", ""},
	} {
		n := table[tt.key].Convert(&taken, tt.value, tt.value)
		if tt.kind == "" {
			if n != nil {
				t.Errorf("%s %s: %v, want no note", tt.key, tt.value, n)
			}
			continue
		}
		if n == nil || n.Kind.String() != tt.kind || n.Why != tt.why {
			t.Errorf("%s %s: %+v, want %s: %s", tt.key, tt.value, n, tt.kind, tt.why)
		}
	}
	if taken != len("8080")+len("80") {
		t.Errorf("%d bytes were converted", taken)
	}
	first, second := table["spare"].Convert(&taken, "a", "a"), table["spare"].Convert(&taken, "b", "b")
	if at(first, "a.conf", 1, "spare"); second.File != "" {
		t.Error("two notes of a row share their place")
	}
	if Needless("why").Kind != Default || Differs("a", "b").Kind != Changed || ByHand("a", "b").Ours != "a" {
		t.Error("a note is of another kind")
	}
}

func sample() *Report {
	r := &Report{Program: "squid", Version: "5.7", From: "/etc/squid", Lines: 10, Entries: 7, Refused: 2, Duplicates: 1, Demands: []string{"Clients sign in."}}
	for _, n := range []*Note{
		at(Same("listen.proxy"), "squid.conf", 1, "http_port"),
		at(Differs("cache.memory", "rounded"), "squid.conf", 2, "cache_mem"),
		at(None("there is <no> parent"), "squid.conf", 3, "cache_peer"),
		at(&Note{Kind: Line, Why: "shadowed", Mend: "a.example"}, "bad.acl", 4, "b.a.example"),
		at(&Note{Kind: Empty}, "empty.acl", 0, "list"),
		at(Needless(""), "squid.conf", 5, "icon_directory"),
	} {
		r.Add(n)
	}
	return r
}

// A report begins with what an import opens and closes.
func TestAReportBeginsWithWhatIsOpened(t *testing.T) {
	r := &Report{Program: "squid"}
	r.Add(at(None("nothing has to be done"), "squid.conf", 1, "icon_directory"))
	text := func() string {
		var b strings.Builder
		if err := r.Text(&b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	if got := text(); !strings.Contains(got, "Allowed now, and refused before: nothing\n") || !strings.Contains(got, "Refused now, and allowed before: nothing\n") {
		t.Errorf("of an import that changes nothing:\n%s", got)
	}
	r.Add(at(None("the helper is <not> asked").Closing(), "squid.conf", 3, "http_access allow x"))
	for range MaxNotes + 5 {
		r.Add(at(Differs("rules", "its names are not known").Opening(), "squid.conf", 2, "acl y"))
	}
	got := text()
	opened, closed, lost := strings.Index(got, "Allowed now, and refused before (2005):\n    squid.conf:2: acl y"), strings.Index(got, "Refused now, and allowed before (1):\n    squid.conf:3"), strings.Index(got, "Lost, and what to do")
	if opened < 0 || closed < opened || lost < closed || !strings.Contains(got, "    … and 5 more\n") {
		t.Errorf("opened at %d, closed at %d, lost at %d:\n%.3000s", opened, closed, lost, got)
	}
	if r.Opened.Count != MaxNotes+5 || len(r.Opened.Notes) != MaxNotes || r.Closed.Count != 1 {
		t.Errorf("%d opened, %d kept, %d closed", r.Opened.Count, len(r.Opened.Notes), r.Closed.Count)
	}
	var html strings.Builder
	if err := r.HTML(&html); err != nil || !strings.Contains(html.String(), "<li>squid.conf:3: http_access allow x: the helper is &lt;not&gt; asked</li>") {
		t.Errorf("the page: %v\n%.2000s", err, html.String())
	}
}

func TestAReportIsWrittenByKind(t *testing.T) {
	dir := t.TempDir()
	if err := sample().Write(dir); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{
		"report.txt": {"Import of squid 5.7 from /etc/squid", "2 options carried over, 1 of them with a difference, 1 not; 10 lines of lists gave 7 entries, 2 refused, 1 twice, 1 to look at",
			"Clients sign in.", "squid.conf:3: cache_peer: there is <no> parent", "squid.conf:2: cache_mem → cache.memory: rounded", "bad.acl:4: b.a.example: shadowed; write a.example", "empty.acl: list"},
		"report.html": {"<strong>Clients sign in.</strong>", "there is &lt;no&gt; parent", "<code>bad.acl:4</code>"},
	} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range want {
			if !bytes.Contains(b, []byte(w)) {
				t.Errorf("%s lacks %q:\n%s", name, w, b)
			}
		}
	}
	var order []string
	for _, s := range sample().Sections() {
		order = append(order, s.Kind.String())
	}
	if want := []string{"Lost, and what to do", "Carried over with a difference", "Lines to look at", "Empty lists, left out", "Was at its default", "Carried over"}; !slices.Equal(order, want) {
		t.Errorf("sections %q, want what needs a person first: %q", order, want)
	}
	if err := sample().Write(filepath.Join(dir, "missing")); err == nil {
		t.Error("a report is written to a folder that is not there")
	}
}

// A list of millions of odd lines gives a report that can be read.
func TestAReportIsBounded(t *testing.T) {
	r := &Report{Program: "pihole"}
	for i := range MaxNotes + 500 {
		r.Add(at(&Note{Kind: Line, Why: strings.Repeat("ä", 2000)}, "list", i+1, "x"))
	}
	s := r.Sections()
	if len(s) != 1 || len(s[0].Notes) != MaxNotes || s[0].More != 500 {
		t.Fatalf("%d notes kept, %d more", len(s[0].Notes), s[0].More)
	}
	if why := s[0].Notes[0].Why; len(why) > 1010 || !strings.HasSuffix(why, "ä…") {
		t.Errorf("a note has %d bytes and ends with %q", len(why), why[len(why)-6:])
	}
	var b bytes.Buffer
	if err := r.Text(&b); err != nil || !strings.Contains(b.String(), "Lines to look at (2500)") || !strings.Contains(b.String(), "… and 500 more") {
		t.Errorf("the text ends with %q, %v", b.String()[max(0, b.Len()-100):], err)
	}
}

// Settings of another program are not taken for those of this one.
func TestAFileWithoutAKnownOptionIsRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		notes []*Note
		known bool
	}{
		"nothing":                 {nil, false},
		"unknown options":         {[]*Note{at(None(NoneOfOurs), "a", 1, "x"), at(None(NotKnown), "a", 2, "y"), at(None(NoBlock), "a", 3, "z")}, false},
		"lines of a list":         {[]*Note{at(&Note{Kind: Line}, "a", 1, "x"), at(&Note{Kind: Regexp}, "a", 1, "x")}, false},
		"what is not in the file": {[]*Note{at(Needless(""), "a", 0, "x"), at(Differs("a", "b"), "a", 0, "x")}, false},
		"a file without rights":   {[]*Note{at(None("it cannot be read: permission denied"), "a", 0, "x")}, false},
		"one option":              {[]*Note{at(None(NotKnown), "a", 1, "x"), at(Same("listen"), "a", 2, "y")}, true},
		"one that is lost":        {[]*Note{at(None("there are no parents"), "a", 2, "y")}, true},
	} {
		r := &Report{Program: "squid"}
		for _, n := range tt.notes {
			r.Add(n)
		}
		err := r.CheckKnown()
		if (err == nil) != tt.known {
			t.Errorf("%s: %v", name, err)
		}
		if name == "a file without rights" && !strings.HasSuffix(err.Error(), "; permission denied") {
			t.Errorf("%s: %v", name, err)
		}
	}
	why := Reasons{{"cache_peer", "no parents"}, {"cache_", "no such cache"}}
	for option, want := range map[string]string{"cache_peer_access": "no parents", "cache_swap": "no such cache", "acl": ""} {
		if got := why.Of(option); got != want {
			t.Errorf("%s: %q, want %q", option, got, want)
		}
	}
}
