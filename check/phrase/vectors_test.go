package phrase

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"shuultuur/filter"
	"shuultuur/test/data"
)

type answer struct {
	Score      string `json:"score"`
	Blocked    bool   `json:"blocked"`
	Categories string `json:"categories"`
}

type vector struct {
	ID        string                       `json:"id"`
	Note      string                       `json:"note"`
	Weighted  []byte                       `json:"weighted"`
	Banned    []byte                       `json:"banned"`
	Exception []byte                       `json:"exception"`
	Conf      map[string]string            `json:"conf"`
	Limit     int                          `json:"limit"`
	Files     map[string]string            `json:"files"`
	Pages     map[string][]byte            `json:"pages"`
	Results   map[string]map[string]answer `json:"results"`
}

// faults are wrong answers of the older programs, with the right ones: their folding destroys
// UTF-8, and one of them used text of another page.
var faults = map[string]answer{
	"utf8-preservecase-0/cyr/53":       {"11", false, "-"},
	"utf8-preservecase-0/cyr/55":       {"11", false, "-"},
	"utf8-preservecase-0/fr/53":        {"12", false, "-"},
	"utf8-preservecase-0/fr/55":        {"12", false, "-"},
	"utf8-preservecase-0/el/53":        {"14", false, "-"},
	"utf8-preservecase-0/el/55":        {"14", false, "-"},
	"utf8-preservecase-1/zh/55":        {"13", false, "-"},
	"utf8-upper-preservecase-2/cyr/53": {"11", false, "-"},
	"utf8-upper-preservecase-2/cyr/55": {"11", false, "-"},
	"utf8-upper-preservecase-2/fr/53":  {"12", false, "-"},
	"utf8-upper-preservecase-2/fr/55":  {"12", false, "-"},
}

// noon is the time at which the vectors are answered: not in the minute after midnight that
// one of them uses.
func noon() time.Time { return time.Date(2026, 1, 7, 12, 0, 0, 0, time.UTC) }

func write(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// check makes the check for a vector.
func (v *vector) check(t *testing.T, compat string) *Check {
	t.Helper()
	dir := t.TempDir()
	place := func(b []byte) []byte { return []byte(strings.ReplaceAll(string(b), "@D@", dir)) }
	write(t, filepath.Join(dir, "w"), place(v.Weighted))
	write(t, filepath.Join(dir, "b"), place(v.Banned))
	write(t, filepath.Join(dir, "e"), place(v.Exception))
	for name, text := range v.Files {
		write(t, filepath.Join(dir, name), place([]byte(text)))
	}
	cfg := Config{
		Weighted: located(dir, "w"), Banned: located(dir, "b"), Exception: located(dir, "e"),
		Compat: compat, NaughtynessLimit: v.Limit, Full: true,
	}
	number := func(key string) *int {
		s, ok := v.Conf[key]
		if !ok {
			return nil
		}
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatalf("the number in %s: %v", key, err)
		}
		return &n
	}
	cfg.WeightedPhraseMode = number("weightedphrasemode")
	cfg.PhraseFilterMode = number("phrasefiltermode")
	cfg.PreserveCase = number("preservecase")
	if s, ok := v.Conf["hexdecodecontent"]; ok {
		on := s == "on"
		cfg.HexDecodeContent = &on
	}
	c, err := New(cfg, dir, noon)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// answerOf returns the answer of a filter with this limit to findings.
func answerOf(found []filter.Finding, limit int) answer {
	a := answer{Score: "0", Categories: "-"}
	var cats []filter.Finding
	for _, f := range found {
		switch f.Category {
		case "phrase":
			a.Score = strconv.Itoa(f.Score)
			a.Blocked = a.Blocked || f.Score > limit
		case "bannedphrase":
			a.Blocked = true
		case "exceptionphrase":
		default:
			cats = append(cats, f)
		}
	}
	if !a.Blocked || len(cats) == 0 {
		return a
	}
	sort.SliceStable(cats, func(i, j int) bool { return cats[i].Score > cats[j].Score })
	var names []string
	for _, f := range cats {
		names = append(names, f.Category)
	}
	a.Categories = strings.Join(names, ", ")
	return a
}

func scanPage(t testing.TB, c *Check, page []byte) []filter.Finding {
	t.Helper()
	sc := c.scans.Get().(*scan)
	defer c.scans.Put(sc)
	if err := sc.whole(context.Background(), page); err != nil {
		t.Fatal(err)
	}
	return sc.report(nil)
}

func TestVectors(t *testing.T) {
	data, err := os.ReadFile(data.Path(t, "oracle", "dg-vectors.json"))
	if err != nil {
		t.Fatal(err)
	}
	var vectors []vector
	if err := json.Unmarshal(data, &vectors); err != nil {
		t.Fatal(err)
	}
	asked := 0
	for _, v := range vectors {
		for column, compat := range map[string]string{"53": "e2guardian-5.3", "55": "e2guardian-5.5"} {
			t.Run(v.ID+"/"+column, func(t *testing.T) {
				c := v.check(t, compat)
				for name, page := range v.Pages {
					want := v.Results[column][name]
					if right, ok := faults[fmt.Sprintf("%s/%s/%s", v.ID, name, column)]; ok {
						want = right
					}
					found := scanPage(t, c, page)
					if got := answerOf(found, v.Limit); got != want {
						t.Errorf("page %s: the answer is %+v, want %+v\nfindings %+v", name, got, want, found)
					}
					asked++
				}
			})
		}
	}
	if asked < 100 {
		t.Errorf("compared only %d answers, want at least 100", asked)
	}
}
