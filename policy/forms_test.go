package policy

import (
	"net/url"
	"testing"
)

func TestSearchTermsAreFoundByStem(t *testing.T) {
	f := newForms()
	for _, p := range []string{"{qimor}", "{o'yin} klubi", "{бооцоо}"} {
		if err := f.add(p); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.add("{-}"); err == nil {
		t.Error("add accepted a phrase without a letter")
	}
	for term, want := range map[string]bool{
		"eng yaxshi qimorlarga": true, "o‘yinlar klubi": true, "қиморларга": true, "бооцооноосоо": true,
		"qimorboz": false, "o'yinlar": false, "klubi": false, "": false,
	} {
		if got := f.containsAny(appendTerm(nil, []byte(url.QueryEscape(term)))); got != want {
			t.Errorf("search term %q contains the phrase: %v, want %v", term, got, want)
		}
	}
}

func TestSearchesAreFoundHoweverTheyAreWritten(t *testing.T) {
	for phrase, searches := range map[string]map[string]bool{
		"straße":        {"STRASSE": true, "die Straßen": false},
		"казино":        {"онлайн кази\u0301но": true},
		"o'yin":         {"o‘yin": true, "oyin": false},
		"{oʻldirmoq}":   {"o'ldirgan": true, "ўлдирди": true, "o'ldi": false},
		"{архи}":        {"архинаас": true, "ар араас": false},
		"{赌博}":          {"禁止赌博活动": true, "赌": false},
		"毒品":            {"买毒品吗": true},
		"カジノ":           {"ｵﾝﾗｲﾝｶｼﾞﾉ": true},
		"online カジノ":    {"best online カジノ入門": true, "xonline カジノ": false},
		"{καζίνο}":      {"ΚΑΖΙΝΟ": true, "ΚΑΖΙΝΟΣ": false},
		"{הימורים}":     {"הִימוּרִים": true},
		"{คาสิโน}":      {"เล่นคาสิโนออนไลน์": true},
		"{카지노}":         {"온라인카지노에서": true},
		"free {казино}": {"free казиноларда": true},
	} {
		var c conditions
		if err := c.compile(&Rule{Search: []string{phrase}}); err != nil {
			t.Fatal(err)
		}
		for search, want := range searches {
			term := appendTerm(nil, []byte(url.QueryEscape(search)))
			if got := containsWord(term, c.search) || c.forms.containsAny(term); got != want {
				t.Errorf("phrase %q in search %q: found %v, want %v", phrase, search, got, want)
			}
		}
	}
}
