package importer

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
	"shuultuur/policy"
	"shuultuur/resolver/forward"
	"shuultuur/setting"
)

// A technitiumKey has the default of a setting in Technitium DNS Server, and
// converts other values. Without take there is no equivalent, for the given
// reason.
type technitiumKey struct {
	standard []string
	take     func(p *plain, value string, all map[string]string) *Note
	why      string
}

// readTechnitium reads the response of /api/settings/get, and the zones in those of
// /api/blocked/list and /api/allowed/list if they were added.
func readTechnitium(w *work, file string) error {
	w.set.dns()
	hours := 0
	err := readTree(w, file, "settings.json", func(all map[string]string) reader {
		bare := map[string]string{}
		for k, v := range all {
			bare[strings.TrimPrefix(k, "response.")] = v
		}
		hours, _ = strconv.Atoi(bare["blockListUpdateIntervalHours"])
		return func(p *plain, key, value string) *Note {
			key = strings.TrimPrefix(key, "response.")
			top, _, _ := strings.Cut(key, ".")
			if n, ok := p.technitiumLimit(key, value, bare); ok {
				return n
			}
			k, known := technitiumTable[key]
			if !known {
				k, known = technitiumTable[top]
			}
			switch {
			case known && slices.Contains(k.standard, value):
				return &Note{Kind: Default}
			case known && k.take != nil:
				return k.take(p, value, bare)
			case known:
				return lost(k.why)
			}
			return lost(technitiumReasons.of(key))
		}
	})
	if hours > 0 && hours <= 7*24 {
		w.set.listsEvery(time.Duration(hours) * time.Hour)
	}
	return err
}

// technitiumReasons are the reasons why parts of Technitium have no equivalent.
var technitiumReasons = reasons{
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
func carriedTo(ours string) func(*plain, string, map[string]string) *Note {
	return func(*plain, string, map[string]string) *Note { return carried(ours) }
}

// isDifferent returns the note on a setting that works differently here.
func isDifferent(ours, why string) func(*plain, string, map[string]string) *Note {
	return func(*plain, string, map[string]string) *Note { return differs(ours, why) }
}

// takeDuration converts a number of units, at most most.
func takeDuration(ours string, unit, most time.Duration, to func(p *plain) *setting.Duration) func(*plain, string, map[string]string) *Note {
	return func(p *plain, value string, _ map[string]string) *Note {
		return takeTime(value, ours, unit, most, to(p))
	}
}

// technitiumTable has the settings of Technitium DNS Server 13.
var technitiumTable = map[string]technitiumKey{
	"version":     {standard: []string{""}, take: func(*plain, string, map[string]string) *Note { return &Note{Kind: Default} }},
	"uptimestamp": {take: func(*plain, string, map[string]string) *Note { return &Note{Kind: Default} }},
	"status":      {take: func(*plain, string, map[string]string) *Note { return &Note{Kind: Default} }},
	"server":      {take: func(*plain, string, map[string]string) *Note { return &Note{Kind: Default} }},
	"dnsServerDomain": {take: func(p *plain, value string, _ map[string]string) *Note {
		p.set.dns().Server.NSID = value
		return carried("dns: nsid")
	}},
	"dnsServerLocalEndPoints": {take: (*plain).technitiumListen},
	"forwarders": {take: func(p *plain, value string, all map[string]string) *Note {
		return p.upstream(technitiumForwarder(value, all["forwarderProtocol"]))
	}},
	"forwarderProtocol":    {standard: []string{"Udp"}, take: carriedTo("dns: forward: upstreams")},
	"concurrentForwarding": {take: (*plain).technitiumConcurrent},
	"forwarderTimeout": {standard: []string{"2000"}, take: takeDuration("dns: forward: timeout", time.Millisecond, 30*time.Second, func(p *plain) *setting.Duration {
		return &p.set.dns().Forward.Timeout
	})},
	"forwarderRetries":     {standard: []string{"3"}, take: isDifferent("dns: forward: total", "all upstreams are tried within this time")},
	"forwarderConcurrency": {standard: []string{"2"}, take: isDifferent("dns: forward: race", "with order: parallel")},
	"clientTimeout":        {standard: []string{"2000", "4000"}, take: takeDuration("dns: wait", time.Millisecond, time.Minute, func(p *plain) *setting.Duration { return &p.set.dns().Server.Wait })},
	"tcpReceiveTimeout":    {standard: []string{"10000"}, take: takeDuration("dns: idle", time.Millisecond, 5*time.Minute, func(p *plain) *setting.Duration { return &p.set.dns().Server.Idle })},
	"blockListUrls": {take: func(p *plain, value string, _ map[string]string) *Note {
		if u, ok := strings.CutPrefix(value, "!"); ok {
			return p.list(false, u)
		}
		return p.list(true, value)
	}},
	"blockListUpdateIntervalHours": {standard: []string{"24"}, take: carriedTo("lists: every")},
	"enableBlocking":               {standard: []string{"true"}, take: isDifferent("nothing", "Technitium filters nothing at present; these settings filter")},
	"blockedZones":                 {take: func(p *plain, value string, _ map[string]string) *Note { return p.addNames(true, value) }},
	"allowedZones":                 {take: func(p *plain, value string, _ map[string]string) *Note { return p.addNames(false, value) }},
	"blockingType":                 {take: (*plain).technitiumAnswer},
	"customBlockingAddresses":      {standard: []string{""}, take: (*plain).technitiumSinkhole},
	"blockingAnswerTtl":            {standard: []string{"30"}, take: takeDuration("dns: block: ttl", time.Second, 24*time.Hour, func(p *plain) *setting.Duration { return &p.set.dns().Names.Block.TTL })},
	"allowTxtBlockingReport":       {standard: []string{"true"}, take: isDifferent("dns", "every answer says why in an extended error (RFC 8914)")},
	"blockingBypassList": {take: func(p *plain, value string, _ map[string]string) *Note {
		n, err := network(value)
		if err != nil {
			return lostOurs("policies", err.Error())
		}
		p.unfiltered(n)
		return carried("policy unfiltered")
	}},
	"dnssecValidation":       {take: func(p *plain, value string, _ map[string]string) *Note { return p.validate(value) }},
	"udpPayloadSize":         {standard: []string{"1232"}, take: (*plain).technitiumPayload},
	"recursion":              {standard: []string{"AllowOnlyForPrivateNetworks"}, take: (*plain).technitiumRecursion},
	"recursionNetworkACL":    {take: (*plain).technitiumRecursionNetwork},
	"cacheMinimumRecordTtl":  {standard: []string{"10", "0"}, take: takeDuration("dns: cache: min-ttl", time.Second, time.Hour, func(p *plain) *setting.Duration { return &p.set.dns().Cache.MinTTL })},
	"cacheMaximumRecordTtl":  {standard: []string{"604800"}, take: takeDuration("dns: cache: max-ttl", time.Second, week7d, func(p *plain) *setting.Duration { return &p.set.dns().Cache.MaxTTL })},
	"cacheNegativeRecordTtl": {standard: []string{"300"}, take: takeDuration("dns: cache: negative-ttl", time.Second, 24*time.Hour, func(p *plain) *setting.Duration { return &p.set.dns().Cache.Negative })},
	"serveStale":             {standard: []string{"true"}, take: func(p *plain, _ string, _ map[string]string) *Note { return p.noStale() }},
	"serveStaleTtl":          {standard: []string{"259200", "86400"}, take: takeDuration("dns: cache: stale", time.Second, week7d, func(p *plain) *setting.Duration { return &p.set.dns().Cache.Stale })},
	"cacheMaximumEntries":    {standard: []string{"10000", "0"}, take: func(p *plain, value string, _ map[string]string) *Note { return p.set.cacheEntries(value) }},
	"saveCache":              {standard: []string{"true"}, why: "the cache begins empty after a start"},
	"logQueries":             {take: isDifferent("events", "all queries are recorded; dns: log limits how many a second")},
	"loggingType":            {take: isDifferent("events", "all queries are recorded; the log goes to standard error")},
	"enableLogging":          {take: isDifferent("events", "all queries are recorded; the log goes to standard error")},
	"maxLogFileDays": {standard: []string{"0"}, take: func(p *plain, value string, _ map[string]string) *Note {
		n := takeDuration("events: keep", 24*time.Hour, 3650*24*time.Hour, func(p *plain) *setting.Duration { return &p.set.Events.Keep })(p, value, nil)
		p.set.Events.SQLite = "events.db"
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
	"enableDnsOverTls":                 {standard: []string{"false"}, take: technitiumEncrypted("tls", "dnsOverTlsPort", "853")},
	"enableDnsOverHttps":               {standard: []string{"false"}, take: technitiumEncrypted("https", "dnsOverHttpsPort", "443")},
	"enableDnsOverQuic":                {standard: []string{"false"}, take: technitiumEncrypted("quic", "dnsOverQuicPort", "853")},
	"dnsOverTlsPort":                   {standard: []string{"853"}, take: carriedTo("dns: tls")},
	"dnsOverHttpsPort":                 {standard: []string{"443"}, take: carriedTo("dns: https")},
	"dnsOverQuicPort":                  {standard: []string{"853"}, take: carriedTo("dns: quic")},
	"dnsTlsCertificatePath":            {standard: []string{"", "<nil>"}, take: isDifferent("dns: cert, key", "files in PEM; see enableDnsOverTls, enableDnsOverHttps and enableDnsOverQuic")},
	"dnsTlsCertificatePassword":        {standard: []string{"", "************"}, take: carriedTo("dns: key")},
	"qpmLimitRequests":                 {standard: []string{"0"}, take: (*plain).technitiumRate},
	"qpmLimitBypassList":               {why: "one limit, dns: rate, applies to every client"},
	"dnsReverseProxyNetworkACL":        {take: (*plain).technitiumTrusted},
	"reverseProxyNetworkACL":           {take: (*plain).technitiumTrusted},
	"clusterInitialized":               {standard: []string{"false"}},
	"blockListNextUpdatedOn":           {take: func(*plain, string, map[string]string) *Note { return &Note{Kind: Default} }},
	"temporaryDisableBlockingTill":     {take: func(*plain, string, map[string]string) *Note { return &Note{Kind: Default} }},
	"dnsServerIPv4SourceAddresses":     {standard: []string{"0.0.0.0"}, why: "the system's routes choose the address that queries leave from"},
	"dnsServerIPv6SourceAddresses":     {standard: []string{"::"}, why: "the system's routes choose the address that queries leave from"},
	"webServiceTlsCertificatePassword": {standard: []string{"", "************"}},
	"tsigKeys":                         {why: "write keys under dns: zones: tsig"},
	"zoneTransferAllowedNetworks":      {why: "write who may fetch zones under dns: zones: allow"},
	"notifyAllowedNetworks":            {why: "primaries are named under dns: zones: secondary"},
}

// technitiumForwarder converts an upstream to our syntax.
func technitiumForwarder(value, protocol string) string {
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

func (p *plain) technitiumListen(value string, _ map[string]string) *Note {
	l := &p.set.dns().Server
	if slices.Equal(l.Listen, []string{":53"}) {
		l.Listen = nil
	}
	host, port, err := net.SplitHostPort(value)
	if err != nil {
		return lostOurs("dns: listen", err.Error())
	}
	if host == "0.0.0.0" || host == "::" {
		value = ":" + port // all addresses of both families
	}
	if !slices.Contains(l.Listen, value) {
		l.Listen = append(l.Listen, value)
	}
	return carried("dns: listen")
}

func (p *plain) technitiumConcurrent(value string, _ map[string]string) *Note {
	f := &p.set.dns().Forward
	if value == "true" {
		f.Order = forward.Fastest
		return differs("dns: forward: order", "the fastest upstream is asked, and another one if it does not answer")
	}
	f.Order = forward.Strict
	return carried("dns: forward: order")
}

func (p *plain) technitiumAnswer(value string, _ map[string]string) *Note {
	if value == "CustomAddress" {
		p.set.dns().Names.Block.Answer = filter.Sinkhole
		return carried("dns: block: answer")
	}
	return p.answer(value)
}

func (p *plain) technitiumSinkhole(value string, all map[string]string) *Note {
	a, err := netip.ParseAddr(value)
	if err != nil {
		return lostOurs("dns: block: sinkhole", err.Error())
	}
	if all["blockingType"] != "CustomAddress" {
		return &Note{Kind: Default, Why: "the answer differs"}
	}
	b := &p.set.dns().Names.Block
	b.Sinkhole = append(b.Sinkhole, a)
	return carried("dns: block: sinkhole")
}

func (p *plain) technitiumPayload(value string, _ map[string]string) *Note {
	return udpSize(p.work, value)
}

func (p *plain) technitiumRecursion(value string, _ map[string]string) *Note {
	l := &p.set.dns().Server
	switch value {
	case "Allow":
		l.Recursion = allNetworks()
		return carried("dns: recursion")
	case "UseSpecifiedNetworkACL", "UseSpecifiedNetworks":
		return carried("dns: recursion")
	}
	return lostOurs("dns: recursion", "write there the networks that may use the resolver")
}

// technitiumRecursionNetwork converts a network that may ask for recursion; with "!" in front
// it may not.
func (p *plain) technitiumRecursionNetwork(value string, _ map[string]string) *Note {
	l := &p.set.dns().Server
	text, denied := strings.CutPrefix(value, "!")
	n, err := network(text)
	if err != nil {
		return lostOurs("dns: recursion", err.Error())
	}
	if denied {
		l.Deny = append(l.Deny, n)
		return differs("dns: deny", "they get no answer")
	}
	l.Recursion = append(l.Recursion, n)
	return carried("dns: recursion")
}

// technitiumEncrypted converts a server of encrypted DNS, which listens on the addresses of
// the others.
func technitiumEncrypted(protocol, port, standard string) func(*plain, string, map[string]string) *Note {
	return func(p *plain, _ string, all map[string]string) *Note {
		s := &p.set.dns().Server
		if s.Cert == "" {
			if err := p.technitiumCertificate(all); err != nil {
				return lostOurs("dns: "+protocol, fmt.Sprintf("its certificate cannot be used (%v): write certificate and key as PEM files (openssl pkcs12 -in FILE -nodes) under dns: cert and key, and the addresses under dns: %s", err, protocol))
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
		return carried("dns: " + protocol)
	}
}

// technitiumCertificate writes the certificate and key of encrypted DNS, which are a PKCS #12
// file, as files of ours. The API never tells the password.
func (p *plain) technitiumCertificate(all map[string]string) error {
	path := all["dnsTlsCertificatePath"]
	if path == "" || path == "<nil>" {
		return errors.New("dnsTlsCertificatePath names none")
	}
	b, err := readWhole(findFile(filepath.Dir(p.at.file), path))
	if err != nil {
		return err
	}
	certs, key, err := intercept.FromPKCS12(b, strings.Trim(all["dnsTlsCertificatePassword"], "*"), 10*time.Second)
	if err != nil {
		return fmt.Errorf("%s with the password in dnsTlsCertificatePassword, which the API shows as asterisks: %w", filepath.Base(path), err)
	}
	ours, secret := filepath.Join(p.to, "cert.pem"), filepath.Join(p.to, "key.pem")
	if err := errors.Join(os.WriteFile(ours, certs, 0o644), os.WriteFile(secret, key, 0o600)); err != nil {
		return err
	}
	return keyPair(p.work, ours, secret)
}

// technitiumLimit converts a field of a limit for networks of one size. The limit for single
// addresses is like ours.
func (p *plain) technitiumLimit(key, value string, all map[string]string) (n *Note, is bool) {
	list, number, field := technitiumField(key)
	if list != "qpmPrefixLimitsIPv4" && list != "qpmPrefixLimitsIPv6" {
		return n, false
	}
	bits := all[list+"."+number+".prefix"]
	switch {
	case field == "prefix":
		return &Note{Kind: Default, Why: "with its limits"}, true
	case field == "udpLimit" && (list == "qpmPrefixLimitsIPv4" && bits == "32" || list == "qpmPrefixLimitsIPv6" && bits == "128" && p.set.dns().Server.Rate == 0):
		return p.technitiumRate(value, all), true
	}
	return differs("dns: rate", "one limit, for each IPv4 address and IPv6 /56"), true
}

// technitiumField splits the path of a field of a group in a list.
func technitiumField(key string) (list, number, field string) {
	parts := strings.Split(key, ".")
	if len(parts) != 3 {
		return "", "", ""
	}
	return parts[0], parts[1], parts[2]
}

// technitiumTrusted converts proxies whose word on the client's address counts.
func (p *plain) technitiumTrusted(value string, _ map[string]string) *Note {
	n, err := network(value)
	if err != nil {
		return lostOurs("dns: trusted", err.Error())
	}
	s := &p.set.dns().Server
	s.Trusted = append(s.Trusted, n)
	return differs("dns: trusted", "they send it in a PROXY protocol header")
}

// technitiumRate converts queries per minute to queries per second.
func (p *plain) technitiumRate(value string, _ map[string]string) *Note {
	n, err := strconv.ParseUint(value, 10, 31)
	if err != nil {
		return lostOurs("dns: rate", err.Error())
	}
	p.set.dns().Server.Rate = setting.Count(max(1, n/60))
	return differs("dns: rate", "a second, for each IPv4 address and IPv6 /56")
}

func (p *plain) noStale() *Note {
	return differs("dns: cache: stale", "stale answers are served while upstreams fail, for at most a day")
}

// unfiltered adds a network whose clients are not filtered.
func (p *plain) unfiltered(n netip.Prefix) {
	p.free = append(p.free, policy.Network{Prefix: n})
}
