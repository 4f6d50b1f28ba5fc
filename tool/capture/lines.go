package capture

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"shuultuur/lib/suricata/engine"
	"shuultuur/lib/suricata/rule"
	"shuultuur/lib/suricata/traffic"
)

// lines detects the protocols in which both sides send lines: SMTP, FTP and the beginning of SSH.
func (r *Run) lines(f *flow) parser {
	c, s := f.tried[0], f.tried[1]
	word, _, whole := strings.Cut(strings.ToUpper(string(c[:min(len(c), 16)])), " ")
	port := f.server.Port()
	mail := port == 25 || port == 587 || port == 465
	switch {
	case bytes.HasPrefix(c, []byte("SSH-")), bytes.HasPrefix(s, []byte("SSH-")):
		return newSSH(r, f)
	case whole && (word == "EHLO" || word == "HELO"), mail && bytes.HasPrefix(s, []byte("220")) && len(c) == 0 && bytes.IndexByte(s, '\n') > 0:
		return newSMTP(r, f)
	case whole && slices.Contains([]string{"USER", "PASS", "PORT", "EPRT", "AUTH", "FEAT"}, word) && port != 110 && port != 143, port == 21 && bytes.HasPrefix(s, []byte("220")) && bytes.IndexByte(s, '\n') > 0:
		return newFTP(r, f)
	case port == 21 && bytes.HasPrefix(bytes.ToUpper(c), []byte("FEAT\r\n")):
		return newFTP(r, f)
	}
	return nil
}

// A lineReader collects the bytes of one side until lines are whole.
type lineReader struct {
	buf  []byte
	long bool // the rest of a line that was too long is skipped
}

// next returns the next whole line without its end. too reports that it is cut because it was
// longer than most bytes.
func (l *lineReader) next(most int) (line []byte, too, ok bool) {
	for {
		i := bytes.IndexByte(l.buf, '\n')
		if i < 0 {
			if len(l.buf) <= most {
				return nil, false, false
			}
			line = bytes.Clone(l.buf[:most])
			l.buf = l.buf[:0]
			if !l.long {
				l.long = true
				return line, true, true
			}
			return nil, false, false
		}
		line = bytes.TrimSuffix(l.buf[:i], []byte("\r"))
		l.buf = l.buf[i+1:]
		if l.long {
			l.long = false
			continue
		}
		if len(line) > most {
			return bytes.Clone(line[:most]), true, true
		}
		return bytes.Clone(line), false, true
	}
}

// A partsTx is a message of SMTP, FTP, SSH or QUIC.
type partsTx struct {
	traffic.Parts
	id    int
	tx    *engine.Tx
	shown bool
	kind  string                // of its record
	make  func() map[string]any // the parts of its record
}

// parts makes the next message of a connection.
func (r *Run) parts(f *flow, protocol, kind string) *partsTx {
	t := &partsTx{Parts: traffic.Parts{Protocol: protocol}, id: f.txs, kind: kind}
	f.txs++
	t.tx = r.tx(f, &messageSource{Source: &t.Parts, run: r, f: f})
	t.tx.App = appBits[protocol]
	return t
}

// partsRecord writes a message, its files and its anomalies, once.
func (o *Output) partsRecord(r *Run, f *flow, t *partsTx) {
	if t.shown || o.quiet() {
		return
	}
	t.shown = true
	if t.make != nil {
		m := r.head(f, t.kind, f.client, f.server)
		m["tx_id"] = t.id
		for k, v := range t.make() {
			m[k] = v
		}
		r.emit(entry{record: m})
	}
	for _, d := range []rule.Direction{rule.ToServer, rule.ToClient} {
		for _, file := range t.Attached[index(d)] {
			src, dst := f.client, f.server
			if d == rule.ToClient {
				src, dst = dst, src
			}
			m := r.head(f, "fileinfo", src, dst)
			if t.make != nil {
				for k, v := range t.make() {
					m[k] = v
				}
			}
			m["app_proto"], m["fileinfo"] = f.appName, fileRecord(file, stateOf(file), t.id)
			r.emit(entry{record: m})
		}
	}
	for _, e := range slices.Sorted(maps.Keys(t.Events)) {
		m := r.head(f, "anomaly", f.client, f.server)
		_, name, _ := strings.Cut(e, ".")
		m["tx_id"] = t.id
		m["anomaly"] = map[string]any{"app_proto": t.Protocol, "type": "applayer", "event": strings.ToUpper(name), "layer": "proto_parser"}
		r.emit(entry{record: m})
	}
}

// stateOf returns the state of a file in records.
func stateOf(f *traffic.File) string {
	if !f.Complete {
		return "TRUNCATED"
	}
	return "CLOSED"
}
