package capture

import (
	"net/netip"
	"strconv"
	"strings"
	"sync"

	"shuultuur/lib/suricata/rule"
	"shuultuur/lib/suricata/traffic"
)

// maxTransfers limits the announced transfers that are awaited.
const maxTransfers = 4096

// transfers are the connections that control connections have announced, by their listening end.
// They are shared by the parts of a Run.
type transfers struct {
	mu   sync.Mutex
	next map[netip.AddrPort]*transfer
}

// A transfer is a file that goes over a connection of its own.
type transfer struct {
	command, file string
	upload        bool
}

func (t *transfers) expect(at netip.AddrPort, x *transfer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.next == nil || len(t.next) >= maxTransfers {
		t.next = map[netip.AddrPort]*transfer{}
	}
	t.next[at] = x
}

func (t *transfers) take(at netip.AddrPort) *transfer {
	t.mu.Lock()
	defer t.mu.Unlock()
	x := t.next[at]
	delete(t.next, at)
	return x
}

// An ftp reads the control connection of FTP, RFC 959 and 2428.
type ftp struct {
	r       *Run
	f       *flow
	sides   [2]lineReader
	waiting []*partsTx // commands without a final reply
	listens netip.AddrPort
	active  bool
	next    *transfer // announced, and not yet named
}

func newFTP(r *Run, f *flow) *ftp { return &ftp{r: r, f: f} }

func (p *ftp) name() string { return "ftp" }

// data implements parser.
func (p *ftp) data(dir rule.Direction, b []byte, gap int64) {
	l := &p.sides[index(dir)]
	if gap > 0 {
		l.buf = nil
	}
	l.buf = append(l.buf, b...)
	for p.f.app == parser(p) {
		line, too, ok := l.next(maxCommand)
		if !ok {
			return
		}
		if dir == rule.ToServer {
			p.command(string(line), too)
		} else {
			p.reply(string(line), too)
		}
	}
}

// end implements parser.
func (p *ftp) end(dir rule.Direction) {
	if dir == rule.ToServer {
		return
	}
	for _, t := range p.waiting {
		p.finish(t)
	}
	p.waiting = nil
}

func (p *ftp) finish(t *partsTx) {
	p.r.inspect(t, t.tx, rule.ToServer, rule.Complete)
	p.r.inspect(t, t.tx, rule.ToClient, rule.Complete)
	p.r.out.partsRecord(p.r, p.f, t)
}

// command handles a line of the client.
func (p *ftp) command(line string, too bool) {
	t := p.r.parts(p.f, "ftp", "ftp")
	t.Words = map[string]string{"ftp.reply_received": "no"}
	verb, rest, _ := strings.Cut(line, " ")
	verb = strings.ToUpper(verb)
	t.Set(rule.ToServer, rule.FTPCommand, []byte(verb))
	if rest = strings.TrimSpace(rest); rest != "" {
		t.Set(rule.ToServer, rule.FTPCommandData, []byte(rest))
	}
	if too {
		t.AddAnomaly("ftp.ftp_request_command_too_long")
	}
	t.make = func() map[string]any { return ftpRecord(t) }
	switch verb {
	case "PORT":
		p.announce(t, portOf(rest), true)
	case "EPRT":
		p.announce(t, extendedPort(rest), true)
	case "RETR", "STOR":
		if p.listens.IsValid() {
			_, file := cutLast(rest)
			x := &transfer{command: strings.ToLower(verb), file: file, upload: verb == "STOR"}
			p.r.transfers.expect(p.listens, x)
			p.listens = netip.AddrPort{}
		}
	}
	p.waiting = append(p.waiting, t)
	p.r.inspect(t, t.tx, rule.ToServer, rule.Line)
}

func cutLast(name string) (dir, file string) {
	i := strings.LastIndexByte(name, '/')
	return name[:i+1], name[i+1:]
}

// announce notes where the next file is fetched or delivered.
func (p *ftp) announce(t *partsTx, at netip.AddrPort, active bool) {
	if !at.IsValid() {
		return
	}
	p.listens, p.active = at, active
	t.Counts = map[string][]uint64{"ftp.dynamic_port": {uint64(at.Port())}}
	t.Words["ftp.mode"] = "passive"
	if active {
		t.Words["ftp.mode"] = "active"
	}
}

// reply handles a line of the server.
func (p *ftp) reply(line string, too bool) {
	if len(p.waiting) == 0 { // a greeting, or later news
		return
	}
	t := p.waiting[0]
	code, text := "", line
	if len(line) >= 3 {
		if n, err := strconv.Atoi(line[:3]); err == nil && n >= 100 {
			code, text = line[:3], strings.TrimLeft(line[3:], "- ")
		}
	}
	if code != "" {
		t.Add(rule.ToClient, rule.FTPCode, []byte(code))
	}
	t.Add(rule.ToClient, rule.FTPReply, []byte(text))
	t.Words["ftp.reply_received"] = "yes"
	if too {
		t.AddAnomaly("ftp.ftp_response_command_too_long")
	}
	switch {
	case code == "227":
		if i := strings.IndexByte(line, '('); i >= 0 {
			inner, _, _ := strings.Cut(line[i+1:], ")")
			p.announce(t, portOf(inner), false)
		}
	case code == "229":
		if i := strings.Index(line, "|||"); i >= 0 {
			port, _, _ := strings.Cut(line[i+3:], "|")
			if n, err := strconv.ParseUint(port, 10, 16); err == nil {
				p.announce(t, netip.AddrPortFrom(p.f.server.Addr(), uint16(n)), false)
			}
		}
	case code == "234" && t.Text(rule.ToServer, rule.FTPCommand) == "AUTH":
		p.waiting = p.waiting[1:]
		p.finish(t)
		p.f.app, p.f.appName, p.f.before, p.f.gaveUp = nil, "", p.name(), false
		return
	}
	if code == "" || code[0] == '1' || len(line) > 3 && line[3] == '-' { // more follows
		p.r.inspect(t, t.tx, rule.ToClient, rule.Line)
		return
	}
	p.waiting = p.waiting[1:]
	p.finish(t)
}

// portOf reads "h1,h2,h3,h4,p1,p2".
func portOf(s string) netip.AddrPort {
	var b [6]byte
	parts := strings.Split(strings.TrimSpace(s), ",")
	if len(parts) != 6 {
		return netip.AddrPort{}
	}
	for i, x := range parts {
		n, err := strconv.ParseUint(strings.TrimSpace(x), 10, 8)
		if err != nil {
			return netip.AddrPort{}
		}
		b[i] = byte(n)
	}
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[:4])), uint16(b[4])<<8|uint16(b[5]))
}

// extendedPort reads "|2|address|port|".
func extendedPort(s string) netip.AddrPort {
	if s == "" {
		return netip.AddrPort{}
	}
	parts := strings.Split(s, s[:1])
	if len(parts) < 4 {
		return netip.AddrPort{}
	}
	a, err := netip.ParseAddr(parts[2])
	n, err2 := strconv.ParseUint(parts[3], 10, 16)
	if err != nil || err2 != nil {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(a, uint16(n))
}

// ftpRecord returns the parts of a record about a command.
func ftpRecord(t *partsTx) map[string]any {
	m := map[string]any{"command": t.Text(rule.ToServer, rule.FTPCommand), "reply_received": t.Words["ftp.reply_received"]}
	if v := t.Text(rule.ToServer, rule.FTPCommandData); v != "" {
		m["command_data"] = v
	}
	for key, b := range map[string]rule.Buffer{"completion_code": rule.FTPCode, "reply": rule.FTPReply} {
		var all []string
		for _, v := range t.Values[1][b] {
			all = append(all, string(v))
		}
		if len(all) > 0 {
			m[key] = all
		}
	}
	if n := t.Counts["ftp.dynamic_port"]; len(n) > 0 {
		m["dynamic_port"], m["mode"] = n[0], t.Words["ftp.mode"]
	}
	return map[string]any{"ftp": m}
}

// transfer returns the reader of a file if a control connection has announced one for a
// connection.
func (r *Run) transfer(f *flow, dir rule.Direction) parser {
	x := r.transfers.take(f.server)
	if x == nil {
		return nil
	}
	d := &ftpData{r: r, f: f, transfer: *x, dir: dir}
	d.tx = r.parts(f, "ftp-data", "ftp_data")
	d.tx.Words = map[string]string{"ftpdata_command": x.command}
	d.tx.make = func() map[string]any {
		return map[string]any{"ftp_data": map[string]any{"filename": x.file, "command": strings.ToUpper(x.command)}}
	}
	return d
}

// An ftpData reads the connection of one file.
type ftpData struct {
	r *Run
	f *flow
	transfer
	tx      *partsTx
	dir     rule.Direction
	content []byte
	gaps    bool
}

func (d *ftpData) name() string { return "ftp-data" }

// data implements parser.
func (d *ftpData) data(dir rule.Direction, b []byte, gap int64) {
	d.gaps = d.gaps || gap > 0
	d.dir = dir
	if len(d.content)+len(b) <= maxMail {
		d.content = append(d.content, b...)
	}
	d.show(false, rule.Body)
}

func (d *ftpData) show(complete bool, at rule.Progress) {
	if len(d.content) == 0 {
		return
	}
	d.tx.Attached[index(d.dir)] = []*traffic.File{{Name: d.file, Data: d.content, Size: int64(len(d.content)), Complete: complete && !d.gaps}}
	d.r.inspect(d.tx, d.tx.tx, d.dir, at)
}

// end implements parser.
func (d *ftpData) end(dir rule.Direction) {
	if dir != d.dir && !d.f.closed || d.tx.shown {
		return
	}
	d.show(true, rule.Complete)
	d.r.out.partsRecord(d.r, d.f, d.tx)
}
