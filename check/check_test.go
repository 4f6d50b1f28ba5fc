package check

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/metric"
	"shuultuur/lib/setting"
	"shuultuur/list"
)

// made makes the checks of settings, in a folder with a phrase list and a signature rule.
func made(t *testing.T, settings string) (*Set, error) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"words": "<casino><50>\n", "odd": "< casino><50>\n<casino><50>\n<casino><60>\n",
		"own.rules": "alert tls any any -> any any (msg:\"a\"; tls.sni; content:\"evil\"; sid:1;)\n",
		"hashes":    strings.Repeat("ab", 32) + " marmot\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var c Config
	if _, err := setting.Read(filepath.Join(dir, "shuultuur.yaml"), []byte(strings.ReplaceAll(settings, "DIR", dir)), &c); err != nil {
		t.Fatal(err)
	}
	return New(c, Parts{Dir: dir, Data: dir}, nil, nil, stampOf)
}

func stampOf(file string) string { return setting.Stamp(file, time.Time{}) }

func names(s *Set) (all []string) {
	for _, c := range s.Checks {
		all = append(all, c.Name())
	}
	return all
}

// TestOnlyWhatTheSettingsNameRuns, but for the checks of certificates, of ways around and of tunnels, and cheap checks run first.
func TestOnlyWhatTheSettingsNameRuns(t *testing.T) {
	for settings, want := range map[string][]string{
		"{}":                              {"certificate", "around", "tunnel", "service"},
		"phrase: {weighted: [DIR/words]}": {"certificate", "around", "tunnel", "service", "phrase"},
		"virus: {hashes: DIR/hashes}\nphrase: {weighted: [DIR/words]}\ncategory: {}\nsignature: {rules: [DIR/own.rules]}": {"certificate", "around", "tunnel", "service", "category", "phrase", "signature", "virus"},
	} {
		s, err := made(t, settings)
		if err != nil {
			t.Errorf("%s: %v", settings, err)
			continue
		}
		if got := names(s); !slices.Equal(got, want) {
			t.Errorf("%s: the checks are %q, want %q", settings, got, want)
		}
		for i, c := range s.Checks[1:] {
			if c.Cost() < s.Checks[i].Cost() {
				t.Errorf("%s: the check %s is cheaper than %s before it", settings, c.Name(), s.Checks[i].Name())
			}
		}
		s.Close()
	}
}

// TestAMistakeIsFoundUnderTheKeyOfItsCheck, so that "shuultuur check" can name its line.
func TestAMistakeIsFoundUnderTheKeyOfItsCheck(t *testing.T) {
	for settings, key := range map[string]string{
		"category: {lists: [none]}":                "category",
		"phrase: {weighted: [DIR/none]}":           "phrase",
		"signature: {rules: [DIR/none]}":           "signature",
		"virus: {}":                                "virus",
		"icap: {}":                                 "icap",
		"picture: {hashes: {a: {file: DIR/none}}}": "picture",
	} {
		if _, err := made(t, settings); err == nil || !strings.HasPrefix(err.Error(), key+".") && !strings.HasPrefix(err.Error(), key+":") {
			t.Errorf("%s: the error is %v, want one about %s", settings, err, key)
		}
	}
}

// TestASetTellsOfItsFilesPhrasesAndProblems, and an absent or empty one of none.
func TestASetTellsOfItsFilesPhrasesAndProblems(t *testing.T) {
	s, err := made(t, "phrase: {weighted: [DIR/odd]}\nsignature: {rules: [DIR/own.rules]}")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var files []string
	for _, f := range s.Files {
		files = append(files, filepath.Base(f))
	}
	if !slices.Contains(files, "odd") || !slices.Contains(files, "own.rules") {
		t.Errorf("the files are %q, want odd and own.rules", files)
	}
	if s.Phrases() == 0 || !s.AsksTLS() || s.Locked() != nil {
		t.Errorf("%d phrases, asks about TLS %v, locked lists %v", s.Phrases(), s.AsksTLS(), s.Locked())
	}
	if want := fmt.Sprintf("phrase lists: %d odd lines", len(s.Remarks)); len(s.Remarks) > 0 && !strings.HasPrefix(strings.Join(s.Problems(), "\n"), want) {
		t.Errorf("the problems are %q, want %q", s.Problems(), want)
	}
	ch := make(chan metric.Metric, 1000)
	s.Collect(ch)
	if len(ch) == 0 {
		t.Error("a set with signature rules has no metrics")
	}
	empty, err := made(t, "{}")
	if err != nil {
		t.Fatal(err)
	}
	if empty.Phrases() != 0 || empty.AsksTLS() || len(empty.Problems()) != 0 || len(empty.Files) != 0 || empty.Locked() != nil {
		t.Errorf("an empty set has %d phrases, problems %q, files %q", empty.Phrases(), empty.Problems(), empty.Files)
	}
	if lines := empty.Explain(t.Context(), []byte("GIF89a")); len(lines) == 0 {
		t.Error("without settings nothing is said about a picture")
	}
	var none *Set
	none.Collect(ch)
	if none.AsksTLS() {
		t.Error("no set asks about TLS")
	}
}

// TestUnchangedChecksAreTakenOver: what was built from a file is built again when that file changes, and
// nothing else is; lists are looked into anew.
func TestUnchangedChecksAreTakenOver(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("words", "<casino><50>\n")
	put("own.rules", "alert tls any any -> any any (msg:\"a\"; tls.sni; content:\"evil\"; sid:1;)\n")
	text := func(more string) string {
		return strings.ReplaceAll("category: {lists: [own]}\nphrase: {weighted: [DIR/words]}\nsignature: {rules: [DIR/own.rules]"+more+"}\n", "DIR", dir)
	}
	build := func(more string, lists map[string]*list.File, same *Set) *Set {
		t.Helper()
		var c Config
		if _, err := setting.Read(filepath.Join(dir, "shuultuur.yaml"), []byte(text(more)), &c); err != nil {
			t.Fatal(err)
		}
		s, err := New(c, Parts{Dir: dir, Data: dir, Lists: lists}, same, same, stampOf)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	one := map[string]*list.File{"own": {}}
	first := build("", one, nil)
	for i, x := range []struct {
		more, file, text string
		lists            map[string]*list.File
		same             map[string]bool
	}{
		{"", "", "", map[string]*list.File{"own": {}}, map[string]bool{"phrase": true, "signature": true}},
		{"", "words", "<casino><60>\n", one, map[string]bool{"signature": true}},
		{"", "own.rules", "alert tls any any -> any any (msg:\"b\"; tls.sni; content:\"worse\"; sid:1;)\n", one, map[string]bool{"phrase": true}},
		{", disable-after: 3", "", "", one, map[string]bool{"phrase": true}},
		{", disable-after: 3", "", "", map[string]*list.File{"own": {}, "other": {}}, map[string]bool{}},
	} {
		if x.file != "" {
			put(x.file, x.text)
		}
		next := build(x.more, x.lists, first)
		for _, name := range []string{"category", "phrase", "signature"} {
			if got := next.named(name) == first.named(name); got != x.same[name] {
				t.Errorf("step %d: %s is the same: %v", i, name, got)
			}
		}
		first.Close()
		first = next
	}
	first.Close()
}

type closed struct {
	filter.Check
	times int
}

func (*closed) Name() string                  { return "closed" }
func (*closed) Categories() []filter.Category { return nil }
func (c *closed) Close()                      { c.times++ }

// TestTheLastSetClosesACheck that several have.
func TestTheLastSetClosesACheck(t *testing.T) {
	k := &closed{}
	b := &built{check: k}
	b.sets.Store(2)
	one, two := &Set{Checks: []filter.Check{k}, rows: map[string]*built{"closed": b}}, &Set{Checks: []filter.Check{k}, rows: map[string]*built{"closed": b}}
	one.Close()
	if k.times != 0 {
		t.Error("a check is closed that another set has")
	}
	two.Close()
	if k.times != 1 {
		t.Errorf("closed %d times", k.times)
	}
}
