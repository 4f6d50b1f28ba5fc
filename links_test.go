package shuultuur

import (
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// linkIn is a link or a picture in Markdown, with its destination.
var linkIn = regexp.MustCompile(`\]\(([^()\s]+)\)`)

// anchors returns the anchors that GitHub and its kin make of the headings of a document.
func anchors(text string) map[string]bool {
	all, fenced := map[string]bool{}, false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		heading := strings.TrimLeft(line, "#")
		if fenced || len(heading) == len(line) || !strings.HasPrefix(heading, " ") {
			continue
		}
		all[strings.Map(func(r rune) rune {
			switch {
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			case r == ' ':
				return '-'
			}
			return -1
		}, strings.TrimSpace(heading))] = true
	}
	return all
}

func TestLinksOfDocumentsLeadSomewhere(t *testing.T) {
	found := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if d.IsDir() || filepath.Ext(path) != ".md" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range linkIn.FindAllStringSubmatch(string(text), -1) {
			to, err := url.Parse(m[1])
			if err != nil {
				t.Errorf("%s: the link %q is not a URL: %v", path, m[1], err)
				continue
			}
			if to.IsAbs() {
				continue
			}
			found++
			target, inside := path, text
			if to.Path != "" {
				target = filepath.Join(filepath.Dir(path), filepath.FromSlash(to.Path))
				if _, err := os.Stat(target); err != nil {
					t.Errorf("%s: the link %q leads nowhere: %v", path, m[1], err)
					continue
				}
			}
			if to.Fragment == "" {
				continue
			}
			if target != path {
				if inside, err = os.ReadFile(target); err != nil {
					t.Errorf("%s: the link %q has an anchor and leads to no document: %v", path, m[1], err)
					continue
				}
			}
			if !anchors(string(inside))[to.Fragment] {
				t.Errorf("%s: the link %q leads to no heading of %s", path, m[1], target)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 100 {
		t.Fatalf("the walk found only %d links", found)
	}
}
