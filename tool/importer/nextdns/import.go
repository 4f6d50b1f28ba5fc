// Package nextdns imports a profile of NextDNS as its API returns it.
package nextdns

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"shuultuur/lib/setting"
	"shuultuur/policy"
	"shuultuur/tool/importer/build"
	"shuultuur/tool/importer/report"
)

// Import reads a profile as NextDNS's API returns it, with or without "data" around it.
func Import(w *build.Work, file string) error {
	w.Set.UseDNS()
	return build.ReadTree(w, file, "nextdns.json", func(all map[string]string) build.Reader {
		n := &profile{all: map[string]string{}}
		for k, v := range all {
			n.all[strings.TrimPrefix(k, "data.")] = v
		}
		return func(p *build.Plain, key, value string) *report.Note {
			n.p = p
			key = strings.TrimPrefix(key, "data.")
			if note, ok := n.entry(key, value); ok {
				return note
			}
			if take := table[key]; take != nil {
				return take(n, value)
			}
			if strings.HasPrefix(key, "parentalControl.recreation.times.") {
				return report.Same("schedule of the rules")
			}
			switch top, _, _ := strings.Cut(key, "."); top {
			case "id", "name", "fingerprint", "role", "setup", "created", "modified":
				return &report.Note{Kind: report.Default}
			case "security":
				if value == "true" {
					return report.None("it asks NextDNS's servers; name a list of the kind").Opening()
				}
			}
			return &report.Note{Kind: report.Lost}
		}
	})
}

// A profile is a profile that is being read.
type profile struct {
	p   *build.Plain
	all map[string]string // by path
}

// isList has the lists whose entries are objects with an "id", or that text alone: profiles are kept
// and exported in both forms.
var isList = map[string]bool{
	"denylist": true, "allowlist": true, "security.tlds": true, "privacy.blocklists": true, "privacy.natives": true,
	"parentalControl.services": true, "parentalControl.categories": true,
}

// isOff reports whether an entry of a list is switched off.
func (n *profile) isOff(list, number string) bool { return n.all[list+"."+number+".active"] == "false" }

// entry converts an entry of one of the lists of a profile.
func (n *profile) entry(key, value string) (*report.Note, bool) {
	list, number, field := key, "", "id" // of an entry that is a name alone
	if at := strings.LastIndexByte(key, '.'); !isList[key] && at >= 0 {
		list, field = key[:at], key[at+1:]
		if dot := strings.LastIndexByte(list, '.'); dot >= 0 {
			list, number = list[:dot], list[dot+1:]
		}
	}
	if _, err := strconv.Atoi(number); err != nil && !isList[key] {
		return &report.Note{}, false
	}
	switch {
	case list == "rewrites":
		return n.rewrite(field, number, value), true
	case field != "id":
		return &report.Note{Kind: report.Default}, true // these are active, recreation, and the name of the entry
	case n.isOff(list, number):
		return &report.Note{Kind: report.Default, Why: "it is switched off"}, true
	}
	switch list {
	case "denylist":
		return n.p.AddNames(true, value), true
	case "allowlist":
		return n.p.AddNames(false, value), true
	case "security.tlds":
		return n.p.AddNames(true, value), true
	case "privacy.blocklists":
		if lists[value] == "" {
			return report.ByHand("lists", fmt.Sprintf("https://github.com/nextdns/blocklists/blob/main/blocklists/%s.json names its address: write that as url under lists, and block its category", value)).Opening(), true
		}
		return n.p.Catalogued(value, lists), true
	case "privacy.natives":
		note := n.p.Catalogued("native-"+value, map[string]string{"native-" + value: natives + value})
		return report.Differs(note.Ours, "NextDNS's own list, which is fetched"), true
	case "parentalControl.services":
		return n.service(number, value), true
	case "parentalControl.categories":
		note := n.p.Catalogued(value, lists)
		if n.all[list+"."+number+".recreation"] == "true" && note.Kind != report.Lost {
			rules := n.p.Work.MainPolicy().Rules
			rules[len(rules)-1].Schedule = n.outsideRecreation()
		}
		return note, true
	}
	return &report.Note{}, false
}

// rewrite converts a local name, which also covers the names below it.
func (n *profile) rewrite(field, number, value string) *report.Note {
	if field != "name" {
		return &report.Note{Kind: report.Default, Why: "with the name"}
	}
	name, to := strings.TrimPrefix(value, "*."), n.all["rewrites."+number+".content"]
	n.p.Work.Host(n.p.At, name, to)
	n.p.Work.Host(n.p.At, "*."+name, to)
	return report.Same("dns: hosts")
}

func (n *profile) service(number, value string) *report.Note {
	services, note := build.Services([]string{value})
	if len(services) == 0 {
		return note
	}
	r := policy.Rule{Name: "service " + value, Action: "block", Service: services}
	if n.all["parentalControl.services."+number+".recreation"] == "true" {
		r.Schedule = n.outsideRecreation()
	}
	all := n.p.Work.MainPolicy()
	all.Rules = append(all.Rules, r)
	return note
}

// outsideRecreation returns the times outside recreation.
func (n *profile) outsideRecreation() policy.Schedule {
	const times = "parentalControl.recreation.times."
	free := map[string]any{"time_zone": n.all["parentalControl.recreation.timezone"]}
	for _, day := range [...]string{"monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"} {
		for _, end := range [...]string{".start", ".end"} {
			free[day[:3]+end] = sinceMidnight(n.all[times+day+end])
		}
	}
	return build.BlockedTimes(free, "")
}

// sinceMidnight converts a time of day to a duration: "18:00:00" to "18h0m0s".
func sinceMidnight(s string) string {
	t, err := time.Parse("15:04:05", s)
	if err != nil {
		return "0s"
	}
	return t.Sub(t.Truncate(24 * time.Hour)).String()
}

// table has the settings that are not lists.
var table = map[string]func(n *profile, value string) *report.Note{
	"security.threatIntelligenceFeeds": func(n *profile, value string) *report.Note { return n.kind("threatIntelligenceFeeds", value) },
	"security.cryptojacking":           func(n *profile, value string) *report.Note { return n.kind("cryptojacking", value) },
	"security.dnsRebinding": func(_ *profile, value string) *report.Note {
		if value == "true" {
			return report.Same("dns: private, which refuses private addresses of foreign names")
		}
		return report.Differs("dns: private", "private addresses of foreign names are refused; write the domains that may have them under private")
	},
	"privacy.disguisedTrackers": func(_ *profile, value string) *report.Note {
		if value == "true" {
			return report.Same("dns, which judges aliases")
		}
		return report.Differs("dns", "aliases are judged too")
	},
	"privacy.allowAffiliate": func(_ *profile, value string) *report.Note {
		if value != "true" {
			return &report.Note{Kind: report.Default}
		}
		return report.ByHand("lists.allowed", "write there the hosts of affiliate links that should open")
	},
	"parentalControl.safeSearch": func(n *profile, value string) *report.Note {
		if value != "true" {
			return &report.Note{Kind: report.Default}
		}
		n.p.Work.MainPolicy().SafeSearch = true
		return report.Same("safesearch: true")
	},
	"parentalControl.youtubeRestrictedMode": func(n *profile, value string) *report.Note {
		if value != "true" {
			return &report.Note{Kind: report.Default}
		}
		n.p.Work.MainPolicy().YouTube = "strict"
		return report.Same("youtube: strict")
	},
	"parentalControl.blockBypass":         func(n *profile, value string) *report.Note { return n.kind("bypass", value) },
	"parentalControl.recreation.timezone": func(*profile, string) *report.Note { return report.Same("schedule of the rules") },
	"settings.blockPage.enabled": func(_ *profile, value string) *report.Note {
		if value != "true" {
			return &report.Note{Kind: report.Default}
		}
		return report.ByHand("dns: block: sinkhole", "write the address of this machine there, so that blocked names lead to the block page")
	},
	"settings.logs.enabled": func(n *profile, value string) *report.Note {
		if value == "true" {
			return report.Same("events")
		}
		n.p.Work.LeaveOutQueries()
		return report.Same("dns: log")
	},
	"settings.logs.retention": func(n *profile, value string) *report.Note {
		seconds, err := strconv.ParseInt(value, 10, 32)
		if err != nil || seconds < 3600 {
			return report.ByHand("events: keep", fmt.Sprintf("%q is less than an hour", value))
		}
		n.p.Work.KeepRecord(time.Duration(seconds) * time.Second)
		return report.Same("events: keep")
	},
	"settings.logs.drop.ip": func(n *profile, value string) *report.Note {
		if value != "true" {
			return &report.Note{Kind: report.Default}
		}
		if seconds, err := strconv.ParseInt(n.all["settings.logs.retention"], 10, 64); err == nil && seconds < 2*24*3600 {
			return report.Differs("events: keep", "rows have their clients, and are deleted after that time")
		}
		n.p.Work.Set.Events.SQLite, n.p.Work.Set.Events.Anonymise = "events.db", setting.Duration(24*time.Hour)
		return report.Differs("events: anonymise", "rows lose their clients after a day")
	},
	"settings.logs.location": func(*profile, string) *report.Note { return report.Differs("data", "the record is in the data folder") },
	"settings.performance.ecs": func(*profile, string) *report.Note {
		return &report.Note{Kind: report.Default, Why: "the networks of clients are not sent to upstreams"}
	},
	"settings.performance.cacheBoost": func(*profile, string) *report.Note {
		return &report.Note{Kind: report.Default, Why: "dns: cache: min-ttl does the same"}
	},
	"settings.performance.cnameFlattening": func(*profile, string) *report.Note { return &report.Note{Kind: report.Default} },
}

// kind blocks a kind of list if the setting is on.
func (n *profile) kind(id, value string) *report.Note {
	if value != "true" {
		return &report.Note{Kind: report.Default}
	}
	return n.p.Catalogued(id, lists)
}

// natives has NextDNS's own list of trackers for each maker of devices.
const natives = "https://raw.githubusercontent.com/nextdns/native-tracking-domains/main/domains/"

// hagezi has lists by HaGeZi that the catalogue does not have.
const hagezi = "https://raw.githubusercontent.com/hagezi/dns-blocklists/main/adblock/"

// lists has lists of the catalogue, or addresses, in place of the lists that NextDNS
// maintains.
var lists = map[string]string{
	"nextdns-recommended": "hagezi-normal", "oisd": "oisd-big", "stevenblack": "stevenblack", "adguard-base-filter": "adguard-dns", "adguard-dns-filter": "adguard-dns",
	"easylist": "easylist", "easyprivacy": "easyprivacy", "hagezi-multi-light": "hagezi-light", "hagezi-multi-normal": "hagezi-normal", "hagezi-multi-pro": "hagezi-pro", "hagezi-multi-pro-plus": hagezi + "pro.plus.txt", "hagezi-multi-ultimate": hagezi + "ultimate.txt", "peter-lowe": "peter-lowe",
	"oisd-small": "oisd-small", "oisd-big": "oisd-big", "oisd-nsfw": "oisd-nsfw", "hagezi-tif": "hagezi-tif", "hagezi-threat-intelligence-feeds": "hagezi-tif", "hagezi-gambling": hagezi + "gambling.txt", "hagezi-nsfw": hagezi + "nsfw.txt", "hagezi-piracy": hagezi + "anti.piracy.txt",
	"hagezi-apple": hagezi + "native.apple.txt", "hagezi-amazon": hagezi + "native.amazon.txt", "hagezi-samsung": hagezi + "native.samsung.txt", "hagezi-xiaomi": hagezi + "native.xiaomi.txt", "hagezi-huawei": hagezi + "native.huawei.txt", "hagezi-windows-office": hagezi + "native.winoffice.txt", "hagezi-tiktok": hagezi + "native.tiktok.txt", "hagezi-lg-webos": hagezi + "native.lgwebos.txt", "hagezi-roku": hagezi + "native.roku.txt",
	"1hosts-lite": "https://raw.githubusercontent.com/badmojr/1Hosts/master/Lite/domains.wildcards", "goodbye-ads": "https://raw.githubusercontent.com/jerryn70/GoodbyeAds/master/Hosts/GoodbyeAds.txt", "hblock": "https://hblock.molinero.dev/hosts_domains.txt",
	"porn": "ut1-adult", "gambling": "ut1-gambling", "dating": "ut1-dating", "piracy": "ut1-warez", "social-networks": "ut1-social_networks", "gaming": "ut1-games", "video-streaming": "ut1-audio-video",
	"threatIntelligenceFeeds": "hagezi-tif", "cryptojacking": "ut1-cryptojacking", "bypass": "ut1-doh",
}
