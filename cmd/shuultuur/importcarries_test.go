//go:build !small

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shuultuur/test/race"
)

// A carriesCase is a configuration of another program, and what an import must make of it.
type carriesCase struct {
	name, program string
	files         map[string]string // the first file by name is imported, unless main names another
	main          string
	settings      []string    // texts that the settings must have
	never         []string    // texts that the settings must not have
	report        []string    // texts that the report must have
	asked         [][3]string // client, URL, verdict
}

var carriesCases = []carriesCase{
	{
		name: "Squid's faults of certificates, log servers and ranges of networks", program: "squid", main: "squid.conf",
		files: map[string]string{"squid.conf": "\xef\xbb\xbf# a library\r\n" + strings.Join([]string{
			"acl readers src 10.4.0.0-10.4.0.127/32 library.example",
			"acl router dstdomain .router.example",
			"acl old ssl_error X509_V_ERR_CERT_HAS_EXPIRED",
			"sslproxy_cert_error allow router",
			"sslproxy_cert_error allow old readers",
			"sslproxy_cert_error allow ssl::certDomainMismatch",
			"sslproxy_cert_error deny all",
			"sslproxy_cert_error allow all",
			"http_access allow readers", "http_access deny all",
			"http_port 3128 ssl-bump", "ssl_bump bump all",
			"access_log tcp://logs.example:5140 squid", "access_log syslog:daemon.info squid",
		}, "\r\n")},
		settings: []string{"10.4.0.0/25", "host: [router.example]", "category: [expired]", "category: [wrong-host]", "to: tcp://logs.example:5140"},
		never:    []string{"certificates (4)"},
		report:   []string{"acl readers src library.example", "one log server is sent to", "with action: warn"},
		asked:    [][3]string{{"10.4.0.9", "http://x.example/", "allow"}, {"10.4.0.129", "http://x.example/", "block"}},
	},
	{
		name: "Unbound's tags and zones of another kind for some clients", program: "unbound", main: "unbound.conf",
		files: map[string]string{"unbound.conf": strings.Join([]string{
			`server: define-tag: "kids ads"`,
			"  access-control: 10.0.0.0/8 allow", "  access-control: 10.9.0.0/16 allow",
			`  access-control-tag: 10.0.0.0/8 "ads"`, `  access-control-tag: 10.1.0.0/16 "kids ads"`,
			"  access-control-tag-action: 10.1.7.0/24 kids transparent", `  access-control-tag: 10.1.7.0/24 "kids"`,
			"  local-zone: games.example always_nxdomain", `  local-zone-tag: games.example "kids"`,
			"  local-zone: tracker.example refuse", `  local-zone-tag: tracker.example ads`,
			"  local-zone: bad.example always_nxdomain",
			"  local-zone-override: bad.example 10.1.2.0/24 transparent",
			`  access-control-tag-data: 10.1.0.0/16 kids "A 10.0.0.1"`, "  local-zone:", "  access-control-view:",
			"rpz:", "  name: adult.example", "  zonefile: adult.rpz", `  tags: "kids"`,
		}, "\n"), "adult.rpz": "$TTL 60\n@ IN SOA a. b. 1 2 3 4 5\nadult.test CNAME .\n"},
		settings: []string{"10.1.2.0/24", "format: rpz"}, report: []string{"access-control-tag-data"},
		asked: [][3]string{
			{"10.5.0.1", "http://a.games.example/", "pass"}, {"10.5.0.1", "http://tracker.example/", "block"}, {"10.5.0.1", "http://bad.example/", "block"}, {"10.5.0.1", "http://adult.test/", "pass"},
			{"10.1.0.1", "http://a.games.example/", "block"}, {"10.1.0.1", "http://tracker.example/", "block"}, {"10.1.0.1", "http://adult.test/", "block"},
			{"10.1.2.1", "http://a.games.example/", "block"}, {"10.1.2.1", "http://bad.example/", "pass"},
			{"10.1.7.1", "http://a.games.example/", "pass"}, {"10.1.7.1", "http://tracker.example/", "pass"}, {"10.1.7.1", "http://bad.example/", "block"},
			{"10.9.0.1", "http://tracker.example/", "pass"}, {"192.168.1.1", "http://bad.example/", "block"},
		},
	},
	{
		name: "Privoxy looks into all connections but those to some hosts", program: "privoxy",
		files: map[string]string{
			"config":      "confdir .\nactionsfile user.action\nlisten-address 127.0.0.1:8118\naccept-intercepted-requests 1\n",
			"user.action": "{-https-inspection}\n.void.example\n{+https-inspection}\n/\n{+block{x}}\n/banners/\n.ads.example\n{-block}\n.ads.example/good\n{-https-inspection}\n.bank.example\npay*.example\n{+https-inspection}\nads.bank.example\n",
		},
		settings: []string{"decrypt: true", "transparent: ['127.0.0.1:8119']", "stays closed"}, report: []string{"a later section decides"},
		asked: [][3]string{
			{"10.5.0.1", "https://www.bank.example/", "allow"}, {"10.5.0.1", "https://pay7.example/x", "allow"}, {"10.5.0.1", "https://a.ads.bank.example/banners/", "block"},
			{"10.5.0.1", "https://a.ads.example/good", "allow"}, {"10.5.0.1", "https://a.ads.example/bad", "block"}, {"10.5.0.1", "https://void.example/banners/1", "block"}, {"10.5.0.1", "https://void.example/", "pass"},
		},
	},
	{
		name: "Privoxy looks into the connections to some hosts", program: "privoxy",
		files: map[string]string{
			"config":      "confdir .\nactionsfile user.action\n",
			"user.action": "{+block{x}}\n/banners/\n.ads.example\n{-block}\n.ads.example/good\n{+https-inspection}\n.video.example\n.ads.example\n{-https-inspection}\nlogin.video.example\n",
		},
		settings: []string{"decrypt: true", "127.0.0.1:8118"},
		asked: [][3]string{
			{"10.5.0.1", "https://video.example/banners/", "block"}, {"10.5.0.1", "https://video.example/", "pass"}, {"10.5.0.1", "https://login.video.example/banners/", "allow"},
			{"10.5.0.1", "https://other.example/banners/", "allow"}, {"10.5.0.1", "https://a.ads.example/good", "allow"}, {"10.5.0.1", "https://a.ads.example/bad", "block"},
		},
	},
	{
		name: "OPNsense's sign-in, log servers and block lists of some clients", program: "opnsense",
		files: map[string]string{"config.xml": `<?xml version="1.0"?><opnsense><system>
<user><name>anna</name><password>$2y$10$EixZaYVK1fsbw1ZfbX3OXePaWxn96p36WQoeG6Lruj3vjPGga31lW</password></user>
<user><name>ben</name><password>$6$x$y</password></user><user><name>off</name><disabled>1</disabled><password>x</password></user>
<authserver><type>ldap</type><name>AD</name><host>dc1.example</host><ldap_port>636</ldap_port><ldap_urltype>SSL - Encrypted</ldap_urltype><ldap_basedn>dc=example</ldap_basedn><ldap_authcn>ou=staff,dc=example</ldap_authcn><ldap_extended_query>&amp;(memberOf=cn=web,dc=example)</ldap_extended_query><ldap_attr_user>sAMAccountName</ldap_attr_user><ldap_binddn>cn=fw</ldap_binddn><ldap_bindpw>pw</ldap_bindpw></authserver>
<authserver><type>radius</type><name>R</name><host>10.0.0.3</host><radius_auth_port>1645</radius_auth_port><radius_secret>s</radius_secret></authserver></system>
<OPNsense><Syslog><destinations><destination><enabled>1</enabled><transport>tcp4</transport><hostname>10.0.0.9</hostname><port>601</port></destination></destinations></Syslog>
<unboundplus><general><enabled>1</enabled></general><dnsbl>
<blocklist><enabled>1</enabled><wildcards>ads.example</wildcards></blocklist>
<blocklist><enabled>1</enabled><wildcards>games.example</wildcards><allowlists>good.games.example</allowlists><source_nets>10.1.0.0/16,10.2.0.0/16</source_nets></blocklist>
<blocklist><enabled>1</enabled><wildcards>video.example,good.games.example</wildcards><type>el</type><source_nets>10.1.5.0/24</source_nets></blocklist>
</dnsbl></unboundplus>
<proxy><general><enabled>1</enabled><logging><target>syslog</target></logging></general><forward><port>3128</port><authentication><method>Local Database,AD,R,Unknown</method><realm>Firm</realm></authentication></forward></proxy></OPNsense></opnsense>`},
		settings: []string{"file: passwords", "ldaps://dc1.example", "base: ou=staff,dc=example", "(&(sAMAccountName=%s)(&(memberOf=cn=web,dc=example)))", "realm: Firm", "tcp://10.0.0.9:601", "source: easylist"},
		report:   []string{"1 users have no password", "Unknown", "write 10.0.0.3 under servers"},
		asked: [][3]string{
			{"10.9.0.1", "http://games.example/", "pass"}, {"10.9.0.1", "http://a.ads.example/", "block"}, {"10.2.0.1", "http://games.example/", "block"}, {"10.2.0.1", "http://good.games.example/", "pass"},
			{"10.2.0.1", "http://video.example/", "pass"}, {"10.1.5.1", "http://video.example/", "block"}, {"10.1.5.1", "http://games.example/", "block"}, {"10.1.5.1", "http://good.games.example/", "block"}, {"10.1.5.1", "http://ads.example/", "block"},
		},
	},
	{
		name: "Blocky's networks with bits behind the mask", program: "blocky",
		files:    map[string]string{"config.yml": "upstreams: {groups: {default: [9.9.9.9]}}\nblocking:\n  denylists:\n    ads:\n      - |\n        ads.example\n  clientGroupsBlock: {192.168.178.1/24: [ads]}\n"},
		settings: []string{"192.168.178.0/24"},
		asked:    [][3]string{{"192.168.178.9", "http://ads.example/", "block"}, {"192.168.179.9", "http://ads.example/", "pass"}},
	},
	{
		name: "AdGuard Home's fallback servers come last", program: "adguardhome", main: "AdGuardHome.yaml",
		files:    map[string]string{"AdGuardHome.yaml": "schema_version: 30\ndns: {upstream_dns: [9.9.9.9], fallback_dns: [8.8.4.4], upstream_mode: parallel, disallowed_clients: [10.0.0.9/8]}\nfiltering: {safe_search: {enabled: true, youtube: false}}\n"},
		settings: []string{"order: strict", "upstreams: [9.9.9.9, 8.8.4.4]", "deny: [10.0.0.0/8]", "safesearch: true"}, never: []string{"youtube"},
	},
}

func TestImportCarries(t *testing.T) {
	race.Without(t)
	for _, tt := range carriesCases {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range tt.files {
				file := filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			to := filepath.Join(dir, "new")
			var out bytes.Buffer
			status := importCommand(t.Context(), env{stdout: &out, stderr: &out}, []string{tt.program, filepath.Join(dir, tt.main), "-to", to})
			settings, _ := os.ReadFile(filepath.Join(to, "shuultuur.yaml"))
			report, _ := os.ReadFile(filepath.Join(to, "report.txt"))
			if status != 0 {
				t.Fatalf("import ends with status %d: %s\n%s", status, out.String(), settings)
			}
			for _, want := range tt.settings {
				if !bytes.Contains(settings, []byte(want)) {
					t.Errorf("%q is not in the settings:\n%s", want, settings)
				}
			}
			for _, bad := range tt.never {
				if bytes.Contains(settings, []byte(bad)) {
					t.Errorf("%q is in the settings:\n%s", bad, settings)
				}
			}
			for _, want := range tt.report {
				if !bytes.Contains(report, []byte(want)) {
					t.Errorf("%q is not in the report:\n%s", want, report)
				}
			}
			verdicts(t, filepath.Join(to, "shuultuur.yaml"), tt.asked)
		})
	}
}
