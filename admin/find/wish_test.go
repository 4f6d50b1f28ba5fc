package find

import (
	"strings"
	"testing"

	"shuultuur/text"
)

func TestWordsAreUnderstood(t *testing.T) {
	s, err := text.New("")
	if err != nil {
		t.Fatal(err)
	}
	known := names{people: []string{"anna", "anna maria", "bolor", "open sesame"}, groups: []string{"kids", "pupils"}}
	for _, tt := range []struct {
		lang, written string
		want          wish
	}{
		{"en", "", wish{}},
		{"en", "   ", wish{}},
		{"en", "open roblox for bolor 1h", wish{Verb: "open", Site: "roblox", Who: "bolor", For: "1h"}},
		{"en", "Open Roblox for Bolor 1 hour", wish{Verb: "open", Site: "roblox", Who: "bolor", For: "1h"}},
		{"en", "roblox bolor", wish{Site: "roblox", Who: "bolor"}},
		{"en", "block https://www.Play.example/x?y=1", wish{Verb: "block", Site: "www.play.example"}},
		{"en", "block play.example. for kids 2 weeks", wish{Verb: "block", Site: "play.example", Who: "kids", For: "14d"}},
		{"en", "pause 30m", wish{Verb: "pause", For: "30m"}},
		{"en", "pause 30", wish{Verb: "pause", Rest: "30"}},
		{"en", "pause for kids 5 minutes", wish{Verb: "pause", Who: "kids", For: "5m"}},
		{"en", "more time bolor", wish{Verb: "more", Who: "bolor"}},
		{"en", "anna", wish{Who: "anna"}},             // not anna maria
		{"en", "anna maria", wish{Who: "anna maria"}}, // the longer name
		{"en", "ann", wish{Rest: "ann"}},              // two begin so
		{"en", "bol", wish{Who: "bolor"}},             // one begins so
		{"en", "bo", wish{Rest: "bo"}},                // too short
		{"en", "why 192.168.1.20 a.example", wish{Verb: "why", Site: "a.example", Who: "192.168.1.20"}},
		{"en", "::ffff:192.168.1.20", wish{Who: "192.168.1.20"}},
		{"en", "settings", wish{Rest: "settings"}},
		{"en", "open", wish{Verb: "open"}},
		{"en", "99999h a.example", wish{Site: "a.example", Rest: "99999h"}},
		{"en", "<script>.x", wish{Rest: "<script>.x"}},
		{"de", "öffne roblox für bolor 1 Stunde", wish{Verb: "open", Site: "roblox", Who: "bolor", For: "1h"}},
		{"de", "open roblox for bolor 1 hour", wish{Verb: "open", Site: "roblox", Who: "bolor", For: "1h"}},
		{"de", "mehr Zeit bolor", wish{Verb: "more", Who: "bolor"}},
		{"tr", "roblox bolor için 2 gün aç", wish{Verb: "open", Site: "roblox", Who: "bolor", For: "2d"}},
		{"ru", "закрыть youtube для kids", wish{Verb: "block", Site: "youtube", Who: "kids"}},
		{"ar", "افتح roblox bolor 1 ساعة", wish{Verb: "open", Site: "roblox", Who: "bolor", For: "1h"}},
	} {
		got := parse(tt.written, s.For(tt.lang), known)
		got.kind, got.name = nobody, ""
		if got != tt.want {
			t.Errorf("%s %q is understood as %+v, want %+v", tt.lang, tt.written, got, tt.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("open roblox for anna 1h")
	f.Add("::1 0h \xff")
	known := names{people: []string{"anna", ""}, groups: []string{"kids"}}
	f.Fuzz(func(t *testing.T, written string) {
		w := parse(written, nil, known)
		if len(w.Rest) > 2*maxQuery || strings.ContainsAny(w.Site, " <>\"") {
			t.Errorf("%q is understood as %+v", written, w)
		}
	})
}
