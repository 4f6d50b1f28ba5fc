package policy

import (
	"net/url"
	"testing"

	"shuultuur/policy/search"
)

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
		for text, want := range searches {
			term := search.AppendTerm(nil, []byte(url.QueryEscape(text)))
			if got := search.ContainsAny(term, c.search) || c.forms.In(term); got != want {
				t.Errorf("phrase %q in search %q: found %v, want %v", phrase, text, got, want)
			}
		}
	}
}
