package privoxy

import (
	"cmp"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"shuultuur/lib/setting"
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
		take(at, "actionsfile", cmp.Or(strings.Join(found, " "), errText(err)))
	})
	return all, err
}

func errText(err error) string {
	if err != nil {
		return err.Error()
	}
	return ""
}

// defaults are the settings that Privoxy ships.
var defaults = map[string][]string{
	"toggle": {"1"}, "enable-remote-toggle": {"0"}, "enable-remote-http-toggle": {"0"}, "enable-edit-actions": {"0"}, "enforce-blocks": {"0", "1"},
	"enable-proxy-authentication-forwarding": {"0"}, "forwarded-connect-retries": {"0"}, "accept-intercepted-requests": {"0"}, "allow-cgi-request-crunching": {"0"},
	"split-large-forms": {"0"}, "tolerate-pipelining": {"1"}, "single-threaded": {"0"}, "handle-as-empty-doc-returns-ok": {"0", "1"}, "connection-sharing": {"0", "1"},
	"buffer-limit": {"4096"}, "socket-timeout": {"300"}, "keep-alive-timeout": {"5"}, "filterfile": {"default.filter", "user.filter"}, "confdir": {"/etc/privoxy", "."},
	"user-manual": {"/usr/share/doc/privoxy/user-manual"}, "templdir": {"/etc/privoxy/templates"}, "logdir": {"/var/log/privoxy"}, "temporary-directory": {"."},
}

// option converts a line of the main file.
func (p *config) option(key, value string) *report.Note {
	n, err := strconv.Atoi(value)
	isCount := err == nil && n > 0 && n < 1<<20
	switch {
	case slices.Contains(defaults[key], value):
		return &report.Note{Kind: report.Default}
	case key == "actionsfile" && filepath.IsAbs(value):
		return report.Same("rules")
	case key == "actionsfile":
		return report.None(cmp.Or(value, "no such file") + ": copy it beside the settings and import again")
	case key == "listen-address":
		host, port, err := net.SplitHostPort(value)
		if err != nil {
			host, port = value, "8118"
		}
		p.p.Work.Set.Listen.Proxy = append(p.p.Work.Set.Listen.Proxy, setting.Address(net.JoinHostPort(cmp.Or(host, "::"), port)))
		return report.Same("listen.proxy")
	case key == "forward":
		return p.forward(strings.Fields(value))
	case strings.HasPrefix(key, "forward-socks"):
		return report.None("a parent speaks HTTP: name one under proxy: parent")
	case key == "permit-access" || key == "deny-access":
		return p.access(key == "permit-access", strings.Fields(value))
	case key == "admin-address":
		p.p.Work.Set.Pages.Contact = value
		return report.Same("pages.contact")
	case key == "buffer-limit" && isCount:
		p.p.Work.Set.Proxy.Exchange.Held = setting.Size(n) << 10
		return report.Same("proxy.held")
	case key == "socket-timeout" && isCount && n < 86400:
		p.p.Work.Set.Proxy.Upstream.Answer = setting.Duration(time.Duration(n) * time.Second)
		return report.Same("proxy.answer")
	case key == "keep-alive-timeout" && isCount && n < 86400:
		p.p.Work.Set.Proxy.Idle = setting.Duration(time.Duration(n) * time.Second)
		return report.Same("proxy.idle")
	case key == "max-client-connections" && isCount:
		p.p.Work.Set.Proxy.Connections = setting.Count(n)
		return report.Same("proxy.connections")
	case key == "toggle":
		return report.None("Privoxy is switched off; here filtering is paused with \"shuultuur pause\", and resumes by itself")
	case key == "accept-intercepted-requests":
		p.intercepted = true
		return report.Differs("listen.transparent", "at the ports above those of the proxy, one for HTTP and HTTPS: change the firewall's rules, docs/transparent.md has them")
	case key == "logfile" || key == "debug" || key == "logdir":
		return report.Differs("events", "requests are in the record, in the data folder")
	case key == "templdir" || key == "proxy-info-url" || key == "hostname" || key == "user-manual":
		return report.Differs("pages", "pages are the gateway's own; see pages.templates")
	case key == "filterfile":
		return report.None("pages are not rewritten by expressions")
	case key == "trustfile":
		return p.trustFile(value)
	case key == "ca-directory":
		p.authority = input.Find(p.dir, value)
		return p.rootNote
	case key == "ca-cert-file" || key == "ca-key-file":
		*map[string]*string{"ca-cert-file": &p.cert, "ca-key-file": &p.key}[key] = value
		return p.rootNote
	case key == "ca-password" || key == "certificate-directory" || key == "cipher-list":
		return report.Differs("intercept", "certificates are made in memory, and the root's key is in a separate file")
	case key == "trusted-cas-file":
		if file := input.Find(p.dir, value); input.IsFile(file) {
			p.trusted = p.p.Work.File(file)
			return report.Same("intercept: trust")
		}
		return report.ByHand("intercept: trust", "no such file: copy it beside the settings and import again")
	case key == "default-server-timeout" && isCount && n < 86400:
		p.p.Work.Set.Proxy.Upstream.Idle = setting.Duration(time.Duration(n) * time.Second)
		return report.Same("proxy.upstream-idle")
	case key == "trust-x-forwarded-for" && value == "1":
		return report.ByHand("proxy.trusted", "write there the networks whose X-Forwarded-For is believed")
	case key == "compression-level" || key == "deflate" || key == "receive-buffer-size" || key == "listen-backlog" || key == "enable-accept-filter" || key == "enable-compression":
		return report.Differs("proxy", "limits follow the size of the machine")
	}
	if value == "0" {
		return &report.Note{Kind: report.Default, Why: "it is switched off"}
	}
	return report.None(reasons.Of(key))
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
