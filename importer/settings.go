package importer

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"shuultuur/cache"
	"shuultuur/check"
	"shuultuur/event"
	"shuultuur/identity"
	"shuultuur/list/collection"
	"shuultuur/nameserver"
	"shuultuur/policy"
	"shuultuur/proxy"
	"shuultuur/resolver"
	"shuultuur/resolver/forward"
	"shuultuur/setting"
	"shuultuur/zone"
)

// settings has the part of our settings that an import may write.
type settings struct {
	Listen struct {
		Proxy       setting.OneOrMore[setting.Address] `yaml:"proxy"`
		Transparent setting.OneOrMore[setting.Address] `yaml:"transparent"`
		TPROXY      setting.OneOrMore[setting.Address] `yaml:"tproxy"`
		ICAP        setting.OneOrMore[setting.Address] `yaml:"icap"`
		Admin       setting.OneOrMore[setting.Address] `yaml:"admin"`
		TLS         *certificate                       `yaml:"tls"`
	} `yaml:"listen"`
	Data     setting.Folder    `yaml:"data"`
	Lists    collection.Config `yaml:"lists"`
	Checks   check.Config      `yaml:"checks"`
	Policies policy.Config     `yaml:"policies"`
	Identity identity.Config   `yaml:"identity"`
	Proxy    proxy.Config      `yaml:"proxy"`
	Cache    *cache.Config     `yaml:"cache"`
	Pages    pages             `yaml:"pages"`
	Cut      *intercepted      `yaml:"intercept"`
	Events   event.Config      `yaml:"events"`
	DNS      *nameServer       `yaml:"dns"`
}

// nameServer has the settings that DNS servers need.
type nameServer struct {
	Server  nameserver.Config    `yaml:",inline"`
	Names   resolver.Config      `yaml:",inline"`
	Forward forward.Config       `yaml:"forward"`
	Cache   resolver.CacheConfig `yaml:"cache"`
	Zones   *zones               `yaml:"zones"`
}

// zones has the names that the name server answers itself.
type zones struct {
	Files []zone.File `yaml:"files"`
}

// pages are our settings of that name.
type pages struct {
	Contact string `yaml:"contact"`
}

// intercepted are our settings called intercept.
type intercepted struct {
	Root  setting.File   `yaml:"root"`
	Trust []setting.File `yaml:"trust"`
}

// dns returns the name server of the settings, which is made on first use.
func (s *settings) dns() *nameServer {
	if s.DNS == nil {
		s.DNS = &nameServer{Server: nameserver.Config{Listen: []string{":53"}}}
		s.DNS.Names.Hosts = map[string]setting.OneOrMore[string]{}
		s.DNS.Forward.Routes = map[string]setting.OneOrMore[string]{}
	}
	return s.DNS
}

func (s *settings) marshal(program, from string) ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Made from the settings of %s in %q by \"shuultuur import\".\n", program, from)
	fmt.Fprint(&b, "# report.txt and report.html say what was carried over, and what was not.\n\n")
	data, err := setting.Marshal(s)
	b.Write(data)
	return b.Bytes(), err
}

// listenOn returns an address to listen on; "" for ip is all addresses.
func listenOn(ip string, port int) setting.OneOrMore[setting.Address] {
	return setting.OneOrMore[setting.Address]{setting.Address(net.JoinHostPort(cmp.Or(ip, "::"), strconv.Itoa(port)))}
}

// policyNetworks reads the addresses and networks of a policy, which are from a place.
func policyNetworks(w *work, at place, texts []string) []policy.Network {
	if len(texts) > maxNetworks {
		w.rep.add(&Note{Kind: Lost, place: at, What: "networks", Ours: "policies: networks", Why: fmt.Sprintf("the first %d are there: write the others as larger networks", maxNetworks)})
		texts = texts[:maxNetworks]
	}
	return asNetworks(texts)
}

// asNetworks reads addresses and networks. It leaves out those that cannot be read.
func asNetworks(texts []string) (all []policy.Network) {
	for _, s := range texts {
		if n, err := network(s); err == nil {
			all = append(all, policy.Network{Prefix: n})
		}
	}
	return all
}

// network reads a network, or an address as one.
func network(s string) (netip.Prefix, error) {
	if p, err := netip.ParsePrefix(s); err == nil {
		s = p.Masked().String() // other programs accept bits after the mask
	}
	var n policy.Network
	err := n.UnmarshalText([]byte(s))
	return n.Prefix, err
}

// allNetworks returns the networks of all addresses.
func allNetworks() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
}

// atMost converts a duration of at most most.
func atMost(ours string, d, most time.Duration, to *setting.Duration) *Note {
	if d > most {
		*to = setting.Duration(most)
		return differs(ours, fmt.Sprintf("at most %v", setting.Duration(most)))
	}
	*to = setting.Duration(d)
	return carried(ours)
}

// takeTime converts a number of units, at most most.
func takeTime(value, ours string, unit, most time.Duration, to *setting.Duration) *Note {
	n, err := strconv.ParseUint(value, 10, 31)
	if err != nil || n == 0 {
		return lostOurs(ours, fmt.Sprintf("%q is no time", value))
	}
	return atMost(ours, time.Duration(n)*unit, most, to)
}

// udpSize converts the size of the longest reply over UDP.
func udpSize(w *work, value string) *Note {
	n, err := strconv.ParseUint(value, 10, 16)
	if err != nil || n < 512 {
		return lostOurs("dns: udp-size", "it is not a size from 512 to 4096")
	}
	w.set.dns().Server.UDPSize = setting.Size(min(n, 4096))
	return carried("dns: udp-size")
}

// minCache is the smallest cache that the resolver accepts, in bytes.
const minCache = 4 << 20

// cacheSize converts the size of the cache for answers, in bytes.
func (s *settings) cacheSize(n int64) *Note {
	if n <= 0 || n > 1<<40 {
		return lostOurs("dns: cache: size", "it contains no valid size")
	}
	if s.dns().Cache.Size = setting.Size(max(n, minCache)); n < minCache {
		return differs("dns: cache: size", "4 MiB at least")
	}
	return carried("dns: cache: size")
}

// cacheEntries converts the number of answers that are kept, at 1 KiB each.
func (s *settings) cacheEntries(value string) *Note {
	n, err := strconv.ParseInt(value, 10, 31)
	if err != nil || n <= 0 {
		return differs("dns: cache: size", "there is always a cache, of 16 MiB")
	}
	s.dns().Cache.Size = setting.Size(max(minCache, n<<10))
	return differs("dns: cache: size", "in bytes, 1 KiB for each entry")
}

const week7d = 7 * 24 * time.Hour

// listsEvery sets the interval at which fetched lists are checked.
func (s *settings) listsEvery(d time.Duration) {
	for name, l := range s.Lists {
		if l.Fetch.URL != "" {
			l.Fetch.Every = d
			s.Lists[name] = l
		}
	}
}

// A certificate is a certificate with its key, in PEM.
type certificate struct {
	Cert setting.File `yaml:"cert"`
	Key  setting.File `yaml:"key"`
}

// loadPair returns a certificate and its key by the paths in the settings, if they belong
// together.
func loadPair(w *work, cert, key string) (*certificate, error) {
	if _, err := tls.LoadX509KeyPair(cert, key); err != nil {
		return nil, err
	}
	return &certificate{Cert: w.file(cert), Key: w.file(key)}, nil
}

// keyPair sets a certificate and its key for the name server, if they belong together.
func keyPair(w *work, cert, key string) error {
	pair, err := loadPair(w, cert, key)
	if err == nil {
		s := &w.set.dns().Server
		s.Cert, s.Key = pair.Cert, pair.Key
	}
	return err
}

// findFile finds a file that settings in dir name. Imported settings may be a copy from another
// machine, so an absolute path is first looked for below dir, with as much of the path as
// exists there. The result is an absolute path; "" stays "".
func findFile(dir, file string) string {
	if file == "" {
		return ""
	}
	places := below(dir, file)
	at := slices.IndexFunc(places, func(p string) bool {
		_, err := os.Stat(p)
		return err == nil
	})
	switch {
	case at >= 0:
		file = places[at]
	case !filepath.IsAbs(file):
		file = filepath.Join(dir, file)
	}
	if abs, err := filepath.Abs(file); err == nil {
		return abs
	}
	return file
}

// below returns the places where a path of settings in dir is looked for.
func below(dir, path string) (all []string) {
	if !filepath.IsAbs(path) {
		all = append(all, filepath.Join(dir, path))
	}
	for rest := strings.TrimPrefix(filepath.Clean(path), "/"); rest != ""; _, rest, _ = strings.Cut(rest, "/") {
		if strings.Contains(rest, "/") || !strings.ContainsAny(rest, "*?[") { // otherwise every file in dir would fit
			all = append(all, filepath.Join(dir, rest))
		}
	}
	if filepath.IsAbs(path) {
		all = append(all, path)
	}
	return all
}

// keepRecord sets how long the record is kept.
func (w *work) keepRecord(d time.Duration) {
	w.set.Events.SQLite, w.set.Events.Keep = "events.db", setting.Duration(d)
}

// leaveOutQueries keeps queries out of the record.
func (w *work) leaveOutQueries() {
	_ = w.set.dns().Server.Log.UnmarshalText([]byte("off")) // a valid text
}

// localLog is where log daemons accept events, if they listen.
const localLog = "udp://127.0.0.1:514"

// sendTo sends events to a log server.
func sendTo(w *work, server string) *Note {
	e := &w.set.Events
	switch {
	case e.Syslog == nil:
		e.SQLite, e.Syslog = "events.db", &event.Syslog{To: server}
	case e.Syslog.To != server:
		return lostOurs("events.syslog", "one log server is sent to, "+e.Syslog.To+": have it pass events on")
	}
	if server == localLog {
		return differs("events.syslog", "in the form of RFC 5424, by UDP: have the log daemon listen there (rsyslog: imudp), or write another address")
	}
	return differs("events.syslog", "in the form of RFC 5424")
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
