package starter

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shuultuur/admin/why"
	"shuultuur/engine"
)

// TestTheFilterKnowsSomethingByItself: without what is fetched, the starter filter refuses the best
// known names of each kind, and pages of heavy words in many languages, and no harmless page.
func TestTheFilterKnowsSomethingByItself(t *testing.T) {
	dir := t.TempDir()
	if err := Write(dir); err != nil {
		t.Fatal(err)
	}
	e, done, err := engine.Explain(t.Context(), filepath.Join(dir, "shuultuur.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	ask := func(q why.Question) string {
		x, err := e.Why(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		return x.Action
	}
	for _, host := range []string{"www.bet365.com", "casino.example", "de.pornhub.com", "x.xxx", "nordvpn.com", "dns.google", "leafly.com", "gunbroker.com"} {
		if got := ask(why.Question{URL: "http://" + host + "/"}); got != "block" && got != "warn" {
			t.Errorf("%s: %s, want a refusal", host, got)
		}
	}
	// What many people want is known and counted, and refused for those who say so.
	for _, host := range []string{"tinder.com", "poki.com", "www.facebook.com", "m.youtube.com", "wikipedia.org", "example.com", "www.bbc.co.uk", "github.com", "www.python.org", "school.example"} {
		if got := ask(why.Question{URL: "http://" + host + "/"}); got != "pass" && got != "allow" && got != "monitor" {
			t.Errorf("%s: %s, want it to pass", host, got)
		}
	}
	// On the ports of TLS, tunnels of everything else are refused, to hosts with an exception, too.
	for url, want := range map[string]string{
		"ssh://example.com:443": "block", "vpn://wikipedia.org:443": "block", "unknown://example.com:8443": "block", "unknown://www.python.org": "block",
		"https://example.com/": "pass", "https://wikipedia.org/": "allow", "ssh://example.com:2222": "refused",
	} {
		if got := ask(why.Question{URL: url}); got != want {
			t.Errorf("%s: %s, want %s", url, got, want)
		}
	}
	for lang, text := range map[string]string{
		"en": "Free porn videos: hardcore sex, milf and anal sex, naked girls.", "de": "Gratis Pornofilme, nackte Frauen, Sexvideos und Sexcams.",
		"fr": "Films porno gratuits, vidéos de sexe, femmes nues, salopes.", "es": "Videos porno gratis, mujeres desnudas, mamadas y tetas.",
		"it": "Video porno gratis, donne nude, pompini e tette.", "pt": "Vídeos pornô grátis, mulheres peladas, boquete e buceta.",
		"ru": "Бесплатное порно видео, голые девушки, минет и сиськи.", "tr": "Porno izle, seks videoları, çıplak kızlar, eskort bayanlar.",
		"nl": "Gratis pornofilms, naakte vrouwen, neuken en tieten.", "pl": "Darmowe porno, filmy porno, nagie laski i cipki.",
		"uz": "Seks videolar, porno, yalangʻoch qizlar.", "mn": "Порно, секс бичлэг, нүцгэн зураг, нүцгэн охид.",
		"uk": "Безкоштовне порно відео, голі дівчата, секс відео.", "ro": "Filme porno gratis, femei goale, futai.", "zh": "免费看片 成人电影 做爱视频 口交 色情",
		"ja": "無修正のアダルト動画とエロ動画、巨乳。", "ar": "أفلام سكس نيك بنات عاريات سكس", "casino": "Online Casino: Freispiele, Einzahlungsbonus, Spielautomaten und Sportwetten.",
	} {
		page := "<!DOCTYPE html><html><meta charset=utf-8><title>x</title><p>" + text + "<p>" + text
		got := ask(why.Question{URL: "http://" + "page.example/", Page: []byte(page), Type: "text/html; charset=utf-8"})
		if got != "block" && got != "warn" {
			t.Errorf("heavy words in %s: %s, want a refusal", lang, got)
		}
	}
}

// TestEachNameHasAReason: a line of the own lists is a name with a reason, and no name is there twice.
func TestEachNameHasAReason(t *testing.T) {
	paths, err := filepath.Glob("files/lists/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for s := bufio.NewScanner(f); s.Scan(); {
			line := s.Text()
			if line == "" || line[0] == '#' {
				continue
			}
			name, reason, _ := strings.Cut(line, " # ")
			if at, ok := seen[name]; ok {
				t.Errorf("%s: %s is in %s, too", path, name, at)
			}
			if seen[name] = path; reason == "" && !strings.HasSuffix(path, "ads.txt") && !strings.HasSuffix(path, "learning.txt") {
				t.Errorf("%s: %q has no reason", path, line)
			}
		}
	}
	// By these, browsers and devices ask whether they may use resolvers of their own: the name server
	// says that they do not exist, and a list would say something else.
	for _, name := range []string{"use-application-dns.net", "mask.icloud.com", "mask-h2.icloud.com"} {
		if at := seen[name]; at != "" {
			t.Errorf("%s: %s is a question to the name server", at, name)
		}
	}
}
