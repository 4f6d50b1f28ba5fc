package capture

import (
	"bytes"
	"crypto/md5"
	"encoding/binary"
	"encoding/hex"
	"strings"

	"shuultuur/lib/suricata/rule"
	"shuultuur/tool/capture/syntax"
)

// maxBanner limits the first line of SSH.
const maxBanner = 256

// An sshParser reads SSH up to the first key exchange, RFC 4253.
type sshParser struct {
	r     *Run
	f     *flow
	sides [2]struct {
		buf    []byte
		banner bool
		done   bool
	}
	tx *partsTx
}

func newSSH(r *Run, f *flow) *sshParser {
	p := &sshParser{r: r, f: f, tx: r.parts(f, "ssh", "ssh")}
	p.tx.Words = map[string]string{}
	p.tx.make = func() map[string]any { return sshRecord(p.tx) }
	return p
}

func (p *sshParser) name() string { return "ssh" }

// data implements parser.
func (p *sshParser) data(dir rule.Direction, b []byte, gap int64) {
	s := &p.sides[index(dir)]
	if gap > 0 {
		s.done = true
	}
	if s.done {
		return
	}
	s.buf = append(s.buf, b...)
	if !s.banner {
		line, rest, ok := syntax.CutLine(s.buf)
		if !ok {
			if len(s.buf) > maxBanner {
				p.tx.AddAnomaly("ssh.long_banner")
				s.done = true
			}
			return
		}
		s.banner, s.buf = true, rest
		p.banner(dir, line)
	}
	if len(s.buf) < 6 {
		return
	}
	n := int(binary.BigEndian.Uint32(s.buf))
	if n < 2 || n > 1<<16 {
		p.tx.AddAnomaly("ssh.invalid_record")
		s.done = true
		return
	}
	if len(s.buf) < 4+n {
		return
	}
	if s.done = true; s.buf[5] == 20 { // the first message is that of key exchange
		p.exchange(dir, s.buf[6:4+n-int(s.buf[4])])
	}
	s.buf = nil
	p.r.inspect(p.tx, p.tx.tx, dir, rule.Complete)
	if p.sides[0].done && p.sides[1].done {
		p.r.out.partsRecord(p.r, p.f, p.tx)
	}
}

// end implements parser.
func (p *sshParser) end(dir rule.Direction) {
	p.r.inspect(p.tx, p.tx.tx, dir, rule.Complete)
	if dir == rule.ToClient {
		p.r.out.partsRecord(p.r, p.f, p.tx)
	}
}

// banner reads "SSH-2.0-OpenSSH_9.2 comment".
func (p *sshParser) banner(dir rule.Direction, line []byte) {
	part := strings.SplitN(string(line), "-", 3)
	if len(part) < 3 || part[0] != "SSH" {
		p.tx.AddAnomaly("ssh.invalid_banner")
		return
	}
	software, _, _ := strings.Cut(part[2], " ")
	p.tx.Set(dir, rule.SSHProtocol, []byte(part[1]))
	p.tx.Set(dir, rule.SSHSoftware, []byte(software))
	p.tx.Words["ssh.protoversion"], p.tx.Words["ssh.softwareversion"] = part[1], software
	p.r.inspect(p.tx, p.tx.tx, dir, rule.Line)
}

// exchange reads the lists of algorithms, of which HASSH is made.
func (p *sshParser) exchange(dir rule.Direction, b []byte) {
	if len(b) < 16 {
		return
	}
	r := &reader{b: b[16:]}
	var lists [10]string
	for i := range lists {
		lists[i] = string(r.vector(4).b)
	}
	text, hash := rule.SSHHasshText, rule.SSHHassh
	used := []string{lists[0], lists[2], lists[4], lists[6]}
	if dir == rule.ToClient {
		text, hash = rule.SSHServerHasshText, rule.SSHServerHassh
		used = []string{lists[0], lists[3], lists[5], lists[7]}
	}
	all := []byte(strings.Join(used, ";"))
	sum := md5.Sum(all)
	p.tx.Set(dir, text, all)
	p.tx.Set(dir, hash, hex.AppendEncode(nil, sum[:]))
}

// sshRecord returns the parts of a record about SSH.
func sshRecord(t *partsTx) map[string]any {
	m := map[string]any{}
	for side, d := range map[string]rule.Direction{"client": rule.ToServer, "server": rule.ToClient} {
		x := map[string]any{}
		if v, ok := t.Buffer(d, rule.SSHProtocol, 0); ok {
			x["proto_version"] = string(v)
			x["software_version"] = string(bytes.TrimSpace([]byte(t.Text(d, rule.SSHSoftware))))
		}
		hash, text := rule.SSHHassh, rule.SSHHasshText
		if d == rule.ToClient {
			hash, text = rule.SSHServerHassh, rule.SSHServerHasshText
		}
		if v := t.Text(d, hash); v != "" {
			x["hassh"] = map[string]any{"hash": v, "string": t.Text(d, text)}
		}
		if len(x) > 0 {
			m[side] = x
		}
	}
	return map[string]any{"ssh": m}
}
