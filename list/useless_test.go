package list

import (
	"path/filepath"
	"strings"
	"testing"

	"shuultuur/lib/setting"
)

// TestAListWithoutOneEntryIsAMistake: what is empty or has comments alone is none.
func TestAListWithoutOneEntryIsAMistake(t *testing.T) {
	for name, tt := range map[string]struct {
		format  FormatName
		text    string
		mistake string // part of it
	}{
		"empty":                  {"domains", "", ""},
		"comments alone":         {"domains", "# a.example\n\n", ""},
		"one entry":              {"domains", "???\na.example\n", ""},
		"expressions as domains": {"domains", "# mine\n^ads[0-9]\\.\n", "no line of it is an entry of the format domains: name its format, or leave it out; "},
		"upstreams alone":        {"dnsmasq", "server=/lan/10.0.0.1\n", "no line of it is an entry of the format dnsmasq"},
		"hints for pages alone":  {"adblock", "a.example##+js(x)\n", ""},
		"the line is named":      {"domains", "\n???\n", "list.txt:2: "},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "list.txt")
		write(t, dir, map[string]string{"list.txt": tt.text})
		_, err := Compile(t.Context(), "own", Config{Path: setting.Source(path), Format: tt.format, Accept: (*Report).Useless}, filepath.Join(dir, "compiled"))
		switch {
		case tt.mistake == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case tt.mistake != "" && (err == nil || !strings.Contains(err.Error(), tt.mistake)):
			t.Errorf("%s: error %v, want %q", name, err, tt.mistake)
		}
	}
}

// TestExpressionsOfPiholeAreRecognized: by what most lines look like, as other formats are.
func TestExpressionsOfPiholeAreRecognized(t *testing.T) {
	for text, want := range map[string]FormatName{
		"# mine\n(^|\\.)ads[0-9]*\\.example$\n^track\\.\n":           Pihole,
		"(\\.|^)metrics\\.example$\n":                                Pihole,
		"^ad([sxv]?[0-9]*|system)[_.-]\n^(.+[_.-])?telemetry[_.-]\n": Pihole,
		"^x\\.example$;querytype=AAAA\n":                             Pihole,
		"ads.example\n^track\\.\nbets.example\n":                     Domains,
		"||ads.example^\n^banner/$image\n":                           Adblock,
		"":                                                           Domains,
	} {
		if got := guess([]byte(text)); got != want {
			t.Errorf("%q is guessed to be %s, want %s", text, got, want)
		}
	}
}

// TestServersOfDnsmasqThatNoHostCanBeBlock: others are upstreams.
func TestServersOfDnsmasqThatNoHostCanBeBlock(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "list.txt")
	write(t, dir, map[string]string{"list.txt": "server=/a.example/127.0.0.1\nserver=/b.example/::1\nserver=/c.example/0.0.0.0\nlocal=/d.example/::\nserver=/lan/127.0.0.1#5353\nserver=/corp.example/10.0.0.1\nserver=/e.example/#\n"})
	rep, err := Compile(t.Context(), "own", Config{Path: setting.Source(path)}, filepath.Join(dir, "compiled"))
	if err != nil || rep.As != "dnsmasq" || rep.Entries != 4 || rep.Ignored != 3 {
		t.Errorf("got %+v, %v; want 4 entries, and 3 ignored lines", rep, err)
	}
}
