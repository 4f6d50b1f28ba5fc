//go:build !small

package main

import (
	"bytes"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shuultuur/test/race"

	"shuultuur/engine"
)

// outcome returns what a client that shows no credentials gets for a URL: 407, or what the rules
// do. Settings that cannot be used let nobody through: "no start".
func outcome(t *testing.T, file, client, url string) string {
	t.Helper()
	e, done, err := engine.Explain(t.Context(), file)
	if err != nil {
		return "no start"
	}
	defer done()
	if _, err := e.Identify(t.Context(), netip.MustParseAddr(client)); err != nil {
		return "407"
	}
	x, err := question{config: file, client: client, method: "GET", url: url}.ask(t.Context(), env{})
	if err != nil {
		t.Fatal(err)
	}
	if x.Action == "pass" {
		return "allow"
	}
	return x.Action
}

// importOf imports files, the first of which is the configuration, and returns the settings and the
// report.
func importOf(t *testing.T, program, name string, files map[string]string) (settings, report, out string) {
	t.Helper()
	dir := t.TempDir()
	for n, text := range files {
		n = filepath.Join(dir, n)
		if err := os.MkdirAll(filepath.Dir(n), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(n, []byte(strings.ReplaceAll(text, "@D@", dir)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	to := filepath.Join(dir, "new")
	var said bytes.Buffer
	importCommand(t.Context(), env{stdout: &said, stderr: &said}, []string{program, filepath.Join(dir, name), "-to", to})
	text, err := os.ReadFile(filepath.Join(to, "report.txt"))
	if err != nil {
		t.Fatalf("%v; the import says: %s", err, &said)
	}
	return filepath.Join(to, "shuultuur.yaml"), string(text), said.String()
}

// TestImportOfSquidStaysClosed asks without credentials for what Squid refuses, or answers with
// 407. What cannot be carried over may close more, and never opens.
func TestImportOfSquidStaysClosed(t *testing.T) {
	race.Without(t)
	const head = `http_port 3128
acl localnet src 10.0.0.0/8
acl SSL_ports port 443
acl Safe_ports port 80 443 1025-65535
http_access deny !Safe_ports
http_access deny CONNECT !SSL_ports
`
	const (
		ncsa      = "auth_param basic program /usr/lib/squid/basic_ncsa_auth /etc/squid/passwd\n"
		ldap      = "auth_param basic program /usr/lib/squid/basic_ldap_auth -b dc=a,dc=example -f uid=%s -h dc.a.example\n"
		pam       = "auth_param basic program /usr/lib/squid/basic_pam_auth\n"
		negotiate = "auth_param negotiate program /usr/lib/squid/negotiate_kerberos_auth -k /etc/squid/HTTP.keytab\n"
		digest    = "auth_param digest program /usr/lib/squid/digest_file_auth -c /etc/squid/digest\n"
		ntlm      = "auth_param ntlm program /usr/bin/ntlm_auth --helper-protocol=squid-2.5-ntlmssp\n"
		required  = "acl auth proxy_auth REQUIRED\n"
		groups    = "external_acl_type grp %LOGIN /usr/lib/squid/ext_wbinfo_group_acl\nacl staff external grp Staff\n"
		passwords = "anna:$2y$05$abcdefghijklmnopqrstuuMhU2RrTn9pYJhVVhDVrnVZ2FEvPPTVC\n"
	)
	for _, tt := range []struct {
		name, conf string
		local, far string // what 10.1.1.1 and 203.0.113.9 get; several words: any of them
	}{
		{"password file", ncsa + required + "http_access allow auth\nhttp_access deny all\n", "407", "407"},
		{"password file is not there", strings.Replace(ncsa, "passwd", "gone", 1) + required + "http_access allow auth\nhttp_access deny all\n", "407", "407"},
		{"unknown helper", pam + required + "http_access allow auth\nhttp_access deny all\n", "407", "407"},
		{"no helper at all", required + "http_access allow auth\nhttp_access deny all\n", "407", "407"},
		{"directory", ldap + required + "http_access allow auth\nhttp_access deny all\n", "407", "407"},
		{"ticket without keytab", negotiate + required + "http_access allow auth\nhttp_access deny all\n", "407", "407"},
		{"digest", digest + required + "http_access allow auth\nhttp_access deny all\n", "407", "407"},
		{"NTLM", ntlm + required + "http_access allow auth\nhttp_access deny all\n", "407", "407"},
		{"all schemes", negotiate + ntlm + digest + pam + required + "http_access allow auth\nhttp_access deny all\n", "407", "407"},
		{"deny !auth, then everybody", digest + required + "http_access deny !auth\nhttp_access allow all\n", "407", "407"},
		{"deny !auth, then the network", digest + required + "http_access deny !auth\nhttp_access allow localnet\nhttp_access deny all\n", "407", "407"},
		{"network and user", digest + required + "http_access allow localnet auth\nhttp_access deny all\n", "407", "407 block"},
		{"user and network", digest + required + "http_access allow auth localnet\nhttp_access deny all\n", "407", "407 block"},
		{"last line", digest + required + "http_access deny all !auth\nhttp_access allow auth\n", "407", "407"},
		{"other case of the names", digest + "acl Auth PROXY REQUIRED\nacl Authed proxy_auth REQUIRED\nhttp_access allow AUTHED\nhttp_access deny ALL\n", "407", "407"},
		{"deny in other case", digest + "acl Authed proxy_auth REQUIRED\nacl Blocked src 10.1.0.0/16\nhttp_access deny BLOCKED\nhttp_access deny !authed\nhttp_access allow All\n", "407 block", "407"},
		{"names of users", digest + "acl people proxy_auth anna ben\nhttp_access allow people\nhttp_access deny all\n", "407", "407"},
		{"users in a file that is not there", digest + "acl people proxy_auth \"/etc/squid/people\"\nhttp_access allow people\nhttp_access deny all\n", "407 block", "407 block"},
		{"banned users", digest + "acl bad proxy_auth eve\nhttp_access deny bad\nhttp_access allow all\n", "407", "407"},
		{"banned users by expression", digest + "acl bad proxy_auth_regex -i ^guest\nhttp_access deny bad\nhttp_access allow all\n", "407 block", "407 block"},
		{"groups", digest + groups + "http_access allow staff\nhttp_access deny all\n", "407", "407"},
		{"all but a group", digest + groups + "http_access deny staff\nhttp_access allow all\n", "407", "407"},
		{"outside the group", digest + groups + "http_access deny !staff\nhttp_access allow all\n", "407", "407"},
		{"external program", "external_acl_type x %SRC /usr/lib/squid/check\nacl ok external x\nhttp_access allow ok\nhttp_access deny all\n", "block", "block"},
		{"external program refuses", "external_acl_type x %SRC /usr/lib/squid/check\nacl bad external x\nhttp_access deny bad\nhttp_access allow localnet\nhttp_access deny all\n", "block", "block"},
		{"external program exempts", "external_acl_type x %SRC /usr/lib/squid/check\nacl ok external x\nhttp_access deny !ok\nhttp_access allow localnet\nhttp_access deny all\n", "block", "block"},
		{"session by external program", "external_acl_type s %LOGIN /usr/lib/squid/ext_session_acl\nacl s external s\nhttp_access deny !s\nhttp_access allow all\n", "407 block", "407 block"},
		{"no lines", "# alone\nhttp_port 3128\nacl localnet src 10.0.0.0/8\n", "block", "block"},
		{"lines without acls only", "# alone\nhttp_port 3128\nhttp_access allow\n", "block", "block"},
		{"all lines lost", "acl mac arp 00:11:22:33:44:55\nhttp_access allow mac\n", "block", "block"},
		{"allow by address of the card", "acl mac arp 00:11:22:33:44:55\nhttp_access allow mac localnet\nhttp_access deny all\n", "block", "block"},
		{"deny by address of the card", "acl mac arp 00:11:22:33:44:55\nhttp_access deny mac\nhttp_access allow localnet\nhttp_access deny all\n", "block", "block"},
		{"all but a card", "acl mac arp 00:11:22:33:44:55\nhttp_access allow !mac localnet\nhttp_access deny all\n", "block", "block"},
		{"acl that is not there", "http_access deny nothere\nhttp_access allow localnet\nhttp_access deny all\n", "block", "block"},
		{"names in a file that is not there", "acl bad dstdomain \"/etc/squid/bad\"\nhttp_access deny bad\nhttp_access allow localnet\nhttp_access deny all\n", "block", "block"},
		{"allow all but names in a file that is not there", "acl bad dstdomain \"/etc/squid/bad\"\nhttp_access allow localnet !bad\nhttp_access deny all\n", "block", "block"},
		{"allow names in a file that is not there", "acl good dstdomain \"/etc/squid/good\"\nhttp_access allow localnet good\nhttp_access deny all\n", "block", "block"},
		{"client by name", "acl lab src lab.example\nhttp_access deny lab\nhttp_access allow localnet\nhttp_access deny all\n", "block", "block"},
		{"all but a client by name", "acl lab src lab.example\nhttp_access allow localnet !lab\nhttp_access deny all\n", "block", "block"},
		{"destination by name", "acl inside dst intranet.example\nhttp_access deny inside\nhttp_access allow localnet\nhttp_access deny all\n", "block", "block"},
		{"all but a destination by name", "acl inside dst intranet.example\nhttp_access allow localnet !inside\nhttp_access deny all\n", "block", "block"},
		{"everywhere", "acl anywhere dst all\nhttp_access deny anywhere\nhttp_access allow localnet\n", "block", "block"},
		{"two fields that have to match", "acl one req_header Referer -i a\nacl two referer_regex -i b\nhttp_access allow localnet one two\nhttp_access deny all\n", "block", "block"},
		{"uploads of two types", "acl one req_mime_type ^text/plain$\nacl two req_mime_type ^text/html$\nhttp_access allow localnet one two\nhttp_access deny all\n", "block", "block"},
		{"a field with case", "acl ours browser ^Ours\nhttp_access allow localnet ours\nhttp_access deny all\n", "block", "block"},
		{"answers by a word in their type", "acl film rep_mime_type flash\nhttp_reply_access deny film\nhttp_access allow localnet\nhttp_access deny all\n", "block", "block"},
		{"expressions that look like flags", "acl bad url_regex other -ads- [0-9]other\nhttp_access deny bad\nhttp_access allow localnet\nhttp_access deny all\n", "block", "block"},
		{"signs-in before a network that it is not", ncsa + required + "acl lab src 192.0.2.0/24\nhttp_access deny auth lab\nhttp_access allow all\n", "407", "407"},
		{"quoted values", "configuration_includes_quoted_values on\nacl bad dstdomain \"other.example\"\nhttp_access deny bad\nhttp_access allow localnet\nhttp_access deny all\n", "block", "block"},
		{"expression that does not compile", "acl bad url_regex (?<=x)y\\1\nhttp_access deny bad\nhttp_access allow localnet\nhttp_access deny all\n", "block", "block"},
		{"tunnels only", "http_access allow CONNECT all\nhttp_access deny all\n", "block", "block"},
		{"an allow line without acls", "http_access allow\nhttp_access allow localnet\n", "allow", "block"},
		{"nested without end", "acl a any-of b\nacl b any-of a\nhttp_access deny a\nhttp_access allow localnet\nhttp_access deny all\n", "block", "block"},
		// These stay open.
		{"no sign-in", "http_access allow localnet\nhttp_access deny all\n", "allow", "block"},
		{"passwords that no line asks for", ncsa + required + "http_access allow localnet\nhttp_access deny all\n", "allow", "block"},
		{"sign-in that no line asks for", digest + required + "http_access allow localnet\nhttp_access deny all\n", "allow", "block"},
		{"empty acl", "acl bad dstdomain \"@D@/none\"\nhttp_access deny bad\nhttp_access allow localnet\nhttp_access deny all\n", "allow", "block"},
		{"single ports", "acl mail port 25\nhttp_access deny mail\nhttp_access allow localnet\nhttp_access deny all\n", "allow", "block"},
		{"safe ports by clients", "http_access deny localnet !Safe_ports\nhttp_access allow localnet Safe_ports\nhttp_access deny all\n", "allow", "block"},
		{"own addresses", "http_access deny to_localhost\nhttp_access allow localnet !to_localhost\nhttp_access deny all\n", "allow", "block"},
		{"connections", "acl many maxconn 20\nhttp_access deny many localnet\nhttp_access allow localnet\nhttp_access deny all\n", "allow", "block"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			conf, alone := strings.CutPrefix(tt.conf, "# alone\n")
			if !alone {
				conf = head + conf
			}
			file, report, out := importOf(t, "squid", "squid.conf", map[string]string{"squid.conf": conf, "passwd": passwords, "none": ""})
			for client, want := range map[string]string{"10.1.1.1": tt.local, "203.0.113.9": tt.far} {
				if got := outcome(t, file, client, "http://other.example/"); !strings.Contains(" "+want+" ", " "+got+" ") {
					settings, _ := os.ReadFile(file)
					t.Errorf("%s without credentials: %s, want %s\n%s\n%s", client, got, want, settings, out)
				}
			}
			if strings.HasPrefix(tt.local, "407") && !strings.Contains(tt.local, "block") {
				if !strings.Contains(report, "Everybody signs in") || !strings.Contains(out, "Everybody signs in") {
					t.Errorf("neither report nor command says that everybody signs in:\n%s\n%s", report, out)
				}
			}
		})
	}
}

// TestImportsWithPasswordsDemandThem: other programs whose users sign in, with what verifies them
// elsewhere.
func TestImportsWithPasswordsDemandThem(t *testing.T) {
	e2 := func(plugin, text string) map[string]string {
		return map[string]string{
			"e2guardian.conf":   "filterport = 8080\nfiltergroups = 1\nauthplugin = '@D@/plug/" + plugin + "'\n",
			"e2guardianf1.conf": "groupmode = 1\nbannedsitelist = '@D@/sites'\n",
			"sites":             "bad.example\n",
			"plug/" + plugin:    text,
		}
	}
	missing := e2("proxy-basic.conf", "")
	delete(missing, "plug/proxy-basic.conf")
	opn := func(method string) map[string]string {
		return map[string]string{"config.xml": `<?xml version="1.0"?><opnsense><OPNsense><proxy><general><enabled>1</enabled></general><forward><port>3128</port><interfaces>lan</interfaces><addACLforInterfaceSubnets>1</addACLforInterfaceSubnets>` +
			`<authentication><method>` + method + `</method></authentication></forward></proxy></OPNsense></opnsense>`}
	}
	for _, tt := range []struct {
		name, program, file string
		files               map[string]string
		want                string
	}{
		{"e2guardian, Basic", "e2guardian", ".", e2("proxy-basic.conf", "plugname = 'proxy-basic'\n"), "407"},
		{"e2guardian, NTLM", "e2guardian", ".", e2("ntlm.conf", "plugname = 'proxy-ntlm'\n"), "407"},
		{"e2guardian, digest", "e2guardian", ".", e2("own.conf", "plugname = 'proxy-digest'\n"), "407"},
		{"e2guardian, file not there", "e2guardian", ".", missing, "407"},
		{"e2guardian, addresses", "e2guardian", ".", e2("ip.conf", "plugname = 'ip'\n"), "allow"},
		{"OPNsense, a server that is not there", "opnsense", "config.xml", opn("Directory"), "407"},
		{"OPNsense, its own users", "opnsense", "config.xml", opn("Local Database"), "407"},
		{"OPNsense, none", "opnsense", "config.xml", opn(""), "allow"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file, report, out := importOf(t, tt.program, tt.file, tt.files)
			if got := outcome(t, file, "192.168.1.9", "http://other.example/"); got != tt.want {
				settings, _ := os.ReadFile(file)
				t.Errorf("without credentials: %s, want %s\n%s\n%s", got, tt.want, settings, out)
			}
			if says := strings.Contains(report, "Everybody signs in"); says != (tt.want == "407") {
				t.Errorf("the report says that everybody signs in: %v\n%s", says, report)
			}
		})
	}
}
