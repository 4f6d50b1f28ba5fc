package importer

import (
	"bytes"
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
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
)

// settings are the part of our settings that an import may write.
type settings struct {
	Listen struct {
		Proxy       setting.OneOrMore[setting.Address] `yaml:"proxy"`
		Transparent setting.OneOrMore[setting.Address] `yaml:"transparent"`
		TPROXY      setting.OneOrMore[setting.Address] `yaml:"tproxy"`
		ICAP        setting.OneOrMore[setting.Address] `yaml:"icap"`
		Admin       setting.OneOrMore[setting.Address] `yaml:"admin"`
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

// nameServer is what programs that answer names have settings for.
type nameServer struct {
	Server  nameserver.Config    `yaml:",inline"`
	Names   resolver.Config      `yaml:",inline"`
	Forward forward.Config       `yaml:"forward"`
	Cache   resolver.CacheConfig `yaml:"cache"`
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

// dns is the name server of the settings, made when it is first needed.
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
	fmt.Fprintf(&b, "# Made of the settings of %s in %q by \"shuultuur import\".\n", program, from)
	fmt.Fprint(&b, "# report.txt and report.html say what was carried over, and what was not.\n\n")
	data, err := setting.Marshal(s)
	b.Write(data)
	return b.Bytes(), err
}

// listenOn is an address to listen on, that of all when ip is "".
func listenOn(ip string, port int) setting.OneOrMore[setting.Address] {
	return setting.OneOrMore[setting.Address]{setting.Address(net.JoinHostPort(cmp.Or(ip, "::"), strconv.Itoa(port)))}
}

// asNetworks reads addresses and networks; ones that cannot be read are left out.
func asNetworks(texts []string) (all []policy.Network) {
	for _, s := range texts {
		var n policy.Network
		if n.UnmarshalText([]byte(s)) == nil {
			all = append(all, n)
		}
	}
	return all
}

// network reads a network, or an address as one.
func network(s string) (netip.Prefix, error) {
	var n policy.Network
	err := n.UnmarshalText([]byte(s))
	return n.Prefix, err
}

// anybody are the networks of all addresses.
func anybody() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
}

// atMost takes a duration of at most most.
func atMost(ours string, d, most time.Duration, to *setting.Duration) Note {
	if d > most {
		*to = setting.Duration(most)
		return differs(ours, fmt.Sprintf("at most %v", setting.Duration(most)))
	}
	*to = setting.Duration(d)
	return carried(ours)
}

// keepRecord has the record kept for so long.
func (w *work) keepRecord(d time.Duration) {
	w.set.Events.SQLite, w.set.Events.Keep = "events.db", setting.Duration(d)
}

// leaveOutQueries keeps queries out of the record.
func (w *work) leaveOutQueries() {
	_ = w.set.dns().Server.Log.UnmarshalText([]byte("off")) // which it reads
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
