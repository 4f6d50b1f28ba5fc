package capture

import (
	"encoding/binary"
	"errors"
	"fmt"

	"shuultuur/lib/suricata/rule"
	"shuultuur/lib/suricata/traffic"
	"shuultuur/tool/capture/quic"
)

// A quicConn reads the hellos of a QUIC connection.
type quicConn struct {
	r    *Run
	f    *flow
	conn quic.Conn
}

// A quicTx is a packet of QUIC with a hello, or another with a long head.
type quicTx struct {
	partsTx
	version uint32
	hello   *tlsParser
}

// A quicSource adds the hello's properties to those of the packet.
type quicSource struct {
	traffic.Parts
	*traffic.TLSHandshake
}

func (q *quicSource) Buffer(dir rule.Direction, b rule.Buffer, i int) ([]byte, bool) {
	if q.TLSHandshake != nil && b.Info().Protocol == "tls" {
		return q.TLSHandshake.Buffer(dir, b, i)
	}
	return q.Parts.Buffer(dir, b, i)
}

func (q *quicSource) Numbers(dir rule.Direction, k string) ([]uint64, bool) {
	return q.Parts.Numbers(dir, k)
}
func (q *quicSource) Word(dir rule.Direction, k, v string) bool { return q.Parts.Word(dir, k, v) }
func (q *quicSource) Event(kind, name string) bool              { return q.Parts.Event(kind, name) }
func (q *quicSource) Files(dir rule.Direction) []*traffic.File  { return nil }

// quic handles a datagram of QUIC.
func (r *Run) quic(f *flow, dir rule.Direction, b []byte) {
	if f.quic == nil {
		f.quic = &quicConn{r: r, f: f}
		f.appName = "quic"
	}
	c := &f.quic.conn
	if c.Done(index(dir)) {
		return
	}
	for _, p := range c.Read(b, index(dir)) {
		switch {
		case p.Kind == quic.Short, p.Waits:
		case p.Err != nil:
			event := "quic.error_on_data"
			switch {
			case errors.Is(p.Err, quic.ErrSealed):
				event = "quic.failed_decrypt"
			case errors.Is(p.Err, quic.ErrLong):
				event = "quic.crypto_frag_too_long"
			}
			r.quicPacket(f, dir, p.Version, nil, event)
			return
		default:
			r.quicPacket(f, dir, p.Version, p.Hello, "")
		}
		if p.Hello != nil {
			return
		}
	}
}

// quicPacket tries the rules on a packet, and writes its record.
func (r *Run) quicPacket(f *flow, dir rule.Direction, version uint32, hello []byte, event string) {
	src := &quicSource{Parts: traffic.Parts{Protocol: "quic"}}
	t := &quicTx{version: version}
	t.id, t.kind = f.txs, "quic"
	f.txs++
	src.Set(dir, rule.QUICVersion, binary.BigEndian.AppendUint32(nil, version))
	var exts []map[string]any
	if len(hello) > 4 {
		h := &tlsParser{r: r, f: f}
		h.tls.Events = map[string]bool{}
		h.tls.Now = r.now
		switch hello[0] {
		case 1:
			h.clientHello(hello)
		case 2:
			h.serverHello(hello[4:])
		}
		if len(h.tls.JA4) > 0 {
			h.tls.JA4 = "q" + h.tls.JA4[1:]
		}
		src.TLSHandshake = &h.tls
		if h.tls.SNI != nil {
			src.Set(dir, rule.QUICSNI, h.tls.SNI)
		}
		t.hello = h
		exts = h.extensionRecords(index(dir))
	}
	if event != "" {
		src.AddAnomaly(event)
	}
	t.Parts = src.Parts
	t.make = func() map[string]any { return map[string]any{"quic": quicRecord(t, exts)} }
	t.tx = r.tx(f, &messageSource{Source: src, run: r, f: f})
	t.tx.App = rule.QUIC
	r.inspect(&t.partsTx, t.tx, dir, rule.Complete)
	r.out.partsRecord(r, f, &t.partsTx)
}

// quicVersion returns the name of a version in records.
func quicVersion(v uint32) string {
	switch v {
	case quic.Version1:
		return "1"
	case quic.Version2:
		return "v2"
	}
	if b := binary.BigEndian.AppendUint32(nil, v); b[0] == 'Q' || b[0] == 'T' {
		return string(b)
	}
	return fmt.Sprintf("%x", v)
}

func quicRecord(t *quicTx, exts []map[string]any) map[string]any {
	m := map[string]any{"version": quicVersion(t.version)}
	if t.hello == nil {
		return m
	}
	h := &t.hello.tls
	if h.SNI != nil {
		m["sni"] = string(h.SNI)
	}
	if h.JA3Hash != "" {
		m["ja3"] = map[string]string{"hash": h.JA3Hash, "string": h.JA3}
	}
	if h.JA3SHash != "" {
		m["ja3s"] = map[string]string{"hash": h.JA3SHash, "string": h.JA3S}
	}
	if h.JA4 != "" {
		m["ja4"] = h.JA4
	}
	if len(exts) > 0 {
		m["extensions"] = exts
	}
	return m
}

// extensionNames are the names of extensions in records.
var extensionNames = map[uint16]string{0: "server_name", 1: "max_fragment_length", 5: "status_request", 10: "supported_groups", 11: "ec_point_formats",
	13: "signature_algorithms", 14: "use_srtp", 15: "heartbeat", 16: "alpn", 17: "status_request_v2", 18: "signed_certificate_timestamp", 21: "padding",
	22: "encrypt_then_mac", 23: "extended_master_secret", 27: "compress_certificate", 28: "record_size_limit", 34: "delegated_credentials", 35: "session_ticket",
	41: "pre_shared_key", 42: "early_data", 43: "supported_versions", 44: "cookie", 45: "psk_key_exchange_modes", 47: "certificate_authorities",
	49: "post_handshake_auth", 50: "signature_algorithms_cert", 51: "key_share", 57: "quic_transport_parameters", 65281: "renegotiation_info"}

// extensionRecords returns the extensions of a hello in their order.
func (t *tlsParser) extensionRecords(side int) (all []map[string]any) {
	for _, kind := range t.extensions[side] {
		m := map[string]any{"type": kind}
		if name := extensionNames[kind]; name != "" {
			m["name"] = name
		}
		var values []string
		switch kind {
		case 0:
			values = []string{string(t.tls.SNI)}
		case 16:
			for _, p := range t.tls.ALPN[side] {
				values = append(values, string(p))
			}
		}
		if len(values) > 0 {
			m["values"] = values
		}
		all = append(all, m)
	}
	return all
}
