//go:build !small

package main

import (
	"bytes"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shuultuur/test/race"
)

// TestImportDecidesAsTheProgramsRules imports settings in which the order and the kinds of
// rules decide. It compares the decisions about a thousand names or pages, for clients that the
// rules distinguish.
func TestImportDecidesAsTheProgramsRules(t *testing.T) {
	race.Without(t)
	for _, tt := range []struct {
		program, path, files string
		pages                bool
	}{
		{"adguardhome", "AdGuardHome.yaml", adGuardVariants, false},
		{"pihole", "", "", false},
		{"squidguard", "squidGuard.conf", squidGuardVariants, true},
		{"privoxy", "user.action", privoxyVariants, true},
		{"unbound", "unbound.conf", unboundVariants, false},
		{"dnsmasq", "dnsmasq.conf", dnsmasqVariants, false},
		{"dnsmasq", "dnsmasq.conf", "-- dnsmasq.conf --\naddress=/#/192.0.2.1\nserver=/ads.example/games.example/10.0.0.1\nserver=9.9.9.9\n", false},
		{"blocky", "config.yml", blockyVariants, false},
		{"technitium", "settings.json", technitiumVariants, false},
		{"nextdns", "nextdns.json", nextDNSVariants, false},
		{"opnsense", "config.xml", opnSenseVariants, false},
	} {
		t.Run(tt.program, func(t *testing.T) {
			var dir string
			if tt.program == "pihole" {
				dir = t.TempDir()
				fillGravity(t, filepath.Join(dir, "gravity.db"), piholeVariants)
			} else {
				dir = unpack(t, tt.files)
			}
			log := filepath.Join(dir, "queries.log")
			if err := os.WriteFile(log, []byte(thousand(tt.pages)), 0o600); err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			status := importCommand(t.Context(), env{stdout: &out, stderr: &out}, []string{tt.program, filepath.Join(dir, tt.path), "-to", filepath.Join(t.TempDir(), "new"), "-compare", log})
			if status != 0 || !strings.Contains(out.String(), "1000 judged, 0 verdicts change") || strings.Contains(out.String(), "not tried") {
				t.Errorf("import -compare ends with status %d:\n%s", status, out.String())
			}
			refused := 0
			for line := range strings.Lines(out.String()) {
				_, _ = fmt.Sscanf(line, "block %d", &refused)
			}
			if refused < 100 || refused > 900 {
				t.Errorf("the program refuses %d of 1000 requests: too few or too many to try the rules\n%s", refused, out.String())
			}
		})
	}
}

// thousand returns a log of a thousand queries or requests, in the format of
// dnsmasq or Squid.
func thousand(pages bool) string {
	r := rand.New(rand.NewPCG(22, 7))
	pick := func(all ...string) string { return all[r.IntN(len(all))] }
	var b strings.Builder
	for range 1000 {
		name := pick("", "", "www.", "a.b.", "good.", "ads7.", "ad.", "www2.", "track12.") +
			pick("ads.example", "good.ads.example", "games.example", "hosted.example", "bare.example", "strong.example", "spam12.example", "kids.example", "deny.example", "anti.example", "lan.example", "other.example", "other.example", "192.0.2.7")
		client := pick("10.1.0.5", "10.2.3.4", "10.3.0.9", "10.4.0.1")
		if !pages {
			fmt.Fprintf(&b, "Nov 23 08:00:00 dnsmasq[417]: query[%s] %s from %s\n", pick("A", "A", "AAAA", "HTTPS", "TXT"), name, client)
			continue
		}
		fmt.Fprintf(&b, "1795420800.000 1 %s TCP_MISS/200 10 GET http://%s%s %s HIER_NONE/- text/html\n", client, name,
			pick("/", "/banners/x.gif", "/Banners", "/play/now?x=1", "/a/casino.html", "/a"), pick("-", "-", "anna", "ben"))
	}
	return b.String()
}

const adGuardVariants = `
-- AdGuardHome.yaml --
filtering:
  rewrites:
    - {domain: "*.lan.example", answer: 10.0.0.1}
    - {domain: good.lan.example, answer: ads.example}
    - {domain: ads7.lan.example, answer: A}
filters:
  - {enabled: true, url: "https://f.example/1", name: Rules, id: 1}
  - {enabled: true, url: "https://f.example/2", name: Hosts, id: 2}
whitelist_filters:
  - {enabled: true, url: "https://f.example/3", name: Allowed, id: 3}
user_rules:
  - "@@||good.ads.example^"
  - "@@||good.strong.example^$important"
  - "||kids.example^$client=10.2.0.0/16"
  - "||deny.example^$denyallow=good.deny.example|www.deny.example"
  - "||games.example^$dnstype=AAAA|HTTPS"
  - "||www2.other.example^$dnsrewrite=192.0.2.1"
  - "@@||other.example^$client='Anna'"
  - "||anti.example^"
  - "||anti.example^$badfilter"
  - "/^track[0-9]+\\./"
  - "|ad.*.example^"
  - "||other.example^$script"
  - "||other.example^$third-party"
  - alone.example
clients:
  persistent:
    - {name: Anna, ids: [10.1.0.5], use_global_settings: true}
    - {name: Off, ids: [10.3.0.9], use_global_settings: false, filtering_enabled: false}
schema_version: 28
-- data/filters/1.txt --
! rules, and names between them
||ads.example^
||strong.example^$important
bare.example
||spam*.example^
@@||www.spam12.example^
-- data/filters/2.txt --
0.0.0.0 hosted.example
127.0.0.1 www.hosted.example
-- data/filters/3.txt --
||good.spam12.example^
@@||a.b.ads.example^
ads7.bare.example
`

const piholeVariants = `
CREATE TABLE "group" (id INTEGER PRIMARY KEY, enabled BOOLEAN, name TEXT);
CREATE TABLE adlist (id INTEGER PRIMARY KEY, address TEXT, enabled BOOLEAN, type INTEGER);
CREATE TABLE gravity (domain TEXT, adlist_id INTEGER);
CREATE TABLE antigravity (domain TEXT, adlist_id INTEGER);
CREATE TABLE domainlist (id INTEGER PRIMARY KEY, type INTEGER, domain TEXT, enabled BOOLEAN);
CREATE TABLE client (id INTEGER PRIMARY KEY, ip TEXT);
CREATE TABLE adlist_by_group (adlist_id INTEGER, group_id INTEGER);
CREATE TABLE domainlist_by_group (domainlist_id INTEGER, group_id INTEGER);
CREATE TABLE client_by_group (client_id INTEGER, group_id INTEGER);
INSERT INTO "group" VALUES (0, 1, 'Default'), (1, 1, 'Kids'), (2, 0, 'Off');
INSERT INTO adlist VALUES (1, 'https://l.example/hosts', 1, 0), (2, 'https://l.example/kids', 1, 0), (3, 'https://l.example/allow', 1, 1), (4, 'https://l.example/off', 0, 0);
INSERT INTO adlist_by_group VALUES (1, 0), (1, 1), (2, 1), (3, 0), (3, 1), (4, 0);
INSERT INTO gravity VALUES ('hosted.example', 1), ('www.hosted.example', 1), ('||ads.example^', 1), ('||spam12.example^', 1), ('||kids.example^', 2), ('anti.example', 1), ('www.anti.example', 1), ('other.example', 4);
INSERT INTO antigravity VALUES ('anti.example', 3), ('@@||good.spam12.example^', 3), ('deny.example', 3), ('track12.games.example', 3);
INSERT INTO domainlist VALUES (1, 0, 'good.ads.example', 1), (2, 1, 'deny.example', 1), (3, 3, '^track[0-9]+\.', 1), (4, 2, '^www\.ads\.', 1), (5, 3, 'games;querytype=AAAA,HTTPS', 1), (6, 3, '^a\.b\..*;querytype=!A', 1), (7, 3, '\.example$;invert', 1), (8, 1, 'bare.example', 1), (9, 1, 'other.example', 0), (10, 3, '^ad\.strong;reply=nxdomain', 1), (11, 0, 'good.kids.example', 1), (12, 1, 'www.bare.example', 1);
INSERT INTO domainlist_by_group VALUES (1, 0), (2, 0), (2, 1), (3, 0), (3, 1), (4, 0), (5, 0), (5, 1), (6, 1), (7, 0), (8, 0), (9, 0), (10, 0), (11, 1), (12, 2);
INSERT INTO client VALUES (1, '10.2.0.0/16'), (2, '10.3.0.9'), (3, '10.1.0.5');
INSERT INTO client_by_group VALUES (1, 1), (2, 2), (3, 0), (3, 1);
`

const squidGuardVariants = `
-- squidGuard.conf --
dbhome db
time lessons { weekly mtwhf 06:00 - 23:00 }
time night { weekly * 00:00 - 05:00 }
time seldom { weekly saturdays,sundays 02:00 - 03:00 04:00-04:30 }
time days {
    weekly mtw
    weekly thursday, fridays
    weekly sa
}
src pupils {
    ip 10.2.0.0/16
}
src anna {
    user anna
}
src staff {
    ip 10.1.0.1-10.1.0.99
}
src late outside seldom {
    ip 10.3.0.0/24
}
dest games {
    domainlist games/domains
    urllist games/urls
}
dest ads within days {
    domainlist ads/domains
    expressionlist ads/expressions
}
dest fine {
    domainlist fine/domains
}
dest never outside days {
    domainlist fine/domains
}
acl {
    pupils within lessons {
        pass !never fine !in-addr !games !ads all
    } else {
        pass none
    }
    anna {
        pass all
    }
    staff {
        pass !ads games none
    }
    late outside night {
        pass !games all
    }
    default {
        pass fine !ads all
        redirect http://intranet.example/blocked?u=%u&c=%t&a=%a
    }
}
-- db/games/domains --
games.example
kids.example
-- db/games/urls --
other.example/play
bare.example/a
-- db/ads/domains --
ads.example
strong.example
-- db/ads/expressions --
/banners/
casino\.html$
-- db/fine/domains --
good.ads.example
www.games.example
`

const privoxyVariants = `
-- user.action --
{{alias}}
+shut = +block{by alias} +handle-as-image
fragile = -block -filter
{ +block{advertising} }
.ads.example
hosted.example
spam*.example
/banners/
.other.example/(.*/)?casino
ad.
{ -block }
good.ads.example
.spam12.example/play
{ +filter{banners} }
/
{ +shut }
www.
ad[0-9s]*.kids.example
games.example/play/.*\?x=1$
{ fragile }
www.kids.
www2.ads.example
{ +block{the last \
 word} }
bare.example:80/
www.strong.example
`

const unboundVariants = `
-- unbound.conf --
server:
    local-zone: "ads.example." always_nxdomain
    local-zone: "good.ads.example." transparent
    local-zone: "games.example" static
    local-data: "www.games.example. IN A 192.0.2.1"
    local-zone: "spam12.example" always_refuse
    local-data: "www.spam12.example. IN A 192.0.2.2"
    local-zone: "kids.example" redirect
    local-data: "kids.example. IN A 192.0.2.3"
    local-zone: "strong.example" deny
    local-data: "lan.example. IN A 192.0.2.9"
`

const dnsmasqVariants = `
-- dnsmasq.conf --
server=9.9.9.9
address=/ads.example/0.0.0.0
server=/good.ads.example/#
address=/games.example/kids.example/
local=/strong.example/
address=/www.strong.example/192.0.2.4
address=/spam12.example/::
host-record=good.spam12.example,192.0.2.5
`

const technitiumVariants = `
-- settings.json --
{"response": {"enableBlocking": true, "blockingType": "AnyAddress", "blockingBypassList": ["10.3.0.0/24"],
 "blockedZones": ["ads.example", "Games.example", "www.other.example", "kids.example"], "allowedZones": ["good.ads.example", "www.games.example"]}, "status": "ok"}
`

const nextDNSVariants = `
-- nextdns.json --
{"security": {"tlds": [{"id": "zip"}]},
 "denylist": [{"id": "ads.example", "active": true}, {"id": "games.example", "active": true}, {"id": "other.example", "active": false}, {"id": "www.kids.example"}],
 "allowlist": [{"id": "good.ads.example", "active": true}, {"id": "a.b.games.example", "active": true}, {"id": "ads.example.invalid", "active": false}],
 "rewrites": [{"name": "*.lan.example", "content": "10.0.0.1"}, {"name": "www.ads.example", "content": "10.0.0.2"}]}
`

const opnSenseVariants = `
-- config.xml --
<opnsense><OPNsense><unboundplus>
 <dnsbl>
  <blocklist><enabled>1</enabled><blocklists>bare.example,www.kids.example</blocklists><wildcards>ads.example,games.example</wildcards><whitelists>good.ads.example,www2.games.example</whitelists></blocklist>
  <blocklist><enabled>0</enabled><wildcards>other.example</wildcards></blocklist>
 </dnsbl>
 <hosts><host uuid="h"><enabled>1</enabled><hostname>www</hostname><domain>games.example</domain><rr>A</rr><server>10.0.0.1</server></host></hosts>
</unboundplus><proxy><general><enabled>1</enabled></general><forward><acl><unrestricted>10.3.0.9</unrestricted></acl></forward></proxy></OPNsense></opnsense>
`

const blockyVariants = `
-- config.yml --
customDNS:
  mapping:
    lan.example: 192.0.2.9
blocking:
  denylists:
    ads:
      - |
        ads.example
        *.games.example
        *.spam12.example
        0.0.0.0 hosted.example
        *.strong.example # all of it
        *.kids.example
        www.other.example
    kids:
      - |
        bare.example
        *.good.ads.example
  allowlists:
    ads:
      - |
        good.spam12.example
        *.www.games.example
    school: ["*.kids.example\n*.lan.example\n"]
  clientGroupsBlock:
    default: [ads]
    10.2.0.0/16: [ads]
    10.2.3.0/24: [kids]
    10.4.0.1: [school]
`

// fillGravity makes a database of Pi-hole.
func fillGravity(t *testing.T, file, text string) {
	t.Helper()
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(text); err != nil {
		t.Fatal(err)
	}
}
