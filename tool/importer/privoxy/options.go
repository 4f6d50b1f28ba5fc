package privoxy

import (
	"cmp"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"shuultuur/lib/setting"
	"shuultuur/tool/importer/build"
	"shuultuur/tool/importer/input"
	"shuultuur/tool/importer/report"
)

// readSections reads the actions of Privoxy: those of one file of actions, or of the files
// that its main file, called config, names, in their order. take gets the other lines of the
// main file.
func readSections(file string, take func(at report.Place, key, value string)) (all []*section, err error) {
	if !input.IsFile(file) {
		dir := file
		if file = filepath.Join(dir, "config"); !input.IsFile(file) {
			file = filepath.Join(dir, "user.action")
		}
	}
	data, err := input.Text(file)
	if err != nil {
		return nil, err
	}
	actions := strings.HasSuffix(file, ".action") || strings.HasPrefix(string(data), "{") || strings.Contains(string(data), "\n{")
	if actions {
		return readActions(file)
	}
	dir, confdir := filepath.Dir(file), ""
	files := &input.OptionFiles{Separator: " ", Included: func(string, string, string) ([]string, bool) { return nil, false }}
	err = files.Each(file, func(at report.Place, key, value string) {
		key, value, _ = strings.Cut(strings.Join(strings.Fields(at.Text), " "), " ")
		if key == "confdir" {
			confdir = value
		}
		if key != "actionsfile" {
			take(at, key, value)
			return
		}
		var found []string
		for _, in := range []string{dir, confdir} {
			for _, name := range []string{value, value + ".action"} { // the name in older versions
				if len(found) == 0 && in != "" {
					found = input.Glob(in, name)
				}
			}
		}
		for _, name := range found {
			var some []*section
			if some, err = readActions(name); err == nil {
				all = append(all, some...)
			}
		}
		if value = strings.Join(found, " "); value == "" && err != nil {
			value = err.Error()
		}
		take(at, key, value)
	})
	return all, err
}

// count converts a count of units, below most.
func count[N setting.Count | setting.Size | setting.Duration](ours string, most int, unit N, to func(s *build.Settings) *N) func(*config, string) *report.Note {
	return func(p *config, value string) *report.Note {
		n, err := strconv.Atoi(value)
		if err != nil || n <= 0 || n >= most {
			return nil
		}
		*to(&p.p.Work.Set) = N(n) * unit
		return report.Same(ours)
	}
}

// A row is about an option of the main file.
type row = report.Row[*config, string]

var ownRecord = report.Differs("events", "requests are in the record, in the data folder")
var ownPages = report.Differs("pages", "pages are the gateway's own; see pages.templates")

// table has the options, with the values that Privoxy ships.
var table = report.Rows(
	row{Keys: "enable-remote-toggle enable-remote-http-toggle enable-edit-actions enable-proxy-authentication-forwarding forwarded-connect-retries allow-cgi-request-crunching split-large-forms single-threaded", Standard: []string{"0"}},
	row{Keys: "enforce-blocks handle-as-empty-doc-returns-ok connection-sharing", Standard: []string{"0", "1"}},
	row{Keys: "tolerate-pipelining", Standard: []string{"1"}},
	row{Keys: "confdir", Standard: []string{"/etc/privoxy", "."}},
	row{Keys: "temporary-directory", Standard: []string{"."}},
	row{Keys: "actionsfile", Take: func(p *config, value string) *report.Note {
		if filepath.IsAbs(value) {
			return report.Same("rules")
		}
		p.unknown = true
		return report.None(cmp.Or(value, "no such file") + ": copy it beside the settings and import again; until then everything is refused").Closing()
	}},
	row{Keys: "listen-address", Take: func(p *config, value string) *report.Note {
		host, port, err := net.SplitHostPort(value)
		if err != nil {
			host, port = value, "8118"
		}
		p.p.Work.Set.Listen.Proxy = append(p.p.Work.Set.Listen.Proxy, setting.Address(net.JoinHostPort(cmp.Or(host, "::"), port)))
		return report.Same("listen.proxy")
	}},
	row{Keys: "forward", Take: func(p *config, value string) *report.Note { return p.forward(strings.Fields(value)) }},
	row{Keys: "forward-socks forward-socks4 forward-socks4a forward-socks5 forward-socks5t", Note: report.None("a parent speaks HTTP: name one under proxy: parent")},
	row{Keys: "permit-access", Take: func(p *config, value string) *report.Note { return p.access(true, strings.Fields(value)) }},
	row{Keys: "deny-access", Take: func(p *config, value string) *report.Note { return p.access(false, strings.Fields(value)) }},
	row{Keys: "admin-address", Take: func(p *config, value string) *report.Note {
		p.p.Work.Set.Pages.Contact = value
		return report.Same("pages.contact")
	}},
	row{Keys: "buffer-limit", Standard: []string{"4096"}, Take: count("proxy.held", 1<<20, 1<<10, func(s *build.Settings) *setting.Size { return &s.Proxy.Exchange.Held })},
	row{Keys: "max-client-connections", Take: count("proxy.connections", 1<<20, 1, func(s *build.Settings) *setting.Count { return &s.Proxy.Connections })},
	row{Keys: "socket-timeout", Standard: []string{"300"}, Take: count("proxy.answer", 86400, setting.Duration(time.Second), func(s *build.Settings) *setting.Duration { return &s.Proxy.Upstream.Answer })},
	row{Keys: "keep-alive-timeout", Standard: []string{"5"}, Take: count("proxy.idle", 86400, setting.Duration(time.Second), func(s *build.Settings) *setting.Duration { return &s.Proxy.Idle })},
	row{Keys: "default-server-timeout", Take: count("proxy.upstream-idle", 86400, setting.Duration(time.Second), func(s *build.Settings) *setting.Duration { return &s.Proxy.Upstream.Idle })},
	row{Keys: "toggle", Standard: []string{"1"}, Note: report.None("Privoxy is switched off; here filtering is paused with \"shuultuur pause\", and resumes by itself")},
	row{Keys: "accept-intercepted-requests", Standard: []string{"0"}, Take: func(p *config, _ string) *report.Note {
		p.intercepted = true
		return report.Differs("listen.transparent", "at the ports above those of the proxy, one for HTTP and HTTPS: change the firewall's rules, docs/transparent.md has them")
	}},
	row{Keys: "logfile debug", Note: ownRecord},
	row{Keys: "logdir", Standard: []string{"/var/log/privoxy"}, Note: ownRecord},
	row{Keys: "proxy-info-url hostname", Note: ownPages},
	row{Keys: "templdir", Standard: []string{"/etc/privoxy/templates"}, Note: ownPages},
	row{Keys: "user-manual", Standard: []string{"/usr/share/doc/privoxy/user-manual"}, Note: ownPages},
	row{Keys: "filterfile", Standard: []string{"default.filter", "user.filter"}, Note: report.None("pages are not rewritten by expressions")},
	row{Keys: "trustfile", Take: (*config).trustFile},
	row{Keys: "ca-directory", Take: func(p *config, value string) *report.Note { p.authority = input.Find(p.dir, value); return p.rootNote }},
	row{Keys: "ca-cert-file", Take: func(p *config, value string) *report.Note { p.cert = value; return p.rootNote }},
	row{Keys: "ca-key-file", Take: func(p *config, value string) *report.Note { p.key = value; return p.rootNote }},
	row{Keys: "ca-password certificate-directory cipher-list", Note: report.Differs("intercept", "certificates are made in memory, and the root's key is in a separate file")},
	row{Keys: "trusted-cas-file", Take: func(p *config, value string) *report.Note {
		if file := input.Find(p.dir, value); input.IsFile(file) {
			p.trusted = p.p.Work.File(file)
			return report.Same("intercept: trust")
		}
		return report.ByHand("intercept: trust", "no such file: copy it beside the settings and import again")
	}},
	row{Keys: "trust-x-forwarded-for", Take: func(_ *config, value string) *report.Note {
		if value != "1" {
			return nil
		}
		return report.ByHand("proxy.trusted", "write there the networks whose X-Forwarded-For is believed")
	}},
	row{Keys: "compression-level deflate receive-buffer-size listen-backlog enable-accept-filter enable-compression", Note: report.Differs("proxy", "limits follow the size of the machine")},
)

// option converts a line of the main file.
func (p *config) option(key, value string) *report.Note {
	n := table[key].Convert(p, value, value)
	if n == nil && value == "0" {
		n = report.Needless("it is switched off")
	}
	return cmp.Or(n, report.None(cmp.Or(reasons.Of(key), report.NoneOfOurs)))
}

// reasons say why options have no equivalent.
var reasons = report.Reasons{
	{"client-specific-tag", "clients have no individual switches: write a policy with their networks"},
	{"client-tag-lifetime", "clients have no individual switches: write a policy with their networks"},
	{"client-header-order", "fields keep the order in which they arrive"},
	{"cors-allowed-origin", "pages of the administration are at listen: admin"},
	{"trusted-cgi-referer", "pages of the administration are at listen: admin"},
	{"trust-info-url", "pages are the gateway's own; see pages.templates"},
	{"enable-proxy-authentication-forwarding", "a parent's name and password are in proxy: parent"},
}

// forward converts a line that says where requests go: "forward PATTERN PARENT", with
// "." for no parent. Of the lines that match, the last counts in Privoxy.
func (p *config) forward(f []string) *report.Note {
	up := &p.p.Work.Set.Proxy.Upstream
	switch {
	case len(f) != 2:
		return &report.Note{Kind: report.Line, Why: "left out", Mend: "forward PATTERN PARENT"}
	case f[0] == "/" && f[1] == ".":
		up.Parent, up.NoParent = "", nil
		return report.Same("no proxy.parent")
	case f[0] == "/":
		if _, _, err := net.SplitHostPort(f[1]); err != nil {
			f[1] = net.JoinHostPort(f[1], "8000")
		}
		up.Parent, up.NoParent = "http://"+f[1], nil
		return report.Same("proxy.parent")
	case f[1] != ".":
		return report.ByHand("proxy.parent", "there is one parent for all requests: hosts that go elsewhere need a separate gateway")
	}
	pattern, ok := parsePattern(strings.TrimSuffix(f[0], "/"))
	name, _, plain := pattern.name()
	if prefix, err := netip.ParsePrefix(f[0]); err == nil {
		name, ok, plain = prefix.Masked().String(), true, true
	}
	if !ok || !plain || pattern.port != "" {
		return report.ByHand("proxy.no-parent", "a host with what is below it, or a network, is what no-parent names: write them there")
	}
	up.NoParent = append(up.NoParent, name)
	return report.Same("proxy.no-parent")
}
