package web

import (
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"shuultuur/policy"
	"shuultuur/test/race"
	"shuultuur/text"
)

func TestEveryPageIsATemplateInEveryLanguage(t *testing.T) {
	race.Without(t)
	race.Without(t)
	s, err := text.New("")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../*/*.html")
	if err != nil || len(files) == 0 {
		t.Fatal("there are no page templates:", err)
	}
	for _, file := range files {
		file = filepath.Base(file)
		if file == "head.html" { // it is in all others
			continue
		}
		page := PageOf(file, NoNotice)
		for _, l := range s.All() {
			page.In(l) // it panics on a mistake
		}
	}
}

func TestStylesFollowTheDirectionOfTheLanguage(t *testing.T) {
	css, err := readPacked("face.css")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(margin|padding|border)-(left|right)|text-align: *(left|right)|[{;] *(left|right):`).FindAllString(string(css), -1) {
		t.Errorf("%q is wrong in languages written from right to left: use -inline-start and -inline-end", m)
	}
}

func TestSettingsOfPoliciesHaveNamesInEveryLanguage(t *testing.T) {
	s, err := text.New("")
	if err != nil {
		t.Fatal(err)
	}
	keys := []string{"a day", "time", "bytes", "queries", "requests", "by", "prefix", "on-loss", "days", "hours", "dates", "zone"}
	for _, of := range []reflect.Type{reflect.TypeFor[policy.Policy](), reflect.TypeFor[policy.Rule]()} {
		for f := range of.Fields() {
			if key := f.Tag.Get("yaml"); key != "" && key != "-" && key != "name" && key != "action" && key != "rules" {
				keys = append(keys, key)
			}
		}
	}
	for _, key := range keys {
		name := "set." + strings.NewReplacer("-", "", " ", "").Replace(key)
		for _, l := range s.All() {
			if l.Say(name) == name {
				t.Errorf("%s.txt has no text for %q: the page of policies cannot name %q", l.Lang, name, key)
			}
		}
	}
	for line, want := range map[string]string{
		"category: games": "Kategorie: games", "warn-for: 1h": "Warnung gilt: 1h", "decrypt: true": "verschlüsselte Seiten lesen: an", "store: false": "zwischenspeichern: aus", "a day: time 1h, over 50, by user": "pro Tag: Zeit 1h, mehr als 50, je user", "other: x": "other: x", "alone": "alone",
	} {
		if got := translateLine(s.For("de"), line); got != want {
			t.Errorf("%q is shown as %q, want %q", line, got, want)
		}
	}
	if got := translateLine(nil, "category: games"); got != "category: games" {
		t.Errorf("in English the line becomes %q", got)
	}
}
