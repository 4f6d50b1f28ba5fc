package build

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"fmt"
	"net"
	"strconv"
	"time"

	"shuultuur/cache"
	"shuultuur/check"
	"shuultuur/event/record"
	"shuultuur/identity"
	"shuultuur/lib/setting"
	"shuultuur/list/collection"
	"shuultuur/nameserver"
	"shuultuur/policy"
	"shuultuur/proxy"
	"shuultuur/resolver"
	"shuultuur/resolver/forward"
	"shuultuur/tool/importer/report"
	"shuultuur/zone"
)

// Settings has the part of our settings that an import may write.
type Settings struct {
	Listen struct {
		Proxy       setting.OneOrMore[setting.Address] `yaml:"proxy"`
		Transparent setting.OneOrMore[setting.Address] `yaml:"transparent"`
		TPROXY      setting.OneOrMore[setting.Address] `yaml:"tproxy"`
		ICAP        setting.OneOrMore[setting.Address] `yaml:"icap"`
		Admin       setting.OneOrMore[setting.Address] `yaml:"admin"`
		TLS         *Certificate                       `yaml:"tls"`
	} `yaml:"listen"`
	Data     setting.Folder    `yaml:"data"`
	Lists    collection.Config `yaml:"lists"`
	Checks   check.Config      `yaml:"checks"`
	Policies policy.Config     `yaml:"policies"`
	Identity identity.Config   `yaml:"identity"`
	Proxy    proxy.Config      `yaml:"proxy"`
	Cache    *cache.Config     `yaml:"cache"`
	Pages    Pages             `yaml:"pages"`
	Cut      *Intercept        `yaml:"intercept"`
	Events   record.Config     `yaml:"events"`
	DNS      *NameServer       `yaml:"dns"`
}

// NameServer has the settings that DNS servers need.
type NameServer struct {
	Server  nameserver.Config    `yaml:",inline"`
	Names   resolver.Config      `yaml:",inline"`
	Forward forward.Config       `yaml:"forward"`
	Cache   resolver.CacheConfig `yaml:"cache"`
	Zones   *Zones               `yaml:"zones"`
}

// Zones has the names that the name server answers itself.
type Zones struct {
	Files []zone.File `yaml:"files"`
}

// Pages are our settings of that name.
type Pages struct {
	Contact string `yaml:"contact"`
}

// Intercept are our settings called intercept.
type Intercept struct {
	Root  setting.File   `yaml:"root"`
	Trust []setting.File `yaml:"trust"`
}

// UseDNS returns the name server of the settings, which is made on first use.
func (s *Settings) UseDNS() *NameServer {
	if s.DNS == nil {
		s.DNS = &NameServer{Server: nameserver.Config{Listen: []string{":53"}}}
		s.DNS.Names.Hosts = map[string]setting.OneOrMore[string]{}
		s.DNS.Forward.Routes = map[string]setting.OneOrMore[string]{}
	}
	return s.DNS
}

func (s *Settings) marshal(program, from string) ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Made from the settings of %s in %q by \"shuultuur import\".\n", program, from)
	fmt.Fprint(&b, "# report.txt and report.html say what was carried over, and what was not.\n\n")
	data, err := setting.Marshal(s)
	b.Write(data)
	return b.Bytes(), err
}

// ListenOn returns an address to listen on; "" for ip is all addresses.
func ListenOn(ip string, port int) setting.OneOrMore[setting.Address] {
	return setting.OneOrMore[setting.Address]{setting.Address(net.JoinHostPort(cmp.Or(ip, "::"), strconv.Itoa(port)))}
}

// UdpSize converts the size of the longest reply over UDP.
func UdpSize(w *Work, value string) *report.Note {
	n, err := strconv.ParseUint(value, 10, 16)
	if err != nil || n < 512 {
		return report.ByHand("dns: udp-size", "it is not a size from 512 to 4096")
	}
	w.Set.UseDNS().Server.UDPSize = setting.Size(min(n, 4096))
	return report.Same("dns: udp-size")
}

// minCache is the smallest cache that the resolver accepts, in bytes.
const minCache = 4 << 20

// CacheSize converts the size of the cache for answers, in bytes; 0 is none.
func (s *Settings) CacheSize(n int64) *report.Note {
	switch {
	case n == 0:
		s.UseDNS().Cache.Size = setting.NoSize
		return report.Same("dns: cache: size")
	case n < 0 || n > 1<<40:
		return report.ByHand("dns: cache: size", "it contains no valid size")
	}
	if s.UseDNS().Cache.Size = setting.Size(max(n, minCache)); n < minCache {
		return report.Differs("dns: cache: size", "4 MiB at least")
	}
	return report.Same("dns: cache: size")
}

// CacheEntries converts the number of answers that are kept, at 1 KiB each; 0 is none.
func (s *Settings) CacheEntries(value string) *report.Note {
	n, err := strconv.ParseInt(value, 10, 31)
	switch {
	case err != nil:
		return s.CacheSize(-1)
	case n <= 0:
		return s.CacheSize(n)
	}
	s.UseDNS().Cache.Size = setting.Size(max(minCache, n<<10))
	return report.Differs("dns: cache: size", "in bytes, 1 KiB for each entry")
}

// ListsEvery sets the interval at which fetched lists are checked.
func (s *Settings) ListsEvery(d time.Duration) {
	for name, l := range s.Lists {
		if len(l.Fetch.URL) > 0 {
			l.Fetch.Every = d
			s.Lists[name] = l
		}
	}
}

// A Certificate is a certificate with its key, in PEM.
type Certificate struct {
	Cert setting.File `yaml:"cert"`
	Key  setting.File `yaml:"key"`
}

// LoadPair returns a certificate and its key by the paths in the settings, if they belong
// together.
func LoadPair(w *Work, cert, key string) (*Certificate, error) {
	if _, err := tls.LoadX509KeyPair(cert, key); err != nil {
		return nil, err
	}
	return &Certificate{Cert: w.File(cert), Key: w.File(key)}, nil
}

// KeyPair sets a certificate and its key for the name server, if they belong together.
func KeyPair(w *Work, cert, key string) error {
	pair, err := LoadPair(w, cert, key)
	if err == nil {
		s := &w.Set.UseDNS().Server
		s.Cert, s.Key = pair.Cert, pair.Key
	}
	return err
}
