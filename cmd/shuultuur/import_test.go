//go:build !small

package main

import (
	"bytes"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shuultuur/test/race"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"shuultuur/engine/configuration"
	"shuultuur/filter"
	"shuultuur/lib/setting"
	"shuultuur/test/peer"
	"shuultuur/tool/importer"
	imports "shuultuur/tool/importer/report"
)

// unpack writes the files of an archive into a folder of the test.
func unpack(t *testing.T, archive string) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range txtar.Parse([]byte(archive)).Files {
		path := filepath.Join(dir, filepath.FromSlash(f.Name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		data := bytes.ReplaceAll(f.Data, []byte("@D@"), []byte(dir))
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// importFrom runs the command and returns the settings and the report.
func importFrom(t *testing.T, program, path string) (settings, report string) {
	t.Helper()
	to := t.TempDir()
	var out, errs bytes.Buffer
	if status := importCommand(t.Context(), env{stdout: &out, stderr: &errs}, []string{program, path, "-to", to}); status != 0 && status != imports.Opened {
		yaml, _ := os.ReadFile(filepath.Join(to, importer.SettingsFile))
		t.Fatalf("import %s: status %d, %s\n%s", program, status, errs.String(), yaml)
	}
	text, err := os.ReadFile(filepath.Join(to, "report.txt"))
	if err != nil {
		t.Fatal(err)
	}
	html, err := os.ReadFile(filepath.Join(to, "report.html"))
	if err != nil || !bytes.Contains(html, []byte("</html>")) {
		t.Errorf("report.html is incomplete: %v", err)
	}
	return filepath.Join(to, importer.SettingsFile), string(text)
}

// A decision is the imported program's answer to a request.
type decision struct {
	client, user, url, page string // text of the page, or ""
	want                    string
}

func decide(t *testing.T, settings string, table []decision) {
	t.Helper()
	for _, d := range table {
		q := question{config: settings, client: "10.0.0.1", method: "GET", url: d.url, user: d.user}
		if d.client != "" {
			q.client = d.client
		}
		if d.page != "" {
			q.file = filepath.Join(t.TempDir(), "page.html")
			if err := os.WriteFile(q.file, []byte("<html><body>"+d.page+"</body></html>"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		x, err := q.ask(t.Context(), env{stdin: strings.NewReader("")})
		if err != nil {
			t.Fatal(err)
		}
		got := x.Action
		if got == "allow" {
			got = "pass"
		}
		if got != d.want {
			t.Errorf("%s for %s%s: got %s by rule %q of %q, want %s", d.url, q.client, d.user, got, x.Rule, x.Policy, d.want)
		}
	}
}

func wantLines(t *testing.T, report string, lines ...string) {
	t.Helper()
	for _, l := range lines {
		if !strings.Contains(report, l) {
			t.Errorf("the report does not say %q", l)
		}
	}
	if t.Failed() {
		t.Log(report)
	}
}

const e2guardianFolder = `
-- e2guardian.conf --
# e2guardian config file for version 5.3.5
filtergroups = 3
filtergroupslist = '/etc/e2guardian/lists/filtergroupslist'
authplugin = '/etc/e2guardian/authplugins/proxy-basic.conf'
authplugin = '/etc/e2guardian/authplugins/ip.conf'
iplist = 'name=bannedclient,path=/etc/e2guardian/lists/bannedclients'
iplist = 'name=exceptionclient,path=/etc/e2guardian/lists/exceptionclients'
weightedphrasemode = 2
httpworkers = 500
strange = 'x'
-- e2guardianf1.conf --
groupname = 'pupils'
naughtynesslimit = 50
weightedphraselist = '/etc/e2guardian/lists/weighted'
bannedphraselist = '/etc/e2guardian/lists/bannedphrases'
exceptionphraselist = '/etc/e2guardian/lists/exceptionphrases'
sitelist = 'name=banned,messageno=500,path=/etc/e2guardian/lists/bannedsitelist'
urllist = 'name=banned,path=/etc/e2guardian/lists/bannedurllist'
regexpboollist = 'name=banned,path=/etc/e2guardian/lists/bannedregexpurllist'
sitelist = 'name=grey,path=/etc/e2guardian/lists/greysitelist'
sitelist = 'name=exception,path=/etc/e2guardian/lists/exceptionsitelist'
urllist = 'name=exception,path=/etc/e2guardian/lists/exceptionurllist'
sitelist = 'name=localbanned,path=/etc/e2guardian/lists/localbannedsitelist'
sitelist = 'name=localexception,path=/etc/e2guardian/lists/localexceptionsitelist'
sitelist = 'name=localgrey,path=/etc/e2guardian/lists/localgreysitelist'
fileextlist = 'name=bannedextension,path=/etc/e2guardian/lists/bannedextensionlist'
sitelist = 'name=exceptionfile,path=/etc/e2guardian/lists/exceptionfilesitelist'
regexpreplacelist = 'name=change,path=/etc/e2guardian/lists/urlregexplist'
regexpreplacelist = 'name=redirect,path=/etc/e2guardian/lists/urlredirectregexplist'
-- e2guardianf2.conf --
groupname = 'teachers'
naughtynesslimit = 160
sitelist = 'name=banned,path=/etc/e2guardian/lists/bannedsitelist'
bypass = 300
-- e2guardianf3.conf --
groupmode = 0
groupname = 'nothing'
-- authplugins/proxy-basic.conf --
plugname = 'proxy-basic'
-- authplugins/ip.conf --
plugname = 'ip'
ipgroups = '/etc/e2guardian/lists/ipgroups'
-- lists/ipgroups --
10.3.0.0/255.255.0.0 = filter3
10.2.0.1-10.2.0.6 = filter2
-- lists/filtergroupslist --
anna=filter2
ben filter2
-- lists/bannedclients --
10.66.0.1
-- lists/exceptionclients --
10.77.0.0/16
-- lists/bannedsitelist --
#listcategory: "Bad places"
banned.example
www.banned.example
banned.example
grey.example
local-grey.example
excepted.example
.tld-dot.example
http://scheme.example
path.example/in/site/list
.Include</etc/e2guardian/lists/more>
**
-- lists/more --
included.example # a note
-- lists/bannedurllist --
pages.example/bad
pages.example/bad/worse
banned.example/anyway
-- lists/bannedregexpurllist --
(casino|poker)[0-9]+\.
(unclosed
-- lists/greysitelist --
grey.example
-- lists/exceptionsitelist --
excepted.example
local-grey.example
-- lists/exceptionurllist --
banned.example/good
-- lists/localbannedsitelist --
local-banned.example
local-both.example
-- lists/localexceptionsitelist --
local-both.example
-- lists/localgreysitelist --
local-grey.example
-- lists/bannedextensionlist --
.exe  # programs
.tar.gz
-- lists/exceptionfilesitelist --
downloads.example
-- lists/urlregexplist --
"(^http://www\.google\..*/search\?.*)(safe=[^&]*)"->"\1safe=strict"
-- lists/urlredirectregexplist --
"^http://old\.example/.*"->"http://new.example/"
"^http://(.*)\.moved\.example/"->"http://\1.example/"
-- lists/weighted --
#listcategory: "Words"
<lottery><30>
<jackpot><30>
<lottery><20>
.Include</etc/e2guardian/lists/morewords>
<blank> <10>
-- lists/morewords --
<roulette>,<wheel><60>
-- lists/bannedphrases --
<forbidden words>
-- lists/exceptionphrases --
<gambling help line>
`

func TestImportE2guardianDecidesAsItWould(t *testing.T) {
	settings, report := importFrom(t, "e2guardian", unpack(t, e2guardianFolder))
	decide(t, settings, []decision{
		{url: "http://other.example/", want: "pass"},
		{url: "http://banned.example/", want: "block"},
		{url: "http://deep.www.banned.example/x", want: "block"},
		{url: "http://notbanned.example/", want: "pass"},
		{url: "https://banned.example/", want: "block"},
		{url: "http://included.example/", want: "block"},
		{url: "http://banned.example/good/page", want: "pass"},
		{url: "http://banned.example/goods", want: "block"},
		{url: "http://grey.example/", want: "pass"},
		{url: "http://grey.example/", page: "lottery jackpot", want: "block"},
		{url: "http://local-grey.example/", want: "pass"},
		{url: "http://local-grey.example/", page: "lottery jackpot", want: "block"}, // the local grey list precedes the exception
		{url: "http://excepted.example/", page: "forbidden words", want: "pass"},
		{url: "http://local-banned.example/", want: "block"},
		{url: "http://local-both.example/", want: "pass"},
		{url: "http://pages.example/", want: "pass"},
		{url: "http://www.pages.example/bad?x=1", want: "block"},
		{url: "http://pages.example/bad/other", want: "block"}, // e2guardian does not see it because of the entry below, which is its fault
		{url: "http://pages.example/badly", want: "pass"},
		{url: "http://casino77.example/", want: "block"},
		{url: "http://files.example/setup.exe", want: "block"},
		{url: "http://files.example/setup.exe.txt", want: "pass"},
		{url: "http://files.example/a.tar.gz?v=1", want: "block"},
		{url: "http://downloads.example/setup.exe", want: "pass"},
		{url: "http://old.example/x", want: "redirect"},
		{url: "http://other.example/", page: "a lottery", want: "pass"},
		{url: "http://other.example/", page: "a lottery with a jackpot", want: "block"},
		{url: "http://other.example/", page: "the roulette has a wheel", want: "block"},
		{url: "http://other.example/", page: "forbidden words", want: "block"},
		{url: "http://other.example/", page: "forbidden words, gambling help line", want: "pass"},
		{client: "10.66.0.1", url: "http://other.example/", want: "block"},
		{client: "10.77.1.1", url: "http://banned.example/", want: "pass"},
		{client: "10.3.9.9", url: "http://other.example/", want: "block"},
		{client: "10.2.0.6", url: "http://banned.example/", want: "warn"},
		{client: "10.2.0.6", url: "http://other.example/", page: "a lottery with a jackpot", want: "pass"},
		{client: "10.2.0.6", url: "http://other.example/", page: "forbidden words", want: "pass"}, // that program has no phrase lists
		{client: "10.2.0.7", url: "http://other.example/", page: "a lottery with a jackpot", want: "block"},
		{user: "anna", url: "http://pages.example/bad", want: "pass"},
	})
	wantLines(t, report,
		`lists/bannedsitelist:4: "banned.example" is in `, `"www.banned.example" is covered by "banned.example"`,
		`"path.example/in/site/list" has a path but is in a site list`,
		`lists/bannedregexpurllist:2: `, `"banned.example/anyway" is covered by "banned.example"`,
		`"local-both.example" is covered by "local-both.example"`, `pages.example/bad/worse" is covered by`,
		`strange = 'x': there is no counterpart`, `httpworkers = 500`, `"**" has no effect since e2guardian 5`,
		`lists/filtergroupslist:2: `, `safesearch: true`, `lists/weighted:4: phrase "<lottery>" is already in`, `lists/weighted:6: blank before the weight`,
		`moved\.example/"->"http://\1.example/": a redirect leads to a fixed URL`, `category bannedsitelist`,
		`naughtynesslimit = 160: the group has no phrase lists`)
}

const dansguardianFolder = `
-- dansguardian.conf --
filterport = 8080
filtergroups = 1
bannediplist = '@D@/lists/bannediplist'
-- dansguardianf1.conf --
groupmode = 1
bannedsitelist = '@D@/lists/bannedsitelist'
exceptionsitelist = '@D@/lists/exceptionsitelist'
greysitelist = '@D@/lists/greysitelist'
picsfile = '@D@/lists/pics'
-- lists/bannediplist --
-- lists/bannedsitelist --
**
*ip
-- lists/exceptionsitelist --
school.example
-- lists/greysitelist --
grey.example
`

func TestImportDansGuardianKeepsBlanketBlocks(t *testing.T) {
	settings, report := importFrom(t, "dansguardian", unpack(t, dansguardianFolder))
	decide(t, settings, []decision{
		{url: "http://school.example/", want: "pass"},
		{url: "http://grey.example/", want: "pass"},
		{url: "http://other.example/", want: "block"},
		{url: "http://192.0.2.1/", want: "block"},
	})
	wantLines(t, report, "picsfile", `"**" → rule "blanket block"`)
}

func TestImportOfDebiansE2guardianIsGood(t *testing.T) {
	peer.NotQuick(t, "e2guardian")
	if _, err := os.Stat("/etc/e2guardian/e2guardian.conf"); err != nil {
		t.Skip("e2guardian is not installed here")
	}
	settings, report := importFrom(t, "e2guardian", "/etc/e2guardian")
	decide(t, settings, []decision{
		{url: "http://windowsupdate.microsoft.com/x.exe", want: "pass"},
		{url: "http://update.microsoft.com/x.exe", want: "block"}, // its storyboard asks for extensions first
		{url: "http://files.example/x.exe", want: "block"},
	})
	wantLines(t, report, "Import of e2guardian 5.3.5", "examplef1.story' → the order of rules")
}

const squidGuardFolder = `
-- squidGuard.conf --
dbhome @D@/db
logdir /var/log
time never {
	weekly * 00:00 - 24:00
}
src staff {
	ip 10.1.0.0/24 10.1.1.5-10.1.1.9
}
src night {
	ip 10.2.0.0/16
}
src nobody {
}
dest good {
	domainlist good/domains
}
dest bad {
	domainlist bad/domains
	urllist bad/urls
	expressionlist bad/expressions
	redirect 302:http://blocked.example/?u=%u&t=%t
	log bad.log
}
dest gone { domainlist bad/none }
acl {
	staff {
		pass good !bad
	}
	night within never {
		pass good none
	} else {
		pass all
	}
	default {
		pass good !bad !in-addr !gone any
		redirect 301:http://default.example/%p?n=%n
	}
}
-- db/good/domains --
good.example
-- db/bad/domains --
bad.example
www.bad.example
.dotted.example
good.example
-- db/bad/urls --
foo.example/what/ever
foo.example/q?a=1
bad.example/x
-- db/bad/none --
# nothing
-- db/bad/expressions --
(^|[-.])porn[0-9]
([
`

func TestImportSquidGuardDecidesAsItWould(t *testing.T) {
	settings, report := importFrom(t, "squidguard", filepath.Join(unpack(t, squidGuardFolder), "squidGuard.conf"))
	decide(t, settings, []decision{
		{url: "http://other.example/", want: "pass"},
		{url: "http://good.example/", want: "pass"}, // the good site precedes the bad one
		{url: "http://www.bad.example/x", want: "redirect"},
		{url: "http://notbad.example/", want: "pass"},
		{url: "http://foo.example/what/everything", want: "redirect"},
		{url: "http://www3.foo.example:8080/what/ever/index.html", want: "redirect"},
		{url: "http://sub.foo.example/what/ever", want: "pass"},
		{url: "http://foo.example/what", want: "pass"},
		{url: "http://foo.example/q?a=12", want: "redirect"},
		{url: "http://x.example/-PORN5", want: "redirect"},
		{url: "http://192.0.2.7/", want: "redirect"},
		{client: "10.1.1.9", url: "http://192.0.2.7/", want: "pass"},
		{client: "10.1.1.9", url: "http://bad.example/", want: "redirect"},
		{client: "10.1.1.10", url: "http://192.0.2.7/", want: "redirect"},
		{client: "10.2.0.1", url: "http://good.example/", want: "pass"},
		{client: "10.2.0.1", url: "http://other.example/", want: "redirect"},
	})
	wantLines(t, report, `".dotted.example" begins with a dot, so squidGuard never finds it`, `bad/none`,
		`"www.bad.example" is covered by "bad.example"`, `the whole site is in the domain list`, `source nobody`, `does not compile`,
		`a redirect is temporary`, `%p is left out: {url} has the whole address`, `%n becomes the client's address`)
}

func TestImportPiholeDecidesByName(t *testing.T) {
	race.Without(t)
	dir := t.TempDir()
	db, err := sql.Open("sqlite", filepath.Join(dir, "gravity.db"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(`
		CREATE TABLE adlist (id INTEGER PRIMARY KEY, address TEXT, enabled BOOLEAN);
		CREATE TABLE gravity (domain TEXT, adlist_id INTEGER);
		CREATE TABLE domainlist (id INTEGER PRIMARY KEY, type INTEGER, domain TEXT, enabled BOOLEAN);
		CREATE TABLE "group" (id INTEGER PRIMARY KEY, name TEXT);
		CREATE TABLE antigravity (domain TEXT, adlist_id INTEGER);
		INSERT INTO adlist VALUES (1, 'https://lists.example/on', 1), (2, 'https://lists.example/off', 0), (3, 'https://lists.example/allow', 1);
		INSERT INTO antigravity VALUES ('fine.example', 3), ('@@||good.below.example^', 3), ('off.example', 2);
		INSERT INTO gravity VALUES ('ads.example', 1), ('off.example', 2), ('||below.example^', 1), ('allowed.example', 1), ('both.example', 1), ('fine.example', 1);
		INSERT INTO domainlist VALUES (1, 0, 'allowed.example', 1), (2, 1, 'denied.example', 1), (3, 3, '(^|\.)track[0-9]+\.example$', 1), (4, 1, 'notnow.example', 0), (5, 3, 'telemetry', 1), (6, 2, '^both\.', 1),
			(7, 3, '.*;querytype=!A', 1), (8, 2, '.*;querytype=PTR,TXT', 1), (9, 3, '^gone\.example$;reply=nxdomain', 1), (10, 3, '(^|\.)led\.example$;reply=192.0.2.7;reply=2001:db8::7', 1),
			(11, 3, '^quiet\.;reply=none', 1), (12, 3, '^bad\.;when=now', 1), (13, 3, '^(?#a comment)noted\.', 1), (14, 3, '^a\.|_b_', 1);
		INSERT INTO "group" VALUES (0, 'Default'), (1, 'Kids');`); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	settings, report := importFrom(t, "pihole", dir)
	decide(t, settings, []decision{
		{url: "http://ads.example/", want: "block"},
		{url: "https://ads.example/", want: "block"},
		{url: "http://www.ads.example/", want: "pass"}, // Pi-hole's entries are for the name itself
		{url: "http://www.below.example/", want: "block"},
		{url: "http://off.example/", want: "pass"},
		{url: "http://allowed.example/", want: "pass"},
		{url: "http://both.example/", want: "pass"},
		{url: "http://denied.example/", want: "block"},
		{url: "http://notnow.example/", want: "pass"},
		{url: "http://x.track12.example/path", want: "block"},
		{url: "http://xtrack12.example/path", want: "pass"},
		{url: "http://my.telemetry.example/", want: "block"},
		{url: "http://other.example/telemetry", want: "pass"},
		{url: "http://fine.example/", want: "pass"},
		{url: "http://www.good.below.example/", want: "pass"},
		{url: "http://gone.example/", want: "block"},
		{url: "http://noted.example/", want: "block"},
		{url: "https://noted.example/", want: "block"},
		{url: "http://x_b_.example/", want: "block"},
		{url: "http://other.example/x_b_", want: "pass"},
	})
	for ask, want := range map[string]string{
		"other.example A": "pass", "other.example AAAA": "block", "other.example PTR": "pass", "other.example TXT": "pass",
		"gone.example A": "block NXDOMAIN", "www.led.example A": "block NOERROR 192.0.2.7", "led.example AAAA": "block NOERROR 2001:db8::7",
		"quiet.example A": "block", "ads.example A": "block", "fine.example A": "pass",
	} {
		name, kind, _ := strings.Cut(ask, " ")
		x, err := question{config: settings, client: "10.0.0.1", dns: name, contentType: kind}.askName(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Replace(x.Action, "allow", "pass", 1)
		if strings.Contains(want, " ") {
			got += " " + x.Rcode
			for _, r := range x.Answer {
				got += " " + r[strings.LastIndexAny(r, " \t")+1:]
			}
		}
		if got != want {
			t.Errorf("%s: %s (%v), want %s", ask, got, x.Answer, want)
		}
	}
	wantLines(t, report, "reply=none", `"when"`, "lists.example/off: it is switched off", "notnow.example: it is switched off")
}

func TestImportPiholeKeepsGroups(t *testing.T) {
	race.Without(t)
	dir := t.TempDir()
	db, err := sql.Open("sqlite", filepath.Join(dir, "gravity.db"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(`
		CREATE TABLE adlist (id INTEGER PRIMARY KEY, address TEXT, enabled BOOLEAN);
		CREATE TABLE gravity (domain TEXT, adlist_id INTEGER);
		CREATE TABLE domainlist (id INTEGER PRIMARY KEY, type INTEGER, domain TEXT, enabled BOOLEAN);
		CREATE TABLE "group" (id INTEGER PRIMARY KEY, enabled BOOLEAN, name TEXT);
		CREATE TABLE client (id INTEGER PRIMARY KEY, ip TEXT);
		CREATE TABLE adlist_by_group (adlist_id INTEGER, group_id INTEGER);
		CREATE TABLE domainlist_by_group (domainlist_id INTEGER, group_id INTEGER);
		CREATE TABLE client_by_group (client_id INTEGER, group_id INTEGER);
		INSERT INTO "group" VALUES (0, 1, 'Default'), (1, 1, 'Kids'), (2, 1, 'Free'), (3, 0, 'Off'), (4, 1, 'Nobody');
		INSERT INTO adlist VALUES (1, 'https://lists.example/all', 1), (2, 'https://lists.example/kids', 1), (3, 'https://lists.example/nobody', 1);
		INSERT INTO adlist_by_group VALUES (1, 0), (1, 1), (2, 1), (3, 4);
		INSERT INTO gravity VALUES ('ads.example', 1), ('games.example', 2), ('||chat.example^', 2), ('nobody.example', 3);
		INSERT INTO domainlist VALUES (1, 0, 'ads.example', 1), (2, 1, 'denied.example', 1), (3, 3, 'casino', 1);
		INSERT INTO domainlist_by_group VALUES (1, 1), (2, 0), (2, 3), (3, 1), (3, 0);
		INSERT INTO client VALUES (1, '10.2.0.0/16'), (2, '10.2.0.5'), (3, 'AA:BB:CC:00:00:01'), (4, 'laptop'), (5, '10.3.0.5'), (6, '10.2.0.6'), (7, 'aa:bb:cc:00:00:09');
		INSERT INTO client_by_group VALUES (1, 1), (2, 2), (3, 1), (3, 0), (4, 1), (5, 3), (6, 1), (7, 1);`); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "dhcp.leases"), []byte("1770000000 aa:bb:cc:00:00:01 10.1.0.9 tablet *\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	settings, report := importFrom(t, "pihole", dir)
	hosts := []string{"ads.example", "games.example", "www.chat.example", "denied.example", "casino7.example", "nobody.example"}
	for client, want := range map[string]string{ // by whom, and which of hosts are blocked
		"10.1.0.1": "everyone 100110",
		"10.2.0.5": "group Free 000000",
		"10.2.0.6": "group Kids 011010", // they may reach ads.example
		"10.2.7.7": "group Kids (4) 011010",
		"10.1.0.9": "groups Default, Kids 011110",
		"10.3.0.5": "no group 000000",
	} {
		got, policy := "", ""
		for _, host := range hosts {
			x, err := question{config: settings, client: client, method: "GET", url: "http://" + host + "/"}.ask(t.Context(), env{})
			if err != nil {
				t.Fatal(err)
			}
			policy = x.Policy
			got += map[bool]string{true: "1", false: "0"}[x.Action == "block"]
		}
		if policy+" "+got != want && !(strings.HasPrefix(policy, "group Kids") && strings.HasPrefix(want, "group Kids") && strings.HasSuffix(want, got)) {
			t.Errorf("%s: %s %s, want %s", client, policy, got, want)
		}
	}
	wantLines(t, report, "group Off: it is switched off", `client "laptop" of group Kids: clients are identified by address`, `client "aa:bb:cc:00:00:09" of group Kids: clients are identified by address, and this MAC has no`,
		`client "AA:BB:CC:00:00:01" → policy "groups Default, Kids"`, "https://lists.example/nobody of group Nobody: no client is in a group")
}

func TestImportPiholesTextFiles(t *testing.T) {
	settings, report := importFrom(t, "pihole", unpack(t, `
-- adlists.list --
https://lists.example/hosts
-- whitelist.txt --
good.example
-- blacklist.txt --
bad.example
bad.example
-- custom.list --
10.0.0.1 nas.local files.local # both
fd00::1 nas.local
not/a/name
-- dnsmasq.d/05-pihole-custom-cname.conf --
cname=www.local,web.local,nas.local
cname=nas.local,elsewhere.example
-- setupVars.conf --
PIHOLE_DNS_1=192.0.2.53
PIHOLE_DNS_2=192.0.2.54#5353
DNSSEC=true
-- dnsmasq.d/01-pihole.conf --
rev-server=192.168.1.0/24,192.168.1.1
server=/lan/192.168.1.1
-- pihole.toml --
[dns]
  # Upstreams
  upstreams = [
    "192.0.2.55"
  ] ### CHANGED
  hosts = [ "10.0.0.7 six.lan" ]
  cnameRecords = ["seven.lan,six.lan"]
  revServers = ["true,192.168.7.0/24,192.168.7.1#53,seven.example", "false,10.0.0.0/8,10.0.0.1"]
  dnssec = true
[dhcp]
  hosts = ["00:11:22:33:44:55,10.0.0.99"]
`))
	decide(t, settings, []decision{
		{url: "http://bad.example/", want: "block"},
		{url: "http://sub.bad.example/", want: "pass"},
		{url: "http://good.example/", want: "pass"},
	})
	d := importedNames(t, settings)
	if diff := cmp.Diff(map[string]setting.OneOrMore[string]{"nas.local": {"10.0.0.1", "fd00::1"}, "files.local": {"10.0.0.1"}, "www.local": {"nas.local"}, "web.local": {"nas.local"}, "six.lan": {"10.0.0.7"}, "seven.lan": {"six.lan"}}, d.Names.Hosts); diff != "" {
		t.Errorf("imported hosts differ (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(setting.OneOrMore[string]{"192.0.2.55", "192.0.2.53", "192.0.2.54:5353"}, d.Forward.Upstreams); diff != "" || !d.Forward.Validate {
		t.Errorf("imported upstreams differ, or are not validated (%v) (-want +got):\n%s", d.Forward.Validate, diff)
	}
	if diff := cmp.Diff(map[string]setting.OneOrMore[string]{"192.168.1.0/24": {"192.168.1.1"}, "lan": {"192.168.1.1"}, "192.168.7.0/24": {"192.168.7.1"}, "seven.example": {"192.168.7.1"}}, d.Forward.Routes); diff != "" {
		t.Errorf("imported routes differ (-want +got):\n%s", diff)
	}
	wantLines(t, report, "https://lists.example/hosts → lists: url", "www.local leads to nas.local", "nas.local leads to elsewhere.example: it already leads to 10.0.0.1", `"bad.example" is in line 1 already`)
}

// importedNames returns the settings of the name server from an import.
func importedNames(t *testing.T, settings string) *configuration.DNS {
	t.Helper()
	s, err := configuration.Read(settings)
	if err != nil {
		t.Fatal(err)
	}
	if s.DNS == nil {
		t.Fatal("the imported settings have no name server")
	}
	return s.DNS
}

func TestImportAdGuardHomeDecidesAsItWould(t *testing.T) {
	race.Without(t)
	settings, report := importFrom(t, "adguardhome", filepath.Join(unpack(t, `
-- AdGuardHome.yaml --
http: {address: 0.0.0.0:80}
dns:
  upstream_dns: [1.1.1.1, "tls://dns.example", "h3://dns.example/dns-query", "[/lan/home.arpa/]192.168.1.1 192.168.1.2", "[/*.x/]1.2.3.4", "sdns://AQ"]
  bootstrap_dns: [9.9.9.9]
  blocking_mode: nxdomain
  enable_dnssec: true
filtering:
  blocked_services: {ids: [tiktok]}
  safe_search: {enabled: true}
  rewrites:
    - {domain: nas.lan, answer: 10.0.0.1}
    - {domain: NAS.lan, answer: 10.0.0.2}
    - {domain: "*.dev.lan", answer: nas.lan}
    - {domain: old.lan, answer: 10.0.0.3, enabled: false}
    - {domain: x.dev.lan, answer: A}
filters:
  - {enabled: true, url: "https://f.example/1", name: "Ads & more", id: 1}
  - {enabled: false, url: "https://f.example/2", name: Off, id: 2}
  - {enabled: true, url: "https://f.example/3", name: Missing, id: 3}
  - {enabled: true, url: "https://f.example/4", name: "Expressions", id: 4}
  - {enabled: true, url: "https://f.example/6", name: "Hosts", id: 6}
whitelist_filters:
  - {enabled: true, url: "https://f.example/5", name: "Filters", id: 5}
user_rules:
  - "@@||good.ads.example^"
  - "@@||fine.strong.example^"
  - "||wrong.example^$badfilter"
  - "alone.example"
  - "||mine.example^"
clients:
  runtime_sources: {whois: true}
  persistent:
    - {name: Anna, ids: [10.1.0.5, "aa:bb:cc:00:00:01", my-phone, 10.1.0.5], use_global_settings: false, filtering_enabled: false, tags: [device_phone], upstreams: [1.1.1.1]}
    - {name: Kids, ids: [10.2.0.0/16, "AA-BB-CC-00-00-02"], use_global_settings: false, filtering_enabled: true, safe_search: {enabled: true}, blocked_services: {ids: [tiktok]}, ignore_querylog: true}
    - {name: Printer, ids: [10.1.0.9], use_global_settings: true}
    - {name: Phone, ids: [some-client-id]}
schema_version: 28
-- data/leases.json --
{"version": 1, "leases": [{"expires": "2026-01-31T08:00:00Z", "ip": "10.1.0.6", "hostname": "laptop", "mac": "aa:bb:cc:00:00:01", "static": false}]}
-- data/filters/1.txt --
! a comment
||ads.example^
||strong.example^$important
||wrong.example^
||excepted.example^
-- data/filters/4.txt --
||spam*.example^$all
@@||excepted.example^
-- data/filters/6.txt --
# https://f.example/6 || a header
0.0.0.0 hosted.example
bare-example.com
192.0.2.9 nas.example
-- data/filters/5.txt --
@@||good.strong.example^
fine.ads.example
`), "AdGuardHome.yaml"))
	decide(t, settings, []decision{
		{url: "http://www.ads.example/", want: "block"},
		{url: "http://good.ads.example/", want: "pass"},
		{url: "http://fine.ads.example/", want: "pass"},
		{url: "http://strong.example/", want: "block"},
		{url: "http://fine.strong.example/", want: "block"},
		{url: "http://good.strong.example/", want: "pass"},
		{url: "http://wrong.example/", want: "pass"},
		{url: "http://hosted.example/", want: "block"},
		{url: "http://www.hosted.example/", want: "pass"},
		{url: "http://bare-example.com/", want: "block"},
		{url: "http://www.bare-example.com/", want: "pass"},
		{url: "http://alone.example/", want: "block"},
		{url: "http://www.alone.example/", want: "pass"},
		{url: "http://excepted.example/", want: "pass"},
		{url: "http://spam12.example/", want: "block"},
		{url: "http://x.mine.example/", want: "block"},
		{url: "http://other.example/", want: "pass"},
	})
	for client, want := range map[string]struct{ policy, ads string }{
		"10.1.0.5": {"client Anna", "pass"}, "10.1.0.6": {"client Anna", "pass"}, "10.2.3.4": {"client Kids", "block"}, "10.1.0.9": {"everyone", "block"}, "10.1.0.10": {"everyone", "block"},
	} {
		x, err := question{config: settings, client: client, method: "GET", url: "http://www.ads.example/"}.ask(t.Context(), env{})
		if err != nil {
			t.Fatal(err)
		}
		if x.Policy != want.policy || x.Action != want.ads {
			t.Errorf("%s: %s by %q, want %+v", client, x.Action, x.Policy, want)
		}
		safe, err := question{config: settings, client: client, method: "GET", url: "http://www.google.com/search?q=a"}.ask(t.Context(), env{})
		if err != nil {
			t.Fatal(err)
		}
		if got, wants := len(safe.Edits) > 0, want.policy != "client Anna"; got != wants {
			t.Errorf("%s: SafeSearch %v, want %v", client, got, wants)
		}
	}
	wantLines(t, report, `client "Anna", id aa:bb:cc:00:00:01 → 10.1.0.6: clients are identified by address`, `client "Anna", id my-phone → identity: client-ids`, `id 10.1.0.5: it is an address of client Anna already`,
		`client "Anna": tags`, `client "Anna": upstreams`, `client "Kids", id AA-BB-CC-00-00-02: clients are identified by address, and this MAC has no`, `client "Kids": blocked_services`, `client "Kids": ignore_querylog`,
		`client "Printer" → identity: addresses`, `client "Phone", id some-client-id → identity: client-ids`)
	d := importedNames(t, settings)
	if diff := cmp.Diff(map[string]setting.OneOrMore[string]{"nas.lan": {"10.0.0.1", "10.0.0.2"}, "*.dev.lan": {"nas.lan"}}, d.Names.Hosts); diff != "" {
		t.Errorf("imported hosts differ (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(setting.OneOrMore[string]{"1.1.1.1", "tls://dns.example", "h3://dns.example/dns-query"}, d.Forward.Upstreams); diff != "" || !d.Forward.Validate || d.Names.Block.Answer != filter.NXDomain {
		t.Errorf("imported upstreams differ, are not validated (%v), or the block answer is %v (-want +got):\n%s", d.Forward.Validate, d.Names.Block.Answer, diff)
	}
	if diff := cmp.Diff(map[string]setting.OneOrMore[string]{"lan": {"192.168.1.1", "192.168.1.2"}, "home.arpa": {"192.168.1.1", "192.168.1.2"}}, d.Forward.Routes); diff != "" {
		t.Errorf("imported routes differ (-want +got):\n%s", diff)
	}
	wantLines(t, report, `client "Kids": safe_search.enabled: true → safesearch: true`, `client "Anna": filtering_enabled: false → policy "client Anna"`, `client "Printer": use_global_settings: true`, "clients.runtime_sources.whois: true", "upstream [/*.x/]1.2.3.4: routes here", "sdns://AQ: this protocol is not supported", "rewrite of old.lan: it is switched off", "rewrite of x.dev.lan", "blocked_services", `"Off", https://f.example/2: it is switched off`, "fetched when the gateway starts", "safesearch: true")
}
