package shuultuur

import (
	"flag"
	"os"
	"strings"
	"testing"

	"shuultuur/check/service"
	"shuultuur/list"
)

var update = flag.Bool("update", false, "write the tables of the manual that follow from tables in the program")

// follows compares a part of a page, from the end of the text begin to the text end, with what
// the program says, or writes it.
func follows(t *testing.T, page, begin, end, want string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	got, after, ok2 := strings.Cut(rest, end)
	switch {
	case !ok || !ok2:
		t.Errorf("%s has nothing between %q and %q", page, begin, end)
	case got != want && *update:
		if err := os.WriteFile(page, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	case got != want:
		t.Errorf("%s has\n%s\nand the program has\n%s\n\"go test . -run Tables -update\" writes it", page, got, want)
	}
}

// TestTablesOfTheManualFollowTheProgram: each row of a table in the program has its row in the
// manual.
func TestTablesOfTheManualFollowTheProgram(t *testing.T) {
	var rows strings.Builder
	var names []string
	cell := strings.NewReplacer("|", `\|`).Replace
	for _, f := range list.Formats() {
		name := "`" + string(f.Name) + "`"
		for _, a := range f.Aliases {
			name += ", `" + string(a) + "`"
		}
		rows.WriteString("| " + name + " | " + cell(f.Line) + " | " + cell(f.What) + " |\n")
		names = append(names, string(f.Name))
	}
	follows(t, "docs/lists.md", "| format | one line of it | meaning |\n|---|---|---|\n", "\n#", rows.String())
	rows.Reset()
	for _, s := range service.All() {
		var hosts []string
		for _, h := range s.Hosts {
			hosts = append(hosts, "`"+h+"`")
		}
		for _, n := range s.Networks {
			hosts = append(hosts, "`"+n.String()+"`")
		}
		rows.WriteString("| `" + s.ID + "` | " + s.Name + " | " + s.Kind + " | " + strings.Join(hosts, ", ") + " |\n")
	}
	follows(t, "docs/services.md", "| name | service | kind | hosts and networks |\n|---|---|---|---|\n", "\n#", rows.String())
	last := len(names) - 1
	follows(t, "list/README.md", "| `lists.format` | guessed | format of the source: ", " |\n", strings.Join(names[:last], ", ")+" or "+names[last])
}
