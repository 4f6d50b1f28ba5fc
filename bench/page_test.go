package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const somePage = `# Benchmarks

Commit abc.

### Pages

About them.

| peer | pages/s | CPU µs/fetch |
|---|--:|--:|
| shuultuur 59699fef | 1,000 | 400 |
| c-icap, echo 0.5.10 | - | 43.6 |

* target: **reached**

| shuultuur against | CPU/fetch |
|---|--:|
| haproxy | 4.0× |

### Names

| server | refused/s | CPU µs each | cached/s | CPU µs each |
|--|--:|--:|--:|--:|
| shuultuur without a list | – | – | 494,263 | 1.99 |
| short |
`

func TestRowsOfAPageAreThoseOfItsTables(t *testing.T) {
	got := rowsOf(somePage)
	for i, want := range []struct{ table, row, figure, value string }{
		{"Pages", "shuultuur", "CPU µs/fetch", "400"},
		{"Pages", "c-icap, echo 0.5.10", "pages/s", "-"},
		{"Pages", "haproxy", "CPU/fetch", "4.0×"},
		{"Names", "shuultuur without a list", "cached/s, CPU µs each", "1.99"},
		{"Names", "short", "refused/s", ""},
	} {
		if i >= len(got) || got[i].Table != want.table || got[i].Row != want.row || got[i].Figures[want.figure] != want.value {
			t.Errorf("row %d of %+v, want %+v", i, got, want)
		}
	}
	if len(got) != 5 {
		t.Errorf("%d rows, want 5", len(got))
	}
}

func TestHistoryGrowsByOneLineForEachRow(t *testing.T) {
	file := filepath.Join(t.TempDir(), "history.jsonl")
	for _, commit := range []string{"one", "two"} {
		if err := remember(file, somePage, "2026-01-02 03:04 UTC", commit); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(lines) != 10 {
		t.Fatalf("%d lines, want 10:\n%s", len(lines), text)
	}
	var last measuredRow
	if err := json.Unmarshal([]byte(lines[5]), &last); err != nil || last.Commit != "two" || last.Row != "shuultuur" || last.Figures["pages/s"] != "1,000" {
		t.Errorf("line 6 is %+v (%v)", last, err)
	}
}

// The processor time of our rows counts, in both directions; rows that one commit lacks, peers
// and figures that are none do not.
func TestRatiosAreThoseOfOurRowsThatBothHave(t *testing.T) {
	page := func(ours, peers string) []measuredRow {
		return rowsOf("# T\n\n| peer | n/s | CPU µs/fetch |\n|---|---|---|\n| shuultuur 59699fef | 5 | " + ours + " |\n| squid | 5 | " + peers + " |\n| shuultuur-learn | 5 | - |\n")
	}
	var all []*ratio
	all = addRatios(all, page("110", "50"), page("100", "10"))
	all = addRatios(all, page("1,200", "50"), append(page("1,000", "10"), measuredRow{Table: "T", Row: "shuultuur-rules"}))
	if len(all) != 1 || all[0].row != "shuultuur" || all[0].figure != "CPU µs/fetch" || !slices.Equal(all[0].ratios, []float64{1.1, 1.2}) {
		t.Errorf("ratios are %+v", all)
	}
}

func TestWhatIsMissingIsNamedOnce(t *testing.T) {
	data := t.TempDir()
	if err := os.WriteFile(filepath.Join(data, "here"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	got := lacking([]benchmark{
		{name: "a", needs: []string{"sh", "no-such-program", "DATA/here", "DATA/nothing"}},
		{name: "b", needs: []string{"no-such-program", data + "/here", data + "/none"}},
	}, data)
	if want := []string{"no-such-program", "DATA/nothing", data + "/none"}; !slices.Equal(got, want) {
		t.Errorf("lacking %q, want %q", got, want)
	}
}

func TestTheShortRunHasARowForEachPurpose(t *testing.T) {
	short := map[string]bool{}
	names := map[string]bool{}
	for _, b := range benchmarks() {
		if names[b.name] {
			t.Errorf("two benchmarks are called %q", b.name)
		}
		names[b.name], short[b.name] = true, b.short
	}
	for _, name := range []string{"pages", "browsing", "gzip", "small", "tls-new", "tls-small", "http2", "auth", "resolver", "cache", "icap", "adblock"} {
		if !short[name] {
			t.Errorf("%q is not part of the short run", name)
		}
	}
}
