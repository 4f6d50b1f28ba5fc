package redins

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
)

// importedSettings are the settings made from those of redins.
type importedSettings struct {
	DNS importedDNS `yaml:"dns"`
}

type importedDNS struct {
	Listen    []string         `yaml:"listen,omitempty"`
	TLS       []string         `yaml:"tls,omitempty"`
	Cert      string           `yaml:"cert,omitempty"`
	Key       string           `yaml:"key,omitempty"`
	Deny      []string         `yaml:"deny,omitempty"`
	Recursion []string         `yaml:"recursion,omitempty"`
	Rate      int              `yaml:"rate,omitempty"`
	Forward   *importedForward `yaml:"forward,omitempty"`
	Redis     importedRedis    `yaml:"redis"`
}

type importedForward struct {
	Upstreams []string `yaml:"upstreams"`
}

type importedRedis struct {
	Addresses []string        `yaml:"addresses"`
	DB        int             `yaml:"db,omitempty"`
	Password  string          `yaml:"password,omitempty"`
	Prefix    string          `yaml:"prefix,omitempty"`
	Suffix    string          `yaml:"suffix,omitempty"`
	Schema    Schema          `yaml:"schema"`
	Reload    string          `yaml:"reload,omitempty"`
	MaxTTL    int             `yaml:"max-ttl,omitempty"`
	Geography *importedGeo    `yaml:"geography,omitempty"`
	Health    *importedHealth `yaml:"health,omitempty"`
}

type importedGeo struct {
	Country string `yaml:"country,omitempty"`
	ASN     string `yaml:"asn,omitempty"`
}

type importedHealth struct {
	Interval   string `yaml:"interval,omitempty"`
	Concurrent int    `yaml:"concurrent,omitempty"`
}

// Import converts redins' config.json (1.0 to 1.3), or z42's, to settings. Remarks say
// which settings were not converted, and why.
func Import(config []byte) (settings []byte, remarks []string, err error) {
	if len(config) > maxValue {
		return nil, nil, fmt.Errorf("these %d bytes are not a config.json of redins", len(config))
	}
	var top map[string]any
	d := json.NewDecoder(bytes.NewReader(config))
	d.UseNumber()
	if err := d.Decode(&top); err != nil {
		return nil, nil, jsonError(err)
	}
	if top["handler"] == nil && top["redis_data"] == nil && top["server"] == nil {
		return nil, nil, fmt.Errorf("no \"server\", \"handler\" or \"redis_data\": this is not the config.json of redins or z42")
	}
	i := &importer{out: importedSettings{DNS: importedDNS{Redis: importedRedis{Schema: Redins}}}}
	root := i.object(top, "")
	i.servers(root)
	i.handler(root)
	i.limits(root.take("ratelimit"))
	i.logs(root, "error_log")
	i.reportUnread(root)
	text, err := yaml.Marshal(i.out)
	return text, i.remarks, err
}

type importer struct {
	out     importedSettings
	remarks []string
}

// An object is a JSON object of the configuration; fields that were used are removed.
type object struct {
	i    *importer
	path string
	has  map[string]any // by lower-case name
}

func (i *importer) object(v any, path string) object {
	o := object{i, path, map[string]any{}}
	m, ok := v.(map[string]any)
	if !ok && v != nil {
		i.remark("%s: must be an object", path)
	}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		o.has[strings.ToLower(k)] = m[k]
	}
	return o
}

func (i *importer) remark(format string, args ...any) {
	i.remarks = append(i.remarks, fmt.Sprintf(format, args...))
}

func (o object) at(name string) string { return strings.TrimPrefix(o.path+"."+name, ".") }

func (o object) value(name string) any {
	v := o.has[name]
	delete(o.has, name)
	return v
}

func (o object) take(name string) object { return o.i.object(o.value(name), o.at(name)) }

func (o object) text(name string) string {
	v := o.value(name)
	s, ok := v.(string)
	if !ok && v != nil {
		o.i.remark("%s: must be a string", o.at(name))
	}
	return s
}

func (o object) number(name string) int {
	v := o.value(name)
	if v == nil {
		return 0
	}
	n, ok := v.(json.Number)
	i, err := strconv.Atoi(string(n))
	if !ok || err != nil || i < 0 || i > 1<<31-1 {
		o.i.remark("%s: must be a number", o.at(name))
		return 0
	}
	return i
}

func (o object) is(name string) bool { b, _ := o.value(name).(bool); return b }

func (o object) list(name string) []any { l, _ := o.value(name).([]any); return l }

// drop removes fields that need no setting here.
func (o object) drop(names ...string) {
	for _, n := range names {
		delete(o.has, n)
	}
}

// reportUnread remarks on unused fields.
func (i *importer) reportUnread(o object) {
	for _, name := range slices.Sorted(maps.Keys(o.has)) {
		i.remark("%s: not carried over: there is no such setting here", o.at(name))
	}
}

func (i *importer) servers(root object) {
	for n, v := range root.list("server") {
		s := i.object(v, fmt.Sprintf("server[%d]", n))
		address := net.JoinHostPort(s.text("ip"), strconv.Itoa(max(s.number("port"), 1)))
		tls := s.take("tls")
		s.drop("protocol", "count") // UDP and TCP share a listener; the number of sockets follows the number of processors
		if tls.is("enable") {
			i.out.DNS.TLS = append(i.out.DNS.TLS, address)
			i.out.DNS.Cert, i.out.DNS.Key = tls.text("cert_path"), tls.text("key_path")
			if tls.text("ca_path") != "" {
				i.remark("%s: clients are not asked for certificates", tls.at("ca_path"))
			}
		} else if !slices.Contains(i.out.DNS.Listen, address) {
			i.out.DNS.Listen = append(i.out.DNS.Listen, address)
			tls.drop("cert_path", "key_path", "ca_path")
		}
		i.reportUnread(tls)
		i.reportUnread(s)
	}
}

func (i *importer) handler(root object) {
	h := root.take("handler")
	out := &i.out.DNS.Redis
	out.MaxTTL = h.number("max_ttl")
	out.Reload = seconds(h.number("zone_reload"))
	data := root.take("redis_data")
	if len(data.has) > 0 {
		out.Schema = Z42
		out.MaxTTL = max(out.MaxTTL, data.number("max_ttl"))
		if reload := seconds(data.number("zone_reload")); reload != "" {
			out.Reload = reload
		}
		i.redis(data.take("redis"))
		if data.number("min_ttl") > 0 {
			i.remark("redis_data.min_ttl: TTLs are not changed, up to max-ttl")
		}
		data.drop("zone_cache_size", "zone_cache_timeout", "record_cache_size", "record_cache_timeout")
		i.reportUnread(data)
	}
	if r := h.take("redis"); len(r.has) > 0 {
		i.redis(r)
	}
	i.upstreams(h)
	if g := h.take("geoip"); len(g.has) > 0 {
		if g.is("enable") {
			out.Geography = &importedGeo{g.text("country_db"), g.text("asn_db")}
		}
		g.drop("country_db", "asn_db")
		i.reportUnread(g)
	}
	check := h.take("healthcheck")
	if len(check.has) == 0 {
		check = root.take("healthcheck")
	}
	i.health(check)
	if h.is("log_source_location") {
		i.remark("handler.log_source_location: events name the client, not its country")
	}
	h.drop("cache_timeout", "cache_size") // all zones are in memory
	i.logs(h, "log")
	i.reportUnread(h)
	if r := root.take("redis_stat"); len(r.has) > 0 {
		i.remark("redis_stat: results of health checks are kept in the Redis that has the zones")
	}
}

func seconds(n int) string {
	if n == 0 {
		return ""
	}
	return (time.Duration(n) * time.Second).String()
}

func (i *importer) redis(r object) {
	out := &i.out.DNS.Redis
	address := r.text("address")
	if ip := r.text("ip"); address == "" && ip != "" {
		port := r.number("port")
		if port == 0 {
			port = 6379
		}
		address = net.JoinHostPort(ip, strconv.Itoa(port))
	}
	if r.text("net") == "unix" || strings.HasPrefix(address, "/") {
		i.remark("%s: Redis is reached over TCP only; name its host and port for %q", r.at("address"), address)
		address = "127.0.0.1:6379"
	}
	out.Addresses = []string{address}
	out.DB, out.Password, out.Prefix, out.Suffix = r.number("db"), r.text("password"), r.text("prefix"), r.text("suffix")
	r.drop("port", "connection", "connect_timeout", "read_timeout", "active_connections")
	i.reportUnread(r)
}

func (i *importer) upstreams(h object) {
	var all []string
	for n, v := range h.list("upstream") {
		u := i.object(v, fmt.Sprintf("handler.upstream[%d]", n))
		address, protocol, port := u.text("ip"), u.text("protocol"), u.number("port")
		if ip, err := netip.ParseAddr(address); err == nil && (port != 0 && port != 53) {
			address = netip.AddrPortFrom(ip, uint16(port)).String()
		}
		if protocol == "tcp" || protocol == "tcp-tls" {
			address = map[string]string{"tcp": "tcp://", "tcp-tls": "tls://"}[protocol] + address
		}
		all = append(all, address)
		u.drop("timeout")
		i.reportUnread(u)
	}
	if all != nil {
		i.out.DNS.Forward = &importedForward{all}
	}
	if h.is("upstream_fallback") {
		i.remark("handler.upstream_fallback: other names are resolved for private networks; name further clients under dns: recursion:")
	} else {
		i.out.DNS.Recursion = []string{"127.0.0.0/8"} // as few as possible
	}
}

func (i *importer) health(c object) {
	if len(c.has) == 0 {
		return
	}
	if c.is("enable") {
		i.out.DNS.Redis.Health = &importedHealth{seconds(c.number("check_interval")), min(c.number("max_requests"), 1000)}
	} else {
		i.remark("healthcheck.enable: checks cannot be turned off as a whole; records with a health_check are checked")
	}
	c.drop("max_pending_requests", "update_interval", "redis", "check_interval", "max_requests")
	i.logs(c, "log")
	i.reportUnread(c)
}

func (i *importer) limits(r object) {
	if len(r.has) == 0 {
		return
	}
	rate := r.number("rate")
	if r.is("enable") && rate > 0 {
		i.out.DNS.Rate = (rate + 59) / 60 // redins counts per minute
	}
	if r.number("burst") > 0 {
		i.remark("ratelimit.burst: a client may send the queries of a second at once")
	}
	for _, v := range r.list("blacklist") {
		if s, ok := v.(string); ok {
			i.out.DNS.Deny = append(i.out.DNS.Deny, network(s))
		}
	}
	if len(r.list("whitelist")) > 0 {
		i.remark("ratelimit.whitelist: the limit is for all clients except those under dns: recursion:, which RRL exempts")
	}
	i.reportUnread(r)
}

// network turns an address into a network of one address.
func network(s string) string {
	if a, err := netip.ParseAddr(s); err == nil {
		return netip.PrefixFrom(a, a.BitLen()).String()
	}
	return s
}

func (i *importer) logs(o object, name string) {
	if l := o.take(name); len(l.has) > 0 && l.is("enable") {
		i.remark("%s: queries are recorded under events:, messages of the program go to standard error", l.path)
	}
}
