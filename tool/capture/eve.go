package capture

import (
	"bufio"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"

	"shuultuur/lib/dns"
	"shuultuur/lib/suricata/engine"
	"shuultuur/lib/suricata/rule"
	"shuultuur/lib/suricata/traffic"
	"shuultuur/tool/capture/body"
)

// stamp is the format of times in Suricata.
const stamp = "2006-01-02T15:04:05.000000-0700"

// An Output writes records. It is safe for concurrent use.
type Output struct {
	mu   sync.Mutex
	eve  *bufio.Writer // nil if not written
	fast *bufio.Writer // nil if not written
	err  error
	// Short writes IPv6 addresses in their short form.
	Short bool
	// Forwarded says how alerts name the clients of proxies, nil that they do not.
	Forwarded *Forwarded
	// Seen is called for each record before it is written; it may be nil.
	Seen func(record map[string]any)
}

// Forwarded says how alerts name the client that a proxy names in a header field.
type Forwarded struct {
	Header string
	// Overwrite replaces the address of the proxy; otherwise the client is named beside it.
	Overwrite bool
	// First takes the first address of the field, not the last.
	First bool
}

// client adds the client of a proxy to the record of an alert on an exchange.
func (x *Forwarded) client(o *Output, m map[string]any, t *httpTx, dir rule.Direction) {
	v, _ := t.http.Sides[0].Get(x.Header)
	list := strings.Split(string(v), ",")
	text := list[len(list)-1]
	if x.First {
		text = list[0]
	}
	a, err := netip.ParseAddr(strings.TrimSpace(text))
	switch {
	case err != nil:
	case !x.Overwrite:
		m["xff"] = a.String()
	case dir == rule.ToServer:
		m["src_ip"] = o.address(a)
	default:
		m["dest_ip"] = o.address(a)
	}
}

// NewOutput returns an Output that writes records as JSON lines to eve and
// alerts as lines of text to fast; either may be nil.
func NewOutput(eve, fast io.Writer) *Output {
	o := &Output{}
	if eve != nil {
		o.eve = bufio.NewWriter(eve)
	}
	if fast != nil {
		o.fast = bufio.NewWriter(fast)
	}
	return o
}

// Flush writes buffered data.
func (o *Output) Flush() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	errs := []error{o.err}
	for _, w := range []*bufio.Writer{o.eve, o.fast} {
		if w != nil {
			errs = append(errs, w.Flush())
		}
	}
	return errors.Join(errs...)
}

func (o *Output) quiet() bool { return o.eve == nil && o.Seen == nil }

// encode writes a record as a line.
func encode(w io.Writer, m map[string]any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(m)
}

// write writes a record, and the equivalent line of text.
func (o *Output) write(x *entry) {
	o.mu.Lock()
	defer o.mu.Unlock()
	keep := func(err error) {
		if err != nil && o.err == nil {
			o.err = err
		}
	}
	if o.Seen != nil && x.record != nil {
		o.Seen(x.record)
	}
	if o.eve != nil && x.line != nil {
		_, err := o.eve.Write(x.line)
		keep(err)
	} else if o.eve != nil && x.record != nil {
		keep(encode(o.eve, x.record))
	}
	if o.fast != nil {
		_, err := o.fast.WriteString(x.fast)
		keep(err)
	}
}

var protoNames = map[uint8]string{1: "ICMP", 2: "IGMP", 6: "TCP", 17: "UDP", 47: "GRE", 50: "ESP", 58: "IPv6-ICMP", 132: "SCTP"}

func protoName(p uint8) string {
	if n, ok := protoNames[p]; ok {
		return n
	}
	return fmt.Sprintf("%03d", p)
}

// head makes the part that all records of a connection share.
func (r *Run) head(f *flow, kind string, src, dst netip.AddrPort) map[string]any {
	m := map[string]any{"timestamp": r.now.Format(stamp), "event_type": kind, "flow_id": flowID(f), "proto": protoName(f.proto),
		"src_ip": r.out.address(src.Addr()), "dest_ip": r.out.address(dst.Addr())}
	if f.proto == 6 || f.proto == 17 {
		m["src_port"], m["dest_port"] = src.Port(), dst.Port()
	}
	if len(f.vlans) > 0 {
		m["vlan"] = f.vlans
	}
	if src.Addr().Is6() {
		m["ip_v"] = 6
	} else {
		m["ip_v"] = 4
	}
	m["pkt_src"] = "wire/pcap"
	if r.pseudo {
		m["pkt_src"] = "stream (flow timeout)"
	}
	if r.current != nil && kind != "flow" && !r.pseudo {
		m["pcap_cnt"] = r.current.number
	}
	return m
}

// address formats an address as Suricata does: IPv6 with all digits, unless Short is set.
func (o *Output) address(a netip.Addr) string {
	if o.Short {
		return a.String()
	}
	return a.StringExpanded()
}

// flowID returns a number for a connection that is the same in every run.
func flowID(f *flow) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, f.key.a, f.key.b, f.key.proto, f.first.UnixNano())
	return h.Sum64() >> 11
}

func dirName(d rule.Direction) string {
	if d == rule.ToServer {
		return "to_server"
	}
	return "to_client"
}

// alertRecord writes an alert.
func (o *Output) alertRecord(r *Run, message any, dir rule.Direction, a *engine.Alert) {
	f := r.flow
	src, dst := f.client, f.server
	if dir == rule.ToClient {
		src, dst = dst, src
	}
	x := entry{alert: a, flow: f}
	if o.fast != nil {
		x.fast = r.fastLine(f, src, dst, a)
	}
	if o.quiet() {
		r.emit(x)
		return
	}
	m := r.head(f, "alert", src, dst)
	category := ""
	if a.Class != nil {
		category = a.Class.Text
	}
	alert := r.alert(a, category)
	if len(a.Metadata) > 0 {
		md := map[string][]string{}
		for _, x := range a.Metadata {
			k, v, _ := strings.Cut(x, " ")
			md[k] = append(md[k], v)
		}
		alert["metadata"] = md
	}
	if a.Context != nil {
		alert["context"] = a.Context
	}
	if a.Target != "" {
		s, t := "source", "target"
		if a.Target == "src_ip" {
			s, t = t, s
		}
		alert[s] = map[string]any{"ip": src.Addr().String(), "port": src.Port()}
		alert[t] = map[string]any{"ip": dst.Addr().String(), "port": dst.Port()}
	}
	m["alert"] = alert
	if r.verdict != "" {
		m["verdict"] = verdictOf(a, r.verdict, f)
	}
	if f.appName != "" {
		m["app_proto"] = f.appName
	}
	m["direction"] = dirName(dir)
	o.message(r, m, message)
	if t, ok := message.(*httpTx); ok && o.Forwarded != nil {
		o.Forwarded.client(o, m, t, dir)
	}
	if r.current.link >= 0 && linkNames[r.current.link] != "" {
		m["packet_info"] = map[string]any{"linktype": r.current.link, "linktype_name": linkNames[r.current.link]}
	}
	m["stream"] = 0
	o.memory(m, f)
	if len(a.Entropy) > 0 {
		f.entropy = a.Entropy
	}
	if len(a.Entropy) > 0 {
		metadata(m)["entropy"] = maps.Clone(a.Entropy)
	}
	captured(m, a)
	m["flow"] = map[string]any{"pkts_toserver": f.packets[0], "pkts_toclient": f.packets[1], "bytes_toserver": f.bytes[0], "bytes_toclient": f.bytes[1],
		"start": f.first.Format(stamp), "src_ip": o.address(f.client.Addr()), "dest_ip": o.address(f.server.Addr()), "src_port": f.client.Port(), "dest_port": f.server.Port()}
	x.record = m
	r.emit(x)
}

// metadata returns the part of a record about what rules remember, and makes it if needed.
func metadata(m map[string]any) map[string]any {
	md, ok := m["metadata"].(map[string]any)
	if !ok {
		md = map[string]any{}
		m["metadata"] = md
	}
	return md
}

// captured adds the groups of expressions to the record of an alert. A group named key names the
// one named value.
func captured(m map[string]any, a *engine.Alert) {
	var packet []map[string]string
	key := ""
	context := map[string]any{}
	for _, c := range a.Captures {
		value := string(c.Value)
		switch {
		case c.Scope == "alert":
			context[c.Name] = value
		case c.Name == "key":
			key = value
		case c.Name == "value" && key != "":
			packet = append(packet, map[string]string{key: value})
		default:
			packet = append(packet, map[string]string{c.Name: value})
		}
	}
	if len(packet) > 0 {
		metadata(m)["pktvars"] = packet
	}
	if len(context) == 0 {
		return
	}
	alert := m["alert"].(map[string]any)
	if old, ok := alert["context"].(map[string]any); ok {
		maps.Copy(context, old)
	}
	alert["context"] = context
}

// alert makes the part of a record that says which rule matched.
func (r *Run) alert(a *engine.Alert, category string) map[string]any {
	m := map[string]any{"action": "allowed", "gid": a.GID, "signature_id": a.SID, "rev": a.Rev, "signature": a.Msg, "category": category, "severity": a.Priority}
	if r.config.Prevent && a.Action < rule.Alert && a.Action > rule.Pass {
		m["action"] = "blocked"
	}
	return m
}

// verdictOf says what becomes of the packet of an alert, and who is told.
func verdictOf(a *engine.Alert, action string, f *flow) map[string]any {
	m := map[string]any{"action": action}
	target := map[rule.Action]string{rule.Reject: "to_client", rule.RejectDst: "to_server", rule.RejectBoth: "both"}[a.Action]
	if target == "" || action != "drop" {
		return m
	}
	m["reject-target"] = target
	m["reject"] = []string{"icmp-prohib"}
	if f.proto == 6 {
		m["reject"] = []string{"tcp-reset"}
	}
	return m
}

// dropRecord writes that the current packet was dropped, by a rule or with its connection.
func (o *Output) dropRecord(r *Run, reason string, a *engine.Alert) {
	if o.quiet() {
		return
	}
	f, p := r.flow, r.current
	m := r.head(f, "drop", p.src, p.dst)
	drop := map[string]any{"len": len(p.ip), "tos": p.tos, "ttl": p.ttl, "ipid": p.id, "reason": reason}
	switch p.proto {
	case 6:
		drop["tcpseq"], drop["tcpack"], drop["tcpwin"], drop["tcpurgp"] = p.tcp.Seq, p.tcp.Ack, p.tcp.Window, p.tcp.Urgent
		for i, n := range []string{"fin", "syn", "rst", "psh", "ack", "urg"} {
			drop[n] = p.tcp.Flags>>i&1 != 0
		}
	case 17:
		drop["udplen"] = len(p.transport)
	case 1:
		drop["icmp_id"], drop["icmp_seq"] = 0, 0
	}
	m["drop"] = drop
	m["direction"] = dirName(r.dir)
	m["verdict"] = map[string]any{"action": "drop"}
	if a != nil {
		category := ""
		if a.Class != nil {
			category = a.Class.Text
		}
		m["alert"] = r.alert(a, category)
		m["verdict"] = verdictOf(a, "drop", f)
	}
	r.emit(entry{record: m})
}

// message adds the properties of the message to an alert.
func (o *Output) message(r *Run, m map[string]any, message any) {
	switch t := message.(type) {
	case *httpTx:
		m["tx_id"] = t.id
		m["http"] = t.record()
		if files := t.fileRecords(); len(files) > 0 {
			m["files"] = files
		}
	case *dnsTx:
		m["tx_id"] = t.id
		m["dns"] = t.record()
	case *tlsParser:
		m["tx_id"] = t.id
		m["tls"] = t.record()
	case *partsTx:
		m["tx_id"] = t.id
		if t.make != nil {
			maps.Copy(m, t.make())
		}
		var files []map[string]any
		for _, f := range append(slices.Clone(t.Attached[0]), t.Attached[1]...) {
			files = append(files, fileRecord(f, stateOf(f), t.id))
		}
		if len(files) > 0 {
			m["files"] = files
		}
	}
}

// memory adds flow bits, numbers and strings.
func (o *Output) memory(m map[string]any, f *flow) {
	md := map[string]any{}
	var traffic, bits []string
	for _, b := range f.rules.Bits() {
		if t, ok := strings.CutPrefix(b, "traffic/"); ok {
			traffic = append(traffic, t)
			continue
		}
		bits = append(bits, b)
	}
	if len(bits) > 0 {
		md["flowbits"] = bits
	}
	if len(traffic) > 0 {
		tr := map[string][]string{}
		for _, t := range traffic {
			k, v, ok := strings.Cut(t, "/")
			if !ok {
				k, v = "id", t
			}
			switch k {
			case "id", "label":
				tr[k] = append(tr[k], v)
			}
		}
		m["traffic"] = tr
	}
	if ints := f.rules.Ints(); len(ints) > 0 {
		md["flowints"] = ints
	}
	var list []map[string]string
	for _, v := range f.rules.Variables() {
		list = append(list, map[string]string{v.Name: string(v.Value)})
	}
	if len(list) > 0 {
		md["flowvars"] = list
	}
	if len(md) > 0 {
		m["metadata"] = md
	}
}

// fastLine returns an alert as a line of text.
func (r *Run) fastLine(f *flow, src, dst netip.AddrPort, a *engine.Alert) string {
	category := ""
	if a.Class != nil {
		category = a.Class.Text
	}
	if category == "" {
		category = "(null)"
	}
	action := ""
	if r.config.Prevent && a.Action < rule.Alert {
		action = "[Drop] "
	}
	return fmt.Sprintf("%s  %s[**] [%d:%d:%d] %s [**] [Classification: %s] [Priority: %d] {%s} %s:%d -> %s:%d\n",
		r.now.Format("01/02/2006-15:04:05.000000"), action, a.GID, a.SID, a.Rev, a.Msg, category, a.Priority, protoName(f.proto),
		src.Addr(), src.Port(), dst.Addr(), dst.Port())
}

// record returns an exchange as a record.
func (t *httpTx) record() map[string]any {
	q, s := &t.http.Sides[0], &t.http.Sides[1]
	m := map[string]any{}
	text := func(key string, b []byte, ok bool) {
		if ok && len(b) > 0 {
			m[key] = string(b)
		}
	}
	host, ok := t.http.Buffer(rule.ToServer, rule.Host, 0)
	text("hostname", host, ok)
	if v, ok := q.Get("Host"); ok {
		if _, port, found := strings.Cut(string(v), ":"); found {
			if n, err := strconv.Atoi(port); err == nil {
				m["http_port"] = n
			}
		}
	}
	text("url", q.Target, true)
	ua, ok := q.Get("User-Agent")
	text("http_user_agent", ua, ok)
	ref, ok := q.Get("Referer")
	text("http_refer", ref, ok)
	ct, ok := s.Get("Content-Type")
	ctv, _, _ := strings.Cut(string(ct), ";")
	text("http_content_type", []byte(ctv), ok)
	text("http_method", q.Method, true)
	proto := q.Protocol
	text("protocol", proto, true)
	if n, err := strconv.Atoi(string(s.Code)); err == nil {
		m["status"] = n
	}
	loc, ok := s.Get("Location")
	text("redirect", loc, ok)
	xff, ok := q.Get("X-Forwarded-For")
	text("xff", xff, ok)
	length := t.size[1]
	if s.HasBody && t.body[1] != nil && len(t.body[1].Codings) > 0 {
		length = int64(len(s.Body))
	}
	m["length"] = length
	if t.http.Two {
		m["version"] = "2"
		m["http2"] = map[string]any{"stream_id": t.stream, "request": t.framesRecord(0), "response": t.framesRecord(1)}
		for i, key := range []string{"request_headers", "response_headers"} {
			var list []map[string]string
			for _, h := range t.http.Sides[i].Headers {
				list = append(list, map[string]string{"name": string(h.Name), "value": string(h.Value)})
			}
			if len(list) > 0 {
				m[key] = list
			}
		}
	}
	return m
}

// framesRecord returns what one side of a stream sent in frames other than fields and data.
func (t *httpTx) framesRecord(side int) map[string]any {
	m := map[string]any{}
	var settings []map[string]any
	for _, s := range t.settings[side] {
		settings = append(settings, map[string]any{"settings_id": settingNames[s.id].record, "settings_value": s.value})
	}
	if len(settings) > 0 {
		m["settings"] = settings
	}
	if codes := t.http.Frames[side]["http2.errorcode"]; len(codes) > 0 {
		m["error_code"] = errorCodeName(codes[len(codes)-1])
	}
	if p := t.http.Frames[side]["http2.priority"]; len(p) > 0 {
		m["priority"] = p[len(p)-1]
	}
	return m
}

var errorCodeNames = []string{"NOERROR", "PROTOCOLERROR", "INTERNALERROR", "FLOWCONTROLERROR", "SETTINGSTIMEOUT", "STREAMCLOSED",
	"FRAMESIZEERROR", "REFUSEDSTREAM", "CANCEL", "COMPRESSIONERROR", "CONNECTERROR", "ENHANCEYOURCALM", "INADEQUATESECURITY", "HTTP11REQUIRED"}

// errorCodeName names an error of HTTP/2 as records do.
func errorCodeName(n uint64) string {
	if n < uint64(len(errorCodeNames)) {
		return errorCodeNames[n]
	}
	return strconv.FormatUint(n, 10)
}

// fileRecords returns the files of an exchange.
func (t *httpTx) fileRecords() (files []map[string]any) {
	for _, d := range []rule.Direction{rule.ToServer, rule.ToClient} {
		for _, f := range t.http.Files(d) {
			state := "CLOSED"
			if !f.Complete {
				state = "TRUNCATED"
			}
			files = append(files, fileRecord(f, state, t.id))
		}
	}
	return files
}

// fileRecord returns a file. Only one that is known to its end has digests.
func fileRecord(f *traffic.File, state string, tx int) map[string]any {
	m := map[string]any{"filename": f.Name, "size": f.Size, "state": state, "gaps": false, "stored": false, "tx_id": tx, "magic": f.Magic()}
	if state == "CLOSED" && int64(len(f.Data)) == f.Size {
		a, b, c := md5.Sum(f.Data), sha1.Sum(f.Data), sha256.Sum256(f.Data)
		m["md5"], m["sha1"], m["sha256"] = hex.EncodeToString(a[:]), hex.EncodeToString(b[:]), hex.EncodeToString(c[:])
	}
	return m
}

// httpRecord writes an exchange and its files.
func (o *Output) httpRecord(r *Run, f *flow, t *httpTx) {
	if o.quiet() {
		return
	}
	record := t.record()
	if len(t.http.Sides[0].Line) > 0 || len(t.http.Sides[1].Line) > 0 || t.http.Two {
		m := r.head(f, "http", f.client, f.server)
		m["tx_id"], m["http"] = t.id, record
		if e := t.tx.Measured(); len(e) > 0 {
			f.entropy = e
			metadata(m)["entropy"] = maps.Clone(e)
		}
		r.emit(entry{record: m})
	}
	for _, file := range t.fileRecords() {
		m := r.head(f, "fileinfo", f.server, f.client)
		m["http"], m["app_proto"], m["fileinfo"] = record, f.appName, file
		r.emit(entry{record: m})
	}
	for _, e := range t.odd {
		m := r.head(f, "anomaly", f.client, f.server)
		_, name, _ := strings.Cut(e, ".")
		m["tx_id"] = t.id
		m["anomaly"] = map[string]any{"app_proto": "http", "type": "applayer", "event": strings.ToUpper(name), "layer": "proto_parser"}
		r.emit(entry{record: m})
	}
}

var tlsVersions = map[uint16]string{2: "SSLv2", 0x300: "SSLv3", 0x301: "TLSv1", 0x302: "TLS 1.1", 0x303: "TLS 1.2", 0x304: "TLS 1.3"}

func (t *tlsParser) record() map[string]any {
	m := map[string]any{}
	v, ok := tlsVersions[t.tls.Version]
	if !ok {
		v = fmt.Sprintf("0x%04x", t.tls.Version)
	}
	m["version"] = v
	if t.tls.SNI != nil {
		m["sni"] = string(t.tls.SNI)
	}
	if cs := t.tls.Certs[1]; len(cs) > 0 {
		c := cs[0]
		m["subject"], m["issuerdn"], m["serial"], m["fingerprint"] = c.Subject, c.Issuer, c.Serial, c.Fingerprint
		m["notbefore"], m["notafter"] = c.NotBefore.Format("2006-01-02T15:04:05"), c.NotAfter.Format("2006-01-02T15:04:05")
		if len(c.AltNames) > 0 {
			m["subjectaltname"] = c.AltNames
		}
	}
	if t.tls.JA3Hash != "" {
		m["ja3"] = map[string]string{"hash": t.tls.JA3Hash, "string": t.tls.JA3}
	} else {
		m["ja3"] = map[string]string{}
	}
	if t.tls.JA3SHash != "" {
		m["ja3s"] = map[string]string{"hash": t.tls.JA3SHash, "string": t.tls.JA3S}
	}
	if t.tls.JA4 != "" {
		m["ja4"] = t.tls.JA4
	}
	var alpn []string
	for _, p := range t.tls.ALPN[0] {
		alpn = append(alpn, string(p))
	}
	if len(alpn) > 0 {
		m["client_alpns"] = alpn
	}
	return m
}

// tlsRecord writes a handshake.
func (o *Output) tlsRecord(r *Run, f *flow, t *tlsParser) {
	if o.quiet() {
		return
	}
	m := r.head(f, "tls", f.client, f.server)
	m["tls"] = t.record()
	r.emit(entry{record: m})
}

func (t *dnsTx) record() map[string]any {
	kind := "request"
	if t.Response {
		kind = "response"
	}
	m := map[string]any{"version": 3, "type": kind, "id": t.number, "tx_id": t.id, "flags": strconv.FormatUint(uint64(t.flags), 16), "opcode": t.Opcode}
	if t.Response {
		m["rcode"] = rcodeName(t.Rcode)
		m["qr"] = true
	}
	for key, bit := range map[string]uint16{"aa": 0x400, "tc": 0x200, "rd": 0x100, "ra": 0x80, "z": 0x40} {
		if t.flags&bit != 0 {
			m[key] = true
		}
	}
	var qs []map[string]any
	for _, q := range t.Queries {
		rec := map[string]any{"rrname": string(q.Name), "rrtype": dns.TypeName(q.Type)}
		if len(q.Name) == traffic.MaxDNSName {
			rec["rrname_truncated"] = true
		}
		qs = append(qs, rec)
	}
	m["queries"] = qs
	grouped := map[string][]string{}
	for i, s := range []struct {
		key   string
		names []traffic.DNSName
	}{{"answers", t.Answers}, {"authorities", t.Authorities}, {"additionals", t.Additionals}} {
		var list []map[string]any
		for j, n := range s.names {
			x := t.records[i][j]
			rec := map[string]any{"rrname": string(n.Name), "rrtype": dns.TypeName(n.Type), "ttl": x.TTL}
			d, more := t.rdata(x)
			if d != "" {
				rec["rdata"] = d
			}
			for k, v := range more {
				rec[k] = v
			}
			if len(n.Name) == traffic.MaxDNSName {
				rec["rrname_truncated"] = true
			}
			if kind := dns.TypeName(n.Type); i == 0 && d != "" {
				grouped[kind] = append(grouped[kind], d)
			}
			list = append(list, rec)
		}
		if len(list) > 0 {
			m[s.key] = list
		}
	}
	if len(grouped) > 0 {
		m["grouped"] = grouped
	}
	return m
}

func rcodeName(n uint8) string { return dns.RcodeName(uint16(n)) }

// rdata formats the data of a record: as one text, or for some types as several fields.
func (t *dnsTx) rdata(x dns.Record) (text string, fields map[string]any) {
	data := t.msg[x.Data:x.End]
	name := func(at int) (string, int) {
		n, next, err := traffic.RawDNSName(t.msg, at)
		if err != nil {
			return "", len(t.msg)
		}
		return string(n), next
	}
	switch x.Type {
	case 1, 28:
		if a, ok := netip.AddrFromSlice(data); ok {
			if a.Is6() {
				return a.StringExpanded(), nil
			}
			return a.String(), nil
		}
	case 2, 5, 12, 39:
		text, _ = name(x.Data)
	case 15:
		if len(data) > 2 {
			text, _ = name(x.Data + 2)
		}
	case 16:
		if len(data) > 1 {
			text = string(data[1:min(len(data), 1+int(data[0]))])
		}
	case 6:
		primary, next := name(x.Data)
		person, next := name(next)
		if next+20 > x.End {
			return "", nil
		}
		number := func(i int) uint32 { return binary.BigEndian.Uint32(t.msg[next+4*i:]) }
		return "", map[string]any{"soa": map[string]any{"mname": primary, "rname": person, "serial": number(0), "refresh": number(1),
			"retry": number(2), "expire": number(3), "minimum": number(4)}}
	case 33:
		if len(data) < 7 {
			return "", nil
		}
		target, _ := name(x.Data + 6)
		return "", map[string]any{"srv": map[string]any{"priority": binary.BigEndian.Uint16(data), "weight": binary.BigEndian.Uint16(data[2:]),
			"port": binary.BigEndian.Uint16(data[4:]), "name": target}}
	case 44:
		if len(data) < 2 {
			return "", nil
		}
		var print []string
		for _, c := range data[2:] {
			print = append(print, fmt.Sprintf("%02x", c))
		}
		return "", map[string]any{"sshfp": map[string]any{"algo": data[0], "type": data[1], "fingerprint": strings.Join(print, ":")}}
	}
	return text, nil
}

// dnsRecord writes a DNS message.
func (o *Output) dnsRecord(r *Run, f *flow, t *dnsTx) {
	if o.quiet() {
		return
	}
	src, dst := f.client, f.server
	if t.Response {
		src, dst = dst, src
	}
	m := r.head(f, "dns", src, dst)
	m["dns"] = t.record()
	r.emit(entry{record: m})
}

// flowRecord writes a connection when it ends.
func (o *Output) flowRecord(r *Run, f *flow) {
	if o.quiet() {
		return
	}
	m := r.head(f, "flow", f.client, f.server)
	state := "new"
	switch {
	case f.proto == 6:
		state = f.track.Phase.State()
	case f.packets[0] > 0 && f.packets[1] > 0:
		state = "established"
	}
	reason := "shutdown"
	if f.appName != "" {
		m["app_proto"] = f.appName
	} else if f.gaveUp {
		m["app_proto"] = "failed"
	}
	if f.before != "" && f.before != f.appName {
		m["app_proto_orig"] = f.before
	}
	flow := map[string]any{"pkts_toserver": f.packets[0], "pkts_toclient": f.packets[1], "bytes_toserver": f.bytes[0], "bytes_toclient": f.bytes[1],
		"start": f.first.Format(stamp), "end": f.last.Format(stamp), "age": int(f.last.Sub(f.first).Seconds()), "state": state, "reason": reason, "tx_cnt": f.txs}
	switch {
	case f.rules.Dropped:
		flow["action"] = "drop"
	case f.rules.Bypassed:
		flow["state"], flow["bypass"] = "bypassed", "local"
	case f.rules.Passed:
		flow["action"] = "pass"
	}
	m["flow"] = flow
	if f.proto == 6 {
		names := []string{"fin", "syn", "rst", "psh", "ack", "urg", "ecn", "cwr"}
		tcp := map[string]any{"tcp_flags": fmt.Sprintf("%02x", f.flags[0]|f.flags[1]), "tcp_flags_ts": fmt.Sprintf("%02x", f.flags[0]), "tcp_flags_tc": fmt.Sprintf("%02x", f.flags[1])}
		for i, n := range names {
			if (f.flags[0]|f.flags[1])>>i&1 != 0 {
				tcp[n] = true
			}
		}
		tcp["state"] = f.track.Phase.String()
		tcp["ts_max_regions"], tcp["tc_max_regions"] = 1, 1
		if g := f.streams[0].gaps; g > 0 {
			tcp["ts_gap"] = true
		}
		if g := f.streams[1].gaps; g > 0 {
			tcp["tc_gap"] = true
		}
		m["tcp"] = tcp
	}
	o.memory(m, f)
	if len(f.entropy) > 0 {
		metadata(m)["entropy"] = maps.Clone(f.entropy)
	}
	r.emit(entry{record: m, flow: f})
}

// statsRecord writes the statistics.
func (o *Output) statsRecord(r *Run) {
	if o.quiet() {
		return
	}
	s := r.Stats()
	r.emit(entry{record: map[string]any{"timestamp": r.now.Format(stamp), "event_type": "stats", "stats": map[string]any{
		"decoder": map[string]any{"pkts": s.packets, "bytes": s.bytes, "invalid": s.broken},
		"flow":    map[string]any{"total": s.flows},
		"detect":  map[string]any{"alert": s.alerts},
	}}})
}

func sortFlows(fs []*flow) { slices.SortFunc(fs, func(a, b *flow) int { return int(a.id - b.id) }) }

// A dnsTx is a DNS message.
type dnsTx struct {
	traffic.DNSMessage
	id      int
	number  uint16
	flags   uint16
	records [3][]dns.Record
	msg     []byte
}

// An httpTx is a request and its response.
type httpTx struct {
	id     int
	stream uint32 // in HTTP/2
	http   traffic.HTTP
	tx     *engine.Tx
	body   [2]*body.Reader
	size   [2]int64
	done   [2]bool
	odd    []string
	shown  bool
	// continued reports that there was a status 100.
	continued bool
	settings  [2][]http2Setting
	files     bool
	at        *packet
}
