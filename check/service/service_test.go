package service

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"shuultuur/filter"
)

func TestTheCatalogueIsRead(t *testing.T) {
	all := All()
	if len(all) < 120 {
		t.Errorf("the catalogue has %d services, want 120 at least", len(all))
	}
	kinds := map[string]bool{"adult": true, "ai": true, "chat": true, "cloud": true, "dating": true, "gambling": true, "games": true, "music": true, "other": true, "shops": true, "social": true, "video": true, "ways-around": true}
	for _, s := range all {
		if !kinds[s.Kind] {
			t.Errorf("%s is of the unknown kind %q", s.ID, s.Kind)
		}
		for i, h := range s.Hosts {
			if slices.Contains(s.Hosts[i+1:], h) {
				t.Errorf("%s names %s twice", s.ID, h)
			}
		}
	}
}

func TestMistakesInACatalogue(t *testing.T) {
	for text, want := range map[string]string{
		"a | A | games":                                   "line 1: it has not four parts",
		"# c\n\na | A | games | a.example | b":            "line 3: it has not four parts",
		"a | A | games |":                                 "line 1: one of its parts is empty",
		" | A | games | a.example":                        "line 1: one of its parts is empty",
		"a | A | games | A.example":                       `"A.example" is no host in lower case`,
		"a | A | games | example":                         `"example" is no host`,
		"a | A | games | .a.example":                      `".a.example" is no host`,
		"a | A | games | 10.0.0.1/8":                      `"10.0.0.1/8" is no network`,
		"a b | A | games | a.example\nc b | B | x | b.io": `line 2: the name "b" is there already`,
	} {
		if _, err := read(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: the mistake is %v, want %s", text, err, want)
		}
	}
}

// TestNamesOfOtherFilters has the names that AdGuard Home and NextDNS give to services.
func TestNamesOfOtherFilters(t *testing.T) {
	for _, names := range []string{
		"4chan 500px 9gag activision_blizzard aliexpress amazon amazon_streaming amino apple_streaming betano betfair betway bigo_live bilibili blaze blizzard_entertainment bluesky box canais_globo chatgpt claude clubhouse coolapk copilot crunchyroll dailymotion deepseek deezer directvgo discord discoveryplus disneyplus douban dropbox ebay electronic_arts epic_games espn facebook fifa flickr gemini globoplay gog grok hbomax hulu icloud_private_relay iheartradio imgur instagram iqiyi kakaotalk kik kook lazada leagueoflegends line linkedin lionsgateplus looke mail_ru manus mastodon mercado_libre meta_ai minecraft nebula netflix nintendo nvidia odysee ok olvid onlyfans origin paramountplus peacock_tv perplexity pinterest playstation playstore plenty_of_fish plex pluto_tv privacy proton qq rakuten_viki reddit riot_games roblox rockstar_games samsung_tv_plus shein shopee signal skype slack snapchat soundcloud spotify spotify_video steam telegram temu tidal tiktok tinder tumblr twitch twitter ubisoft valorant viber vimeo vk voot wargaming wechat weibo whatsapp wizz xboxlive xiaohongshu youtube yy zhihu",
		"tiktok tinder facebook snapchat instagram fortnite messenger leagueoflegends 9gag tumblr vk roblox twitch telegram minecraft pinterest discord twitter netflix dailymotion youtube whatsapp steam blizzard reddit hulu skype primevideo disneyplus spotify ebay amazon imgur vimeo signal hbomax zoom xboxlive playstation-network google-chat mastodon bereal chatgpt",
	} {
		for name := range strings.FieldsSeq(names) {
			if _, ok := Find(name); !ok {
				t.Errorf("the catalogue lacks %s", name)
			}
		}
	}
	if s, ok := Find("YouTube"); !ok || s.ID != "youtube" {
		t.Errorf("YouTube is %+v", s)
	}
	if _, ok := Find(""); ok {
		t.Error("a service without a name was found")
	}
}

func TestServicesAreFoundByHostAndAddress(t *testing.T) {
	for host, want := range map[string]string{
		"youtube.com":             "youtube by youtube.com",
		"r4---sn.googlevideo.com": "youtube by googlevideo.com",
		"music.youtube.com":       "youtube-music by music.youtube.com, youtube by youtube.com",
		"notyoutube.com":          "",
		"youtube.com.example":     "",
		"com":                     "",
		"":                        "",
		"149.154.167.50":          "telegram by 149.154.167.50",
		"2001:67c:4e8:f004::9":    "telegram by 2001:67c:4e8:f004::9",
		"::ffff:149.154.167.50":   "telegram by ::ffff:149.154.167.50",
		"149.154.1.1":             "",
		"www.messenger.com":       "facebook by messenger.com, messenger by messenger.com",
	} {
		x := &filter.Transaction{Host: host}
		found, err := Check{}.Find(t.Context(), x, filter.Name, nil)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range found {
			_, entry, _ := strings.Cut(f.Evidence, ": ")
			got = append(got, fmt.Sprintf("%s by %s", f.Category, entry))
		}
		if all := strings.Join(got, ", "); all != want {
			t.Errorf("%q is %q, want %q", host, all, want)
		}
		if late, _ := (Check{}).Find(t.Context(), x, filter.Request, nil); len(late) > 0 {
			t.Errorf("%q is found again with the request", host)
		}
	}
}

func TestAnUnknownHostAllocatesNothing(t *testing.T) {
	x := &filter.Transaction{Host: "static.www.shop.example"}
	if n := testing.AllocsPerRun(100, func() { _, _ = Check{}.Find(t.Context(), x, filter.Name, nil) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkFind(b *testing.B) {
	x := &filter.Transaction{Host: "static.www.shop.example"}
	b.ReportAllocs()
	for b.Loop() {
		_, _ = Check{}.Find(b.Context(), x, filter.Name, nil)
	}
}
