package portal

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"shuultuur/lib/setting"
)

// A Route sets which clients use which proxies.
type Route struct {
	// Networks, Groups and Policies select the clients: a client must match one
	// item of each list that is given. A route without them is for all clients.
	Networks setting.OneOrMore[string] `yaml:"networks" names:"people"`
	Groups   setting.OneOrMore[string] `yaml:"groups" names:"people"`
	Policies setting.OneOrMore[string] `yaml:"policies"`
	// Proxies are tried in order: "gate.example:8080", "https://gate.example:8443",
	// "socks5://gate.example:1080", or "direct" for none. Default the proxy of this
	// gateway.
	Proxies setting.OneOrMore[string] `yaml:"proxies"`
	// Direct are hosts that clients reach without a proxy: domains including their
	// subdomains, patterns such as "*-cdn.example", addresses, networks.
	Direct setting.OneOrMore[string] `yaml:"direct"`
}

const maxPatterns = 10_000 // of one route

// A script is a proxy auto-configuration file.
type script struct {
	text []byte
	patterns
}

// patterns are hosts that are reached without a proxy.
type patterns struct {
	domains []string // "intranet.example"
	globs   []string // "*-cdn.example"
	nets    []netip.Prefix
}

// read adds the patterns of the settings.
func (p *patterns) read(all []string) error {
	if len(all) > maxPatterns {
		return fmt.Errorf("%d patterns, at most %d are taken", len(all), maxPatterns)
	}
	for i, s := range all {
		if err := p.add(s); err != nil {
			return setting.At(fmt.Sprintf("direct[%d]", i), err)
		}
	}
	return nil
}

func (p *patterns) add(s string) error {
	if a, err := netip.ParseAddr(strings.Trim(s, "[]")); err == nil && a.Zone() == "" {
		a = a.Unmap()
		p.nets = append(p.nets, netip.PrefixFrom(a, a.BitLen()))
		return nil
	}
	if n, err := netip.ParsePrefix(s); err == nil {
		if n.Addr().Is4In6() {
			return fmt.Errorf("%q: write the IPv4 network", s)
		}
		p.nets = append(p.nets, n.Masked())
		return nil
	}
	name := strings.TrimSuffix(strings.TrimPrefix(strings.ToLower(s), "."), ".")
	if name == "" || len(name) > 253 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-._*") != "" {
		return fmt.Errorf("%.60q is not a host, a pattern, an address or a network: write intranet.example, *-cdn.example, 10.1.2.3 or 10.0.0.0/8 (names of other scripts in Punycode)", s)
	}
	if strings.Contains(name, "*") {
		p.globs = append(p.globs, name)
	} else {
		p.domains = append(p.domains, name)
	}
	return nil
}

// glob reports whether s matches pattern, in which * stands for any text.
func glob(pattern, s string) bool {
	p, at, star, mark := 0, 0, -1, 0
	for at < len(s) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, at
			p++
		case p < len(pattern) && pattern[p] == s[at]:
			p++
			at++
		case star >= 0:
			mark++
			p, at = star+1, mark
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// proxyEntry returns a proxy of the settings in the syntax of FindProxyForURL.
func proxyEntry(s string) (string, error) {
	scheme, at, found := strings.Cut(s, "://")
	if !found {
		scheme, at = "http", s
	}
	if s == "direct" {
		return "DIRECT", nil
	}
	kind, ok := map[string]string{"http": "PROXY", "https": "HTTPS", "socks": "SOCKS", "socks4": "SOCKS", "socks5": "SOCKS5"}[scheme]
	if !ok {
		return "", fmt.Errorf("%.60q: a proxy is http, https, socks4 or socks5, or direct", s)
	}
	host, port, err := net.SplitHostPort(strings.TrimSuffix(at, "/"))
	if err != nil {
		return "", fmt.Errorf("%.60q is not a host and a port, such as gate.example:8080", s)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", fmt.Errorf("%.60q: %q is not a port", s, port)
	}
	if strings.Trim(strings.ToLower(host), "abcdefghijklmnopqrstuvwxyz0123456789-._:") != "" || host == "" {
		return "", fmt.Errorf("%.60q: %q is not the name or address of a host", s, host)
	}
	return kind + " " + net.JoinHostPort(host, port), nil
}

// newScript makes the script of a route. The hosts in own are always reached
// without a proxy: this portal.
func newScript(r *Route, proxies []string, own ...string) (*script, error) {
	s := &script{}
	var entries []string
	for i, p := range proxies {
		e, err := proxyEntry(p)
		if err != nil {
			return nil, setting.At(fmt.Sprintf("proxies[%d]", i), err)
		}
		entries = append(entries, e)
	}
	if len(entries) == 0 {
		return nil, setting.At("proxies", errors.New("no proxy is known: name one, or give the proxy of this gateway an address other machines reach (listen.proxy)"))
	}
	if err := s.read(r.Direct); err != nil {
		return nil, err
	}
	for _, o := range own {
		if o != "" {
			_ = s.add(o) // a name that is not a valid pattern cannot be the host of a URL
		}
	}
	s.text = s.write(strings.Join(entries, "; "))
	return s, nil
}

// write returns the script. It is JavaScript of 1999 (ES3), which every client
// can run, and resolves no names.
func (s *script) write(answer string) []byte {
	type network struct {
		words []uint32
		bits  int
	}
	var four, six []string
	for _, n := range s.nets {
		w := network{bits: n.Bits()}
		b := n.Addr().AsSlice()
		for i := 0; i < len(b); i += 2 {
			w.words = append(w.words, uint32(b[i])<<8|uint32(b[i+1]))
		}
		var text []string
		for _, x := range w.words {
			text = append(text, strconv.Itoa(int(x)))
		}
		entry := "[" + strconv.Itoa(w.bits) + "," + strings.Join(text, ",") + "]"
		if n.Addr().Is4() {
			four = append(four, entry)
		} else {
			six = append(six, entry)
		}
	}
	out := strings.NewReplacer("ANSWER", quoted(answer), "DOMAINS", list(s.domains), "GLOBS", list(s.globs),
		"FOUR", "["+strings.Join(four, ",")+"]", "SIX", "["+strings.Join(six, ",")+"]").Replace(program)
	return []byte(out)
}

func list(all []string) string {
	var q []string
	for _, s := range all {
		q = append(q, quoted(s))
	}
	return "[" + strings.Join(q, ",") + "]"
}

// quoted returns s as a string literal of JavaScript.
func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		return `""` // cannot fail for a string
	}
	return string(b)
}

// program is FindProxyForURL (Netscape, Navigator Proxy Auto-Config File Format,
// 1996). It compares patterns itself, because clients implement shExpMatch
// differently.
const program = `// Proxy auto-configuration of Shuultuur.
var answer = ANSWER;
var domains = DOMAINS;
var globs = GLOBS;
var four = FOUR;
var six = SIX;

// Numbers of 16 bits of an IPv4 address, or null.
function words4(host) {
  var m = /^(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})$/.exec(host), i;
  if (!m) return null;
  for (i = 1; i <= 4; i++) if (m[i] > 255 || m[i].length > 1 && m[i].charAt(0) === "0") return null;
  return [m[1] * 256 + (m[2] - 0), m[3] * 256 + (m[4] - 0)];
}

// Numbers of 16 bits of an IPv6 address, or null.
function words6(host) {
  var tail = null, cut = host.lastIndexOf(":"), halves, all = [], i, j, part, fill;
  if (cut < 0) return null;
  if (host.indexOf(".") >= 0) {
    tail = words4(host.substring(cut + 1));
    if (!tail) return null;
    host = host.substring(0, cut + 1) + tail[0].toString(16) + ":" + tail[1].toString(16);
  }
  halves = host.split("::");
  if (halves.length > 2) return null;
  for (i = 0; i < halves.length; i++) {
    part = halves[i] === "" ? [] : halves[i].split(":");
    for (j = 0; j < part.length; j++) {
      if (!/^[0-9a-f]{1,4}$/.test(part[j])) return null;
      part[j] = parseInt(part[j], 16);
    }
    if (i === 1) {
      fill = 8 - all.length - part.length;
      if (fill < 1) return null;
      while (fill-- > 0) all.push(0);
    }
    all = all.concat(part);
  }
  return all.length === 8 ? all : null;
}

function within(words, nets) {
  var i, j, n, bits, drop;
  for (i = 0; i < nets.length; i++) {
    n = nets[i];
    bits = n[0];
    for (j = 0; j < words.length && bits > 0; j++, bits -= 16) {
      drop = bits >= 16 ? 0 : 16 - bits;
      if (words[j] >> drop !== n[j + 1] >> drop) break;
    }
    if (bits <= 0 || j === words.length) return true;
  }
  return false;
}

function matches(glob, host) {
  var p = 0, at = 0, star = -1, mark = 0, c;
  while (at < host.length) {
    c = p < glob.length ? glob.charAt(p) : "";
    if (c === "*") {
      star = p++;
      mark = at;
    } else if (c !== "" && c === host.charAt(at)) {
      p++;
      at++;
    } else if (star >= 0) {
      p = star + 1;
      at = ++mark;
    } else {
      return false;
    }
  }
  while (p < glob.length && glob.charAt(p) === "*") p++;
  return p === glob.length;
}

function FindProxyForURL(url, host) {
  var i, d, w;
  host = host.toLowerCase().replace(/^[\[\]]+|[\[\]]+$/g, "");
  if (host.charAt(host.length - 1) === ".") host = host.substring(0, host.length - 1);
  w = words4(host);
  if (w) return w[0] >> 8 === 127 || within(w, four) ? "DIRECT" : answer;
  w = words6(host);
  if (w) return w.join() === "0,0,0,0,0,0,0,1" || within(w, six) ? "DIRECT" : answer;
  if (host.indexOf(".") < 0 && host.indexOf(":") < 0) return "DIRECT";
  if (matches("*.localhost", host)) return "DIRECT";
  for (i = 0; i < domains.length; i++) {
    d = domains[i];
    if (host === d || host.length > d.length && host.substring(host.length - d.length - 1) === "." + d) return "DIRECT";
  }
  for (i = 0; i < globs.length; i++) if (matches(globs[i], host)) return "DIRECT";
  return answer;
}
`
