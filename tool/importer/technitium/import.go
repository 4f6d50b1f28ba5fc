// Package technitium imports the settings of Technitium DNS Server as its API returns them.
package technitium

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"shuultuur/filter"
	"shuultuur/intercept"
	"shuultuur/lib/setting"
	"shuultuur/resolver/forward"
	"shuultuur/tool/importer/build"
	"shuultuur/tool/importer/input"
	"shuultuur/tool/importer/report"
)

// A key has the default of a setting in Technitium DNS Server, and
// converts other values. Without take there is no equivalent, for the given
// reason.
type key struct {
	standard []string
	take     func(p *build.Plain, value string, all map[string]string) *report.Note
	why      string
}

// Import reads the response of /api/settings/get, and the zones in those of
// /api/blocked/list and /api/allowed/list if they were added.
func Import(w *build.Work, file string) error {
	w.Set.UseDNS()
	hours := 0
	err := build.ReadTree(w, file, "settings.json", func(all map[string]string) build.Reader {
		bare := map[string]string{}
		for k, v := range all {
			bare[strings.TrimPrefix(k, "response.")] = v
		}
		hours, _ = strconv.Atoi(bare["blockListUpdateIntervalHours"])
		return func(p *build.Plain, key, value string) *report.Note {
			key = strings.TrimPrefix(key, "response.")
			top, _, _ := strings.Cut(key, ".")
			if n, ok := takeLimit(p, key, value, bare); ok {
				return n
			}
			k, known := table[key]
			if !known {
				k, known = table[top]
			}
			switch {
			case known && slices.Contains(k.standard, value):
				return &report.Note{Kind: report.Default}
			case known && k.take != nil:
				return k.take(p, value, bare)
			case known:
				return report.None(k.why)
			}
			return report.None(reasons.Of(key))
		}
	})
	if hours > 0 && hours <= 7*24 {
		w.Set.ListsEvery(time.Duration(hours) * time.Hour)
	}
	return err
}

// reasons are the reasons why parts of Technitium have no equivalent.
var reasons = report.Reasons{
	{"webService", "pages of the administration are at listen: admin"},
	{"resolver", "times and tries of upstreams are those of dns: forward"},
	{"dnsApps", "there are no apps; use rules and lists"},
	{"cachePrefetch", "entries in use are fetched before they expire"},
	{"serveStale", "dns: cache: stale says how old an answer may be while upstreams fail"},
	{"eDnsClientSubnet", "the networks of clients are not sent to upstreams"},
	{"proxy", "upstreams are asked directly"},
	{"quic", "limits follow the size of the machine"},
	{"qpm", "one limit, dns: rate, applies to every client"},
	{"default", "records have TTLs of their own: dns: zones"},
	{"minSoa", "zones that are fetched are renewed as their SOA says"},
	{"dnsOver", "dns: tls, https and quic are the addresses of encrypted DNS"},
	{"enableUdpSocketPool", "each query has its own source port"},
	{"maxConcurrent", "limits follow the size of the machine"},
	{"cacheFailure", "failures are kept for a few seconds"},
	{"enableDnsOver", "dns: tls, https and quic are the addresses of encrypted DNS"},
}

// carriedTo returns the note on a setting that is read together with another.
func carriedTo(ours string) func(*build.Plain, string, map[string]string) *report.Note {
	return func(*build.Plain, string, map[string]string) *report.Note { return report.Same(ours) }
}

// isDifferent returns the note on a setting that works differently here.
func isDifferent(ours, why string) func(*build.Plain, string, map[string]string) *report.Note {
	return func(*build.Plain, string, map[string]string) *report.Note { return report.Differs(ours, why) }
}

// takeDuration converts a number of units, at most most.
func takeDuration(ours string, unit, most time.Duration, to func(p *build.Plain) *setting.Duration) func(*build.Plain, string, map[string]string) *report.Note {
	return func(p *build.Plain, value string, _ map[string]string) *report.Note {
		return build.TakeTime(value, ours, unit, most, to(p))
	}
}

// table has the settings of Technitium DNS Server 13.
var table = map[string]key{
	"version":     {standard: []string{""}, take: func(*build.Plain, string, map[string]string) *report.Note { return &report.Note{Kind: report.Default} }},
	"uptimestamp": {take: func(*build.Plain, string, map[string]string) *report.Note { return &report.Note{Kind: report.Default} }},
	"status":      {take: func(*build.Plain, string, map[string]string) *report.Note { return &report.Note{Kind: report.Default} }},
	"server":      {take: func(*build.Plain, string, map[string]string) *report.Note { return &report.Note{Kind: report.Default} }},
	"dnsServerDomain": {take: func(p *build.Plain, value string, _ map[string]string) *report.Note {
		p.Work.Set.UseDNS().Server.NSID = value
		return report.Same("dns: nsid")
	}},
	"dnsServerLocalEndPoints": {take: takeListen},
	"forwarders": {take: func(p *build.Plain, value string, all map[string]string) *report.Note {
		return p.Upstream(forwarder(value, all["forwarderProtocol"]))
	}},
	"forwarderProtocol":    {standard: []string{"Udp"}, take: carriedTo("dns: forward: upstreams")},
	"concurrentForwarding": {take: takeConcurrent},
	"forwarderTimeout": {standard: []string{"2000"}, take: takeDuration("dns: forward: timeout", time.Millisecond, 30*time.Second, func(p *build.Plain) *setting.Duration {
		return &p.Work.Set.UseDNS().Forward.Timeout
	})},
	"forwarderRetries":     {standard: []string{"3"}, take: isDifferent("dns: forward: total", "all upstreams are tried within this time")},
	"forwarderConcurrency": {standard: []string{"2"}, take: isDifferent("dns: forward: race", "with order: parallel")},
	"clientTimeout":        {standard: []string{"2000", "4000"}, take: takeDuration("dns: wait", time.Millisecond, time.Minute, func(p *build.Plain) *setting.Duration { return &p.Work.Set.UseDNS().Server.Wait })},
	"tcpReceiveTimeout":    {standard: []string{"10000"}, take: takeDuration("dns: idle", time.Millisecond, 5*time.Minute, func(p *build.Plain) *setting.Duration { return &p.Work.Set.UseDNS().Server.Idle })},
	"blockListUrls": {take: func(p *build.Plain, value string, _ map[string]string) *report.Note {
		if u, ok := strings.CutPrefix(value, "!"); ok {
			return p.List(false, u)
		}
		return p.List(true, value)
	}},
	"blockListUpdateIntervalHours": {standard: []string{"24"}, take: carriedTo("lists: every")},
	"enableBlocking":               {standard: []string{"true"}, take: isDifferent("nothing", "Technitium filters nothing at present; these settings filter")},
	"blockedZones":                 {take: func(p *build.Plain, value string, _ map[string]string) *report.Note { return p.AddNames(true, value) }},
	"allowedZones":                 {take: func(p *build.Plain, value string, _ map[string]string) *report.Note { return p.AddNames(false, value) }},
	"blockingType":                 {take: takeAnswer},
	"customBlockingAddresses":      {standard: []string{""}, take: takeSinkhole},
	"blockingAnswerTtl":            {standard: []string{"30"}, take: takeDuration("dns: block: ttl", time.Second, 24*time.Hour, func(p *build.Plain) *setting.Duration { return &p.Work.Set.UseDNS().Names.Block.TTL })},
	"allowTxtBlockingReport":       {standard: []string{"true"}, take: isDifferent("dns", "every answer says why in an extended error (RFC 8914)")},
	"blockingBypassList": {take: func(p *build.Plain, value string, _ map[string]string) *report.Note {
		n, err := input.Network(value)
		if err != nil {
			return report.ByHand("policies", err.Error())
		}
		p.Unfiltered(n)
		return report.Same("policy unfiltered")
	}},
	"dnssecValidation":       {take: func(p *build.Plain, value string, _ map[string]string) *report.Note { return p.Validate(value) }},
	"udpPayloadSize":         {standard: []string{"1232"}, take: takePayload},
	"recursion":              {standard: []string{"AllowOnlyForPrivateNetworks"}, take: takeRecursion},
	"recursionNetworkACL":    {take: takeRecursionNetwork},
	"cacheMinimumRecordTtl":  {standard: []string{"10", "0"}, take: takeDuration("dns: cache: min-ttl", time.Second, time.Hour, func(p *build.Plain) *setting.Duration { return &p.Work.Set.UseDNS().Cache.MinTTL })},
	"cacheMaximumRecordTtl":  {standard: []string{"604800"}, take: takeDuration("dns: cache: max-ttl", time.Second, build.Week, func(p *build.Plain) *setting.Duration { return &p.Work.Set.UseDNS().Cache.MaxTTL })},
	"cacheNegativeRecordTtl": {standard: []string{"300"}, take: takeDuration("dns: cache: negative-ttl", time.Second, 24*time.Hour, func(p *build.Plain) *setting.Duration { return &p.Work.Set.UseDNS().Cache.Negative })},
	"serveStale":             {standard: []string{"true"}, take: isDifferent("dns: cache: stale", "stale answers are served while upstreams fail, for at most a day")},
	"serveStaleTtl":          {standard: []string{"259200", "86400"}, take: takeDuration("dns: cache: stale", time.Second, build.Week, func(p *build.Plain) *setting.Duration { return &p.Work.Set.UseDNS().Cache.Stale })},
	"cacheMaximumEntries": {standard: []string{"10000", "0"}, take: func(p *build.Plain, value string, _ map[string]string) *report.Note {
		return p.Work.Set.CacheEntries(value)
	}},
	"saveCache":     {standard: []string{"true"}, why: "the cache begins empty after a start"},
	"logQueries":    {take: isDifferent("events", "all queries are recorded; dns: log limits how many a second")},
	"loggingType":   {take: isDifferent("events", "all queries are recorded; the log goes to standard error")},
	"enableLogging": {take: isDifferent("events", "all queries are recorded; the log goes to standard error")},
	"maxLogFileDays": {standard: []string{"0"}, take: func(p *build.Plain, value string, _ map[string]string) *report.Note {
		n := takeDuration("events: keep", 24*time.Hour, 3650*24*time.Hour, func(p *build.Plain) *setting.Duration { return &p.Work.Set.Events.Keep })(p, value, nil)
		p.Work.Set.Events.SQLite = "events.db"
		return n
	}},
	"maxStatFileDays":                  {standard: []string{"0", "365"}, take: isDifferent("events: keep", "statistics are computed from the record, for as long as it is kept")},
	"enableInMemoryStats":              {standard: []string{"false"}},
	"logFolder":                        {standard: []string{"logs"}, take: isDifferent("data", "the record is in the data folder")},
	"ignoreResolverLogs":               {standard: []string{"false"}},
	"useLocalTime":                     {standard: []string{"false"}},
	"randomizeName":                    {standard: []string{"true", "false"}},
	"qnameMinimization":                {standard: []string{"true"}},
	"nsRevalidation":                   {standard: []string{"true", "false"}},
	"preferIPv6":                       {standard: []string{"false"}},
	"listenBacklog":                    {standard: []string{"100"}},
	"tcpSendTimeout":                   {standard: []string{"10000"}},
	"useSoaSerialDateScheme":           {standard: []string{"false"}},
	"dnsAppsEnableAutomaticUpdate":     {standard: []string{"true"}},
	"enableDnsOverTls":                 {standard: []string{"false"}, take: encrypted("tls", "dnsOverTlsPort", "853")},
	"enableDnsOverHttps":               {standard: []string{"false"}, take: encrypted("https", "dnsOverHttpsPort", "443")},
	"enableDnsOverQuic":                {standard: []string{"false"}, take: encrypted("quic", "dnsOverQuicPort", "853")},
	"dnsOverTlsPort":                   {standard: []string{"853"}, take: carriedTo("dns: tls")},
	"dnsOverHttpsPort":                 {standard: []string{"443"}, take: carriedTo("dns: https")},
	"dnsOverQuicPort":                  {standard: []string{"853"}, take: carriedTo("dns: quic")},
	"dnsTlsCertificatePath":            {standard: []string{"", "<nil>"}, take: isDifferent("dns: cert, key", "files in PEM; see enableDnsOverTls, enableDnsOverHttps and enableDnsOverQuic")},
	"dnsTlsCertificatePassword":        {standard: []string{"", "************"}, take: carriedTo("dns: key")},
	"qpmLimitRequests":                 {standard: []string{"0"}, take: takeRate},
	"qpmLimitBypassList":               {why: "one limit, dns: rate, applies to every client"},
	"dnsReverseProxyNetworkACL":        {take: takeTrusted},
	"reverseProxyNetworkACL":           {take: takeTrusted},
	"clusterInitialized":               {standard: []string{"false"}},
	"blockListNextUpdatedOn":           {take: func(*build.Plain, string, map[string]string) *report.Note { return &report.Note{Kind: report.Default} }},
	"temporaryDisableBlockingTill":     {take: func(*build.Plain, string, map[string]string) *report.Note { return &report.Note{Kind: report.Default} }},
	"dnsServerIPv4SourceAddresses":     {standard: []string{"0.0.0.0"}, why: "the system's routes choose the address that queries leave from"},
	"dnsServerIPv6SourceAddresses":     {standard: []string{"::"}, why: "the system's routes choose the address that queries leave from"},
	"webServiceTlsCertificatePassword": {standard: []string{"", "************"}},
	"tsigKeys":                         {why: "write keys under dns: zones: tsig"},
	"zoneTransferAllowedNetworks":      {why: "write who may fetch zones under dns: zones: allow"},
	"notifyAllowedNetworks":            {why: "primaries are named under dns: zones: secondary"},
}

// forwarder converts an upstream to our syntax.
func forwarder(value, protocol string) string {
	value, _, _ = strings.Cut(value, " (") // the address was resolved from the name
	if strings.Contains(value, "://") {
		return value
	}
	switch protocol {
	case "Tcp":
		return "tcp://" + value
	case "Tls":
		return "tls://" + value
	case "Quic":
		return "quic://" + value
	case "Https":
		return "https://" + value + "/dns-query"
	}
	return value
}

func takeListen(p *build.Plain, value string, _ map[string]string) *report.Note {
	l := &p.Work.Set.UseDNS().Server
	if slices.Equal(l.Listen, []string{":53"}) {
		l.Listen = nil
	}
	host, port, err := net.SplitHostPort(value)
	if err != nil {
		return report.ByHand("dns: listen", err.Error())
	}
	if host == "0.0.0.0" || host == "::" {
		value = ":" + port // all addresses of both families
	}
	if !slices.Contains(l.Listen, value) {
		l.Listen = append(l.Listen, value)
	}
	return report.Same("dns: listen")
}

func takeConcurrent(p *build.Plain, value string, _ map[string]string) *report.Note {
	f := &p.Work.Set.UseDNS().Forward
	if value == "true" {
		f.Order = forward.Fastest
		return report.Differs("dns: forward: order", "the fastest upstream is asked, and another one if it does not answer")
	}
	f.Order = forward.Strict
	return report.Same("dns: forward: order")
}

func takeAnswer(p *build.Plain, value string, _ map[string]string) *report.Note {
	if value == "CustomAddress" {
		p.Work.Set.UseDNS().Names.Block.Answer = filter.Sinkhole
		return report.Same("dns: block: answer")
	}
	return p.Answer(value)
}

func takeSinkhole(p *build.Plain, value string, all map[string]string) *report.Note {
	a, err := netip.ParseAddr(value)
	if err != nil {
		return report.ByHand("dns: block: sinkhole", err.Error())
	}
	if all["blockingType"] != "CustomAddress" {
		return &report.Note{Kind: report.Default, Why: "the answer differs"}
	}
	b := &p.Work.Set.UseDNS().Names.Block
	b.Sinkhole = append(b.Sinkhole, a)
	return report.Same("dns: block: sinkhole")
}

func takePayload(p *build.Plain, value string, _ map[string]string) *report.Note {
	return build.UdpSize(p.Work, value)
}

func takeRecursion(p *build.Plain, value string, _ map[string]string) *report.Note {
	l := &p.Work.Set.UseDNS().Server
	switch value {
	case "Allow":
		l.Recursion = build.AllNetworks()
		return report.Same("dns: recursion")
	case "UseSpecifiedNetworkACL", "UseSpecifiedNetworks":
		return report.Same("dns: recursion")
	}
	return report.ByHand("dns: recursion", "write there the networks that may use the resolver")
}

// takeRecursionNetwork converts a network that may ask for recursion; with "!" in front
// it may not.
func takeRecursionNetwork(p *build.Plain, value string, _ map[string]string) *report.Note {
	l := &p.Work.Set.UseDNS().Server
	text, denied := strings.CutPrefix(value, "!")
	n, err := input.Network(text)
	if err != nil {
		return report.ByHand("dns: recursion", err.Error())
	}
	if denied {
		l.Deny = append(l.Deny, n)
		return report.Differs("dns: deny", "they get no answer")
	}
	l.Recursion = append(l.Recursion, n)
	return report.Same("dns: recursion")
}

// encrypted converts a server of encrypted DNS, which listens on the addresses of
// the others.
func encrypted(protocol, port, standard string) func(*build.Plain, string, map[string]string) *report.Note {
	return func(p *build.Plain, _ string, all map[string]string) *report.Note {
		s := &p.Work.Set.UseDNS().Server
		if s.Cert == "" {
			if err := convertCertificate(p, all); err != nil {
				return report.ByHand("dns: "+protocol, fmt.Sprintf("its certificate cannot be used (%v): write certificate and key as PEM files (openssl pkcs12 -in FILE -nodes) under dns: cert and key, and the addresses under dns: %s", err, protocol))
			}
		}
		to := map[string]*setting.OneOrMore[string]{"tls": &s.TLS, "https": &s.HTTPS, "quic": &s.QUIC}[protocol]
		number := cmp.Or(all[port], standard)
		hosts := []string{}
		for key, value := range all {
			if strings.HasPrefix(key, "dnsServerLocalEndPoints") {
				if host, _, err := net.SplitHostPort(value); err == nil && host != "0.0.0.0" && host != "::" {
					hosts = append(hosts, host)
				}
			}
		}
		if slices.Sort(hosts); len(hosts) == 0 {
			hosts = append(hosts, "") // all addresses
		}
		for _, host := range hosts {
			*to = append(*to, net.JoinHostPort(host, number))
		}
		return report.Same("dns: " + protocol)
	}
}

// convertCertificate writes the certificate and key of encrypted DNS, which are a PKCS #12
// file, as files of ours. The API never tells the password.
func convertCertificate(p *build.Plain, all map[string]string) error {
	path := all["dnsTlsCertificatePath"]
	if path == "" || path == "<nil>" {
		return errors.New("dnsTlsCertificatePath names none")
	}
	b, err := input.Whole(input.Find(filepath.Dir(p.At.File), path))
	if err != nil {
		return err
	}
	certs, key, err := intercept.FromPKCS12(b, strings.Trim(all["dnsTlsCertificatePassword"], "*"), 10*time.Second)
	if err != nil {
		return fmt.Errorf("%s with the password in dnsTlsCertificatePassword, which the API shows as asterisks: %w", filepath.Base(path), err)
	}
	ours, secret := filepath.Join(p.Work.To, "cert.pem"), filepath.Join(p.Work.To, "key.pem")
	if err := errors.Join(os.WriteFile(ours, certs, 0o644), os.WriteFile(secret, key, 0o600)); err != nil {
		return err
	}
	return build.KeyPair(p.Work, ours, secret)
}

// takeLimit converts a field of a limit for networks of one size. The limit for single
// addresses is like ours.
func takeLimit(p *build.Plain, key, value string, all map[string]string) (n *report.Note, is bool) {
	list, number, field := splitField(key)
	if list != "qpmPrefixLimitsIPv4" && list != "qpmPrefixLimitsIPv6" {
		return n, false
	}
	bits := all[list+"."+number+".prefix"]
	switch {
	case field == "prefix":
		return &report.Note{Kind: report.Default, Why: "with its limits"}, true
	case field == "udpLimit" && (list == "qpmPrefixLimitsIPv4" && bits == "32" || list == "qpmPrefixLimitsIPv6" && bits == "128" && p.Work.Set.UseDNS().Server.Rate == 0):
		return takeRate(p, value, all), true
	}
	return report.Differs("dns: rate", "one limit, for each IPv4 address and IPv6 /56"), true
}

// splitField splits the path of a field of a group in a list.
func splitField(key string) (list, number, field string) {
	parts := strings.Split(key, ".")
	if len(parts) != 3 {
		return "", "", ""
	}
	return parts[0], parts[1], parts[2]
}

// takeTrusted converts proxies whose word on the client's address counts.
func takeTrusted(p *build.Plain, value string, _ map[string]string) *report.Note {
	n, err := input.Network(value)
	if err != nil {
		return report.ByHand("dns: trusted", err.Error())
	}
	s := &p.Work.Set.UseDNS().Server
	s.Trusted = append(s.Trusted, n)
	return report.Differs("dns: trusted", "they send it in a PROXY protocol header")
}

// takeRate converts queries per minute to queries per second.
func takeRate(p *build.Plain, value string, _ map[string]string) *report.Note {
	n, err := strconv.ParseUint(value, 10, 31)
	if err != nil {
		return report.ByHand("dns: rate", err.Error())
	}
	p.Work.Set.UseDNS().Server.Rate = setting.Count(max(1, n/60))
	return report.Differs("dns: rate", "a second, for each IPv4 address and IPv6 /56")
}
