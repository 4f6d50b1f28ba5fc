package importer

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"shuultuur/policy"
	"shuultuur/setting"
)

// readNextDNS reads a profile as NextDNS's API returns it, with or without "data" around it.
func readNextDNS(w *work, file string) error {
	w.set.dns()
	return readTree(w, file, "nextdns.json", func(all map[string]string) reader {
		n := &nextDNS{all: map[string]string{}}
		for k, v := range all {
			n.all[strings.TrimPrefix(k, "data.")] = v
		}
		return func(p *plain, key, value string) *Note {
			n.plain = p
			key = strings.TrimPrefix(key, "data.")
			if note, ok := n.entry(key, value); ok {
				return note
			}
			if take := nextDNSTable[key]; take != nil {
				return take(n, value)
			}
			if strings.HasPrefix(key, "parentalControl.recreation.times.") {
				return carried("schedule of the rules")
			}
			switch top, _, _ := strings.Cut(key, "."); top {
			case "id", "name", "fingerprint", "role", "setup", "created", "modified":
				return &Note{Kind: Default}
			case "security":
				if value == "true" {
					return lost("it asks NextDNS's servers; name a list of the kind")
				}
			}
			return &Note{Kind: Lost}
		}
	})
}

// A nextDNS is a profile that is being read.
type nextDNS struct {
	*plain
	all map[string]string // by path
}

// isOff reports whether an entry of a list is switched off.
func (n *nextDNS) isOff(list, number string) bool { return n.all[list+"."+number+".active"] == "false" }

// entry converts an entry of one of the lists of a profile.
func (n *nextDNS) entry(key, value string) (*Note, bool) {
	at := strings.LastIndexByte(key, '.')
	if at < 0 {
		return &Note{}, false
	}
	field := key[at+1:]
	list, number := key[:at], ""
	if dot := strings.LastIndexByte(list, '.'); dot >= 0 {
		list, number = list[:dot], list[dot+1:]
	}
	if _, err := strconv.Atoi(number); err != nil {
		return &Note{}, false
	}
	switch {
	case list == "rewrites":
		return n.rewrite(field, number, value), true
	case field != "id":
		return &Note{Kind: Default}, true // these are active, recreation, and the name of the entry
	case n.isOff(list, number):
		return &Note{Kind: Default, Why: "it is switched off"}, true
	}
	switch list {
	case "denylist":
		return n.addNames(true, value), true
	case "allowlist":
		return n.addNames(false, value), true
	case "security.tlds":
		return n.addNames(true, value), true
	case "privacy.blocklists":
		if nextDNSLists[value] == "" {
			return lostOurs("lists", fmt.Sprintf("https://github.com/nextdns/blocklists/blob/main/blocklists/%s.json names its address: write that as url under lists, and block its category", value)), true
		}
		return n.catalogued(value, nextDNSLists), true
	case "privacy.natives":
		note := n.catalogued("native-"+value, map[string]string{"native-" + value: nextDNSNatives + value})
		return differs(note.Ours, "NextDNS's own list, which is fetched"), true
	case "parentalControl.services":
		return n.service(number, value), true
	case "parentalControl.categories":
		note := n.catalogued(value, nextDNSLists)
		if n.all[list+"."+number+".recreation"] == "true" && note.Kind != Lost {
			rules := n.mainPolicy().Rules
			rules[len(rules)-1].Schedule = n.outsideRecreation()
		}
		return note, true
	}
	return &Note{}, false
}

// rewrite converts a local name, which also covers the names below it.
func (n *nextDNS) rewrite(field, number, value string) *Note {
	if field != "name" {
		return &Note{Kind: Default, Why: "with the name"}
	}
	name, to := strings.TrimPrefix(value, "*."), n.all["rewrites."+number+".content"]
	n.host(n.at, name, to)
	n.host(n.at, "*."+name, to)
	return carried("dns: hosts")
}

func (n *nextDNS) service(number, value string) *Note {
	categories, note := n.blockServices(n.at, []string{value})
	if len(categories) == 0 {
		return note
	}
	r := policy.Rule{Name: "service " + value, Action: "block", Category: categories}
	if n.all["parentalControl.services."+number+".recreation"] == "true" {
		r.Schedule = n.outsideRecreation()
	}
	all := n.mainPolicy()
	all.Rules = append(all.Rules, r)
	return note
}

// outsideRecreation returns the times outside recreation.
func (n *nextDNS) outsideRecreation() policy.Schedule {
	const times = "parentalControl.recreation.times."
	free := map[string]any{"time_zone": n.all["parentalControl.recreation.timezone"]}
	for _, day := range [...]string{"monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"} {
		for _, end := range [...]string{".start", ".end"} {
			free[day[:3]+end] = sinceMidnight(n.all[times+day+end])
		}
	}
	return adGuardBlockedTimes(free, "")
}

// sinceMidnight converts a time of day to a duration: "18:00:00" to "18h0m0s".
func sinceMidnight(s string) string {
	t, err := time.Parse("15:04:05", s)
	if err != nil {
		return "0s"
	}
	return t.Sub(t.Truncate(24 * time.Hour)).String()
}

// nextDNSTable has the settings that are not lists.
var nextDNSTable = map[string]func(n *nextDNS, value string) *Note{
	"security.threatIntelligenceFeeds": func(n *nextDNS, value string) *Note { return n.kind("threatIntelligenceFeeds", value) },
	"security.cryptojacking":           func(n *nextDNS, value string) *Note { return n.kind("cryptojacking", value) },
	"security.dnsRebinding": func(_ *nextDNS, value string) *Note {
		if value == "true" {
			return carried("dns: private, which refuses private addresses of foreign names")
		}
		return differs("dns: private", "private addresses of foreign names are refused; write the domains that may have them under private")
	},
	"privacy.disguisedTrackers": func(_ *nextDNS, value string) *Note {
		if value == "true" {
			return carried("dns, which judges aliases")
		}
		return differs("dns", "aliases are judged too")
	},
	"privacy.allowAffiliate": func(_ *nextDNS, value string) *Note {
		if value != "true" {
			return &Note{Kind: Default}
		}
		return lostOurs("lists.allowed", "write there the hosts of affiliate links that should open")
	},
	"parentalControl.safeSearch": func(n *nextDNS, value string) *Note {
		if value != "true" {
			return &Note{Kind: Default}
		}
		n.mainPolicy().SafeSearch = true
		return carried("safesearch: true")
	},
	"parentalControl.youtubeRestrictedMode": func(n *nextDNS, value string) *Note {
		if value != "true" {
			return &Note{Kind: Default}
		}
		n.mainPolicy().YouTube = "strict"
		return carried("youtube: strict")
	},
	"parentalControl.blockBypass":         func(n *nextDNS, value string) *Note { return n.kind("bypass", value) },
	"parentalControl.recreation.timezone": func(*nextDNS, string) *Note { return carried("schedule of the rules") },
	"settings.blockPage.enabled": func(_ *nextDNS, value string) *Note {
		if value != "true" {
			return &Note{Kind: Default}
		}
		return lostOurs("dns: block: sinkhole", "write the address of this machine there, so that blocked names lead to the block page")
	},
	"settings.logs.enabled": func(n *nextDNS, value string) *Note {
		if value == "true" {
			return carried("events")
		}
		n.leaveOutQueries()
		return carried("dns: log")
	},
	"settings.logs.retention": func(n *nextDNS, value string) *Note {
		seconds, err := strconv.ParseInt(value, 10, 32)
		if err != nil || seconds < 3600 {
			return lostOurs("events: keep", fmt.Sprintf("%q is less than an hour", value))
		}
		n.keepRecord(time.Duration(seconds) * time.Second)
		return carried("events: keep")
	},
	"settings.logs.drop.ip": func(n *nextDNS, value string) *Note {
		if value != "true" {
			return &Note{Kind: Default}
		}
		if seconds, err := strconv.ParseInt(n.all["settings.logs.retention"], 10, 64); err == nil && seconds < 2*24*3600 {
			return differs("events: keep", "rows have their clients, and are deleted after that time")
		}
		n.set.Events.SQLite, n.set.Events.Anonymise = "events.db", setting.Duration(24*time.Hour)
		return differs("events: anonymise", "rows lose their clients after a day")
	},
	"settings.logs.location": func(*nextDNS, string) *Note { return differs("data", "the record is in the data folder") },
	"settings.performance.ecs": func(*nextDNS, string) *Note {
		return &Note{Kind: Default, Why: "the networks of clients are not sent to upstreams"}
	},
	"settings.performance.cacheBoost":      func(*nextDNS, string) *Note { return &Note{Kind: Default, Why: "dns: cache: min-ttl does the same"} },
	"settings.performance.cnameFlattening": func(*nextDNS, string) *Note { return &Note{Kind: Default} },
}

// kind blocks a kind of list if the setting is on.
func (n *nextDNS) kind(id, value string) *Note {
	if value != "true" {
		return &Note{Kind: Default}
	}
	return n.catalogued(id, nextDNSLists)
}

// nextDNSNatives has NextDNS's own list of trackers for each maker of devices.
const nextDNSNatives = "https://raw.githubusercontent.com/nextdns/native-tracking-domains/main/domains/"

// hagezi has lists by HaGeZi that the catalogue does not have.
const hagezi = "https://raw.githubusercontent.com/hagezi/dns-blocklists/main/adblock/"

// nextDNSLists has lists of the catalogue, or addresses, in place of the lists that NextDNS
// maintains.
var nextDNSLists = map[string]string{
	"nextdns-recommended": "hagezi-normal", "oisd": "oisd-big", "stevenblack": "stevenblack", "adguard-base-filter": "adguard-dns", "adguard-dns-filter": "adguard-dns",
	"easylist": "easylist", "easyprivacy": "easyprivacy", "hagezi-multi-light": "hagezi-light", "hagezi-multi-normal": "hagezi-normal", "hagezi-multi-pro": "hagezi-pro", "hagezi-multi-pro-plus": hagezi + "pro.plus.txt", "hagezi-multi-ultimate": hagezi + "ultimate.txt", "peter-lowe": "peter-lowe",
	"oisd-small": "oisd-small", "oisd-big": "oisd-big", "oisd-nsfw": "oisd-nsfw", "hagezi-tif": "hagezi-tif", "hagezi-threat-intelligence-feeds": "hagezi-tif", "hagezi-gambling": hagezi + "gambling.txt", "hagezi-nsfw": hagezi + "nsfw.txt", "hagezi-piracy": hagezi + "anti.piracy.txt",
	"hagezi-apple": hagezi + "native.apple.txt", "hagezi-amazon": hagezi + "native.amazon.txt", "hagezi-samsung": hagezi + "native.samsung.txt", "hagezi-xiaomi": hagezi + "native.xiaomi.txt", "hagezi-huawei": hagezi + "native.huawei.txt", "hagezi-windows-office": hagezi + "native.winoffice.txt", "hagezi-tiktok": hagezi + "native.tiktok.txt", "hagezi-lg-webos": hagezi + "native.lgwebos.txt", "hagezi-roku": hagezi + "native.roku.txt",
	"1hosts-lite": "https://raw.githubusercontent.com/badmojr/1Hosts/master/Lite/domains.wildcards", "goodbye-ads": "https://raw.githubusercontent.com/jerryn70/GoodbyeAds/master/Hosts/GoodbyeAds.txt", "hblock": "https://hblock.molinero.dev/hosts_domains.txt",
	"porn": "ut1-adult", "gambling": "ut1-gambling", "dating": "ut1-dating", "piracy": "ut1-warez", "social-networks": "ut1-social_networks", "gaming": "ut1-games", "video-streaming": "ut1-audio-video",
	"threatIntelligenceFeeds": "hagezi-tif", "cryptojacking": "ut1-cryptojacking", "bypass": "ut1-doh",
}
