package list

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"shuultuur/lib/setting"
)

// recordsOf lists the records of a text, a line each.
func recordsOf(t *testing.T, cfg Config, text string) (string, Report) {
	t.Helper()
	f, rep := compileText(t, cfg, text)
	var all []string
	if err := f.Entries(func(e Entry) bool {
		all = append(all, ask(t, f, e.Key)...)
		return true
	}); err != nil {
		t.Fatal(err)
	}
	slices.Sort(all)
	return strings.Join(all, "\n"), rep
}

func TestJSONAndCSVSayTheSame(t *testing.T) {
	want := "games c.com\ngames d.com\nown a.com\nown b.com/x"
	for name, tt := range map[string]struct {
		format FormatName
		text   string
	}{
		"array of strings and objects": {Auto, `["a.com", {"url": "http://b.com/x", "id": 7},
 {"entry": "c.com", "category": "games"}, {"host":"d.com","category":"games","exact":false}]`},
		"values in lines":        {"json", "\"a.com\"\n{\"entry\":\"b.com/x\"}\n{\"entry\":\"c.com\",\"category\":\"games\"}{\"entry\":\"d.com\",\"category\":\"games\"}"},
		"columns":                {"csv", "entry,category\na.com,\nb.com/x,\n# remark\nc.com,games\n\"d.com\",\"games\"\n"},
		"columns in a remark":    {"csv", "# abuse list\n# id;url;category\n1;a.com;\n2;\"http://b.com/x\";\n3;c.com;games\n4;d.com;games"},
		"columns without a name": {"csv", "a.com\nb.com/x\n"},
	} {
		got, rep := recordsOf(t, Config{Format: tt.format}, tt.text)
		if name == "columns without a name" {
			want := "own a.com\nown b.com/x"
			if got != want {
				t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
			}
			continue
		}
		if got != want || rep.Bad > 0 {
			t.Errorf("%s: got\n%s\nwant\n%s\n%v", name, got, want, rep.Problems)
		}
	}
}

func TestBadRecordsAreReportedWithTheirLine(t *testing.T) {
	_, rep := recordsOf(t, Config{Format: "json"}, "[\n\"ok.com\",\n\"not a name\",\n\n5,\n{\"entry\":\"x.com\",\"exact\":\"perhaps\"}, {\"entry\":\"x.com\",\"remove\":true}]")
	var got []string
	for _, p := range rep.Problems {
		got = append(got, fmt.Sprintf("%d: %s", p.Line, p.Reason))
	}
	want := []string{
		`3: "not a name" is not a domain name`,
		`5: "" is neither a string nor an object`,
		`6: "x.com" "exact": "perhaps" is neither true nor false`,
		`6: "x.com" is marked for removal: only changes to a list can remove entries`,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("problems differ (-want +got):\n%s", d)
	}
	if rep.Entries != 1 || rep.Bad != 4 {
		t.Errorf("got %d entries, %d bad lines; want 1 and 4", rep.Entries, rep.Bad)
	}
}

func TestHalfAListInJSONIsNone(t *testing.T) {
	for _, text := range []string{"[\"a.com\",\n\"b.co", "[\"a.com\"", "[\"a.com\"\n \"b.com\"]", "[\"a.com\", \"" + strings.Repeat("x", 2*maxRecord) + "\"]"} {
		path := filepath.Join(t.TempDir(), "list.json")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		dst := path + ".list"
		if _, err := Compile(context.Background(), "own", Config{Path: setting.Source(path)}, dst); err == nil {
			t.Errorf("Compile of %.40q returned no error", text)
		}
		if _, err := os.Stat(dst); err == nil {
			t.Errorf("Compile of %.40q failed but wrote a list", text)
		}
	}
}

func TestChangesAreReadWholeOrNotAtAll(t *testing.T) {
	for _, tt := range []struct {
		text, err string
		want      []Change
	}{
		{`[{"entry":"a.com","category":"x"},{"entry":"b.com/y","remove":true},"c.com"]`, "", []Change{{Entry: "a.com", Category: "x"}, {Entry: "b.com/y", Remove: true}, {Entry: "c.com"}}},
		{"entry,remove,exact\na.com,,1\nb.com,true,\n", "", []Change{{Entry: "a.com", Exact: true}, {Entry: "b.com", Remove: true}}},
		{"a.com\nb.com\n", "", []Change{{Entry: "a.com"}, {Entry: "b.com"}}},
		{"", "", nil},
		{"a.com\nb c\n", `line 2: "b c": `, nil},
		{"[\"a.com\",\n{\"entry\":\"\"}]", "line 2: ", nil},
		{`["a.com"`, "does not end", nil},
		{`{"entry": "a.com", "category": "x", "Category": "y"}`, `"category" occurs twice`, nil},
	} {
		got, err := ReadChanges(strings.NewReader(tt.text))
		if d := cmp.Diff(tt.want, got); d != "" {
			t.Errorf("%q: records differ (-want +got): %s", tt.text, d)
		}
		if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
			t.Errorf("%q: got error %v, want %s", tt.text, err, tt.err)
		}
	}
}
