package home

import "testing"

func TestAProblemIsASentenceWithAWayToMendIt(t *testing.T) {
	for said, want := range map[string]problem{
		"3 lists have not been fetched yet and are empty: a, b, c":      {Title: "Some lists are not here yet", To: "/lists"},
		"writing events.db: no space left on device":                    {Title: "There is no room on the disk", To: "/system"},
		"state: Redis has been lost since 2026-11-30T06:00:00Z":         {Title: "The other nodes cannot be reached", To: "/system"},
		"the upstream 192.0.2.53 does not answer":                       {Title: "Some name servers do not answer", To: "/names"},
		"shuultuur.yaml: line 4: proxy: there is no such key; it is in": {Title: "The settings in the file could not be used", To: "/settings"},
		"something that nobody has heard of":                            {Title: "something that nobody has heard of"},
	} {
		got := problemOf(said)
		if got.Title != want.Title || got.To != want.To || got.Text != said || got.Icon == "" || got.To != "" && got.Do == "" {
			t.Errorf("%q becomes %+v, want %q with a way to %q", said, got, want.Title, want.To)
		}
	}
}
