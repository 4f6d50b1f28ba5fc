package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"
)

// These are the least values that a machine should have. The findings give the reasons.
const (
	wantBacklog   = 4096
	wantPorts     = 50_000
	wantConntrack = 262_144
	wantBuffer    = 2 << 20
	wantFiles     = 65_536

	freeBad  = 256 << 20
	freeLow  = 2 << 30
	slowSync = 50 * time.Millisecond

	dayOnCard = 1_000_000_000 // bytes that a day may write to a card
	paceAfter = time.Hour     // from then on a process says what a day writes; its start writes more
)

// subject is a machine under inspection.
type subject struct {
	m   Machine
	cfg Config
}

func one(f Finding) []Finding { return []Finding{f} }

// unknown returns the finding for something that could not be inspected.
func unknown(about string, err error) Finding {
	return Finding{About: about, Level: Unknown, Found: err.Error()}
}

// number reads a kernel setting that is one whole number.
func (p subject) number(name string) (int64, error) {
	s, err := p.m.Kernel(name)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s is %q, not a number", name, s)
	}
	return n, nil
}

func (p subject) bsd() bool { return p.m.System() == "freebsd" }

// set returns the commands that change a kernel setting now and permanently.
func (p subject) set(name string, value any) []string {
	if p.bsd() {
		return []string{
			fmt.Sprintf("sysctl %s=%v", name, value),
			fmt.Sprintf("echo '%s=%v' >> /etc/sysctl.conf", name, value),
		}
	}
	return []string{
		fmt.Sprintf("echo '%s = %v' >> /etc/sysctl.d/90-shuultuur.conf", name, value),
		"sysctl --system",
	}
}

// atLeast judges a kernel setting that must not be below want.
func (p subject) atLeast(name string, want int64, show func(int64) string, why string) []Finding {
	n, err := p.number(name)
	if err != nil {
		return one(unknown(name, err))
	}
	f := Finding{About: name, Level: OK, Found: show(n)}
	if n < want {
		f.Level, f.Wanted, f.Why, f.Mend = Low, show(want), why, p.set(name, want)
	}
	return one(f)
}

func plain(n int64) string { return strconv.FormatInt(n, 10) }

func size(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.3g GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.4g MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%d KiB", n>>10)
}

func (p subject) backlog() []Finding {
	const why = "Connections that arrive while the gateway is busy wait in this queue; when it is full the client waits a second or more for its retry. A running gateway takes a new value at its next start."
	if p.bsd() {
		name := "kern.ipc.soacceptqueue"
		if _, err := p.m.Kernel(name); errors.Is(err, fs.ErrNotExist) {
			name = "kern.ipc.somaxconn" // before FreeBSD 10
		}
		return p.atLeast(name, wantBacklog, plain, why)
	}
	return append(p.atLeast("net.core.somaxconn", wantBacklog, plain, why),
		p.atLeast("net.ipv4.tcp_max_syn_backlog", wantBacklog, plain, "Half-open connections wait here; when it is full, new ones are dropped or served by SYN cookies, without window scaling.")...)
}

func (p subject) files() []Finding {
	const about = "open files of a process"
	soft, hard, err := p.m.Files()
	if err != nil {
		return append(one(unknown(about, err)), p.allFiles()...)
	}
	// Go itself raises the soft limit to the hard one. A client needs two
	// connections; a tunnel needs two and the two ends of a pipe as well.
	want := uint64(max(wantFiles, 6*p.cfg.Connections))
	f := Finding{About: about, Level: OK, Found: fmt.Sprintf("%d, at most %d", soft, hard)}
	switch {
	case hard < uint64(4*p.cfg.Connections):
		f.Level = Bad
	case hard < want:
		f.Level = Low
	}
	if f.Level != OK {
		f.Wanted = fmt.Sprintf("at most %d", want)
		f.Why = "Each client takes two to six: its connection, the one upstream, the pipes of a tunnel. When they run out nobody new is let in."
		f.Mend = []string{fmt.Sprintf("systemd: LimitNOFILE=%d under [Service]", want)}
		if p.bsd() {
			f.Mend = append(p.set("kern.maxfilesperproc", want), fmt.Sprintf("sysrc shuultuur_limits='-n %d'", want))
		}
	}
	return append(one(f), p.allFiles()...)
}

// allFiles inspects the open files of the whole system.
func (p subject) allFiles() []Finding {
	open, limit := "kern.openfiles", "kern.maxfiles"
	var used, most int64
	var err error
	if p.bsd() {
		if used, err = p.number(open); err == nil {
			most, err = p.number(limit)
		}
	} else {
		limit = "fs.file-max"
		var s string
		if s, err = p.m.Kernel("fs.file-nr"); err == nil {
			var unused int64
			_, err = fmt.Sscan(s, &used, &unused, &most)
		}
	}
	about := "open files of the system"
	if err != nil {
		return one(unknown(about, err))
	}
	f := Finding{About: about, Level: OK, Found: fmt.Sprintf("%d of %d", used, most)}
	if used > most/10*9 {
		f.Level, f.Wanted, f.Mend = Bad, "less than 9 in 10", p.set(limit, 2*most)
		f.Why = "When the last is taken no program on this machine opens a file or a connection."
	}
	return one(f)
}

// portRange returns the first and last port of outgoing connections.
func (p subject) portRange() (first, last int64, err error) {
	if p.bsd() {
		if first, err = p.number("net.inet.ip.portrange.first"); err == nil {
			last, err = p.number("net.inet.ip.portrange.last")
		}
		return first, last, err
	}
	s, err := p.m.Kernel("net.ipv4.ip_local_port_range")
	if err != nil {
		return 0, 0, err
	}
	if _, err := fmt.Sscan(s, &first, &last); err != nil {
		return 0, 0, fmt.Errorf("net.ipv4.ip_local_port_range is %q, not two numbers", s)
	}
	return first, last, nil
}

func (p subject) ports() []Finding {
	const about = "ports for outgoing connections"
	first, last, err := p.portRange()
	if err != nil {
		return one(unknown(about, err))
	}
	f := Finding{About: about, Level: OK, Found: fmt.Sprintf("%d (%d to %d)", last-first+1, first, last)}
	if last-first+1 < wantPorts {
		f.Level, f.Wanted = Low, fmt.Sprintf("%d or more", wantPorts)
		f.Why = "Connections to one address and port, a parent proxy say, share this range, those in TIME_WAIT among them; when it is used up, connecting fails with \"cannot assign requested address\"."
		if p.bsd() {
			f.Mend = append(p.set("net.inet.ip.portrange.first", 10000), p.set("net.inet.ip.portrange.last", 65535)...)
		} else {
			f.Mend = p.set("net.ipv4.ip_local_port_range", "10000 65535")
		}
	}
	return one(f)
}

func (p subject) timeWait() []Finding {
	const about = "connections in TIME_WAIT"
	n, err := p.m.TimeWait()
	if err != nil {
		return one(unknown(about, err))
	}
	f := Finding{About: about, Level: OK, Found: plain(n)}
	first, last, err := p.portRange()
	if err == nil && n > (last-first+1)/2 {
		f.Level, f.Wanted = Low, fmt.Sprintf("less than %d, half the ports", (last-first+1)/2)
		f.Why = "Something on this machine closes connections as fast as it opens them; when all are to one address, ports run out."
		f.Mend = p.set("net.ipv4.tcp_tw_reuse", 1)
		if p.bsd() {
			f.Mend = p.set("net.inet.tcp.msl", 5000)
		}
	}
	return one(f)
}

func (p subject) conntrack() []Finding {
	const about = "connection tracking"
	if p.bsd() {
		return one(Finding{About: about, Level: Unknown, Found: "pf and ipfw are not asked",
			Why:  "pf drops new connections when its table of states is full.",
			Mend: []string{"pfctl -si | grep -i 'current entries'; pfctl -sm | grep states", fmt.Sprintf("pf.conf: set limit states %d", wantConntrack)}})
	}
	const limit = "net.netfilter.nf_conntrack_max"
	most, err := p.number(limit)
	if errors.Is(err, fs.ErrNotExist) {
		return one(Finding{About: about, Level: OK, Found: "not in use"})
	}
	if err != nil {
		return one(unknown(about, err))
	}
	used, err := p.number("net.netfilter.nf_conntrack_count")
	if err != nil {
		return one(unknown(about, err))
	}
	f := Finding{About: about, Level: OK, Found: fmt.Sprintf("%d of %d", used, most)}
	switch {
	case used > most/10*9:
		f.Level = Bad
	case used > most/10*7, most < wantConntrack:
		f.Level = Low
	default:
		return one(f)
	}
	want := max(wantConntrack, 2*most)
	f.Wanted = fmt.Sprintf("room for %d, at most 70 %% of it used", want)
	f.Why = "Each connection takes an entry or two, and keeps it for minutes; when the table is full, new connections are dropped and the kernel logs \"table full, dropping packet\"."
	f.Mend = p.set(limit, want)
	return one(f)
}

func (p subject) buffers() []Finding {
	const why = "What arrives or leaves over UDP (DNS, QUIC) faster than it is handled waits in a buffer of at most this size; what does not fit is lost, and nobody is told."
	if p.bsd() {
		return p.atLeast("kern.ipc.maxsockbuf", wantBuffer, size, why)
	}
	return append(p.atLeast("net.core.rmem_max", wantBuffer, size, why), p.atLeast("net.core.wmem_max", wantBuffer, size, why)...)
}

func (p subject) clock() []Finding {
	now := p.m.Now()
	f := Finding{About: "clock", Level: OK, Found: now.UTC().Format("2006-01-02 15:04 UTC")}
	const why = "Certificates, DNSSEC signatures, schedules and the times in the record depend on the clock."
	mend := []string{"timedatectl set-ntp true"}
	if p.bsd() {
		mend = []string{"sysrc ntpd_enable=YES ntpd_sync_on_start=YES", "service ntpd start"}
	}
	// Times before the program's first year and far in the future are wrong.
	if y := now.Year(); y < 2025 || y > 2100 {
		f.Level, f.Wanted, f.Why, f.Mend = Bad, "the current year", why, mend
		return one(f)
	}
	ok, err := p.m.Synchronised()
	switch {
	case err != nil:
		f.Level, f.Found = Unknown, f.Found+", time server unknown: "+err.Error()
	case !ok:
		f.Level, f.Found = Low, f.Found+", not synchronised with a time server"
		f.Wanted, f.Why, f.Mend = "a clock synchronised with one", why, mend
	default:
		f.Found += ", follows a time server"
	}
	return one(f)
}

func (p subject) entropy() []Finding {
	const about = "random numbers"
	ok, err := p.m.Entropy()
	if err != nil {
		return one(unknown(about, err))
	}
	if ok {
		return one(Finding{About: about, Level: OK, Found: "seeded"})
	}
	mend := []string{"apt-get install rng-tools5   (or give a virtual machine a virtio-rng device)"}
	if p.bsd() {
		mend = []string{"sysrc entropy_file=/entropy; service random restart"}
	}
	return one(Finding{About: about, Level: Bad, Found: "not seeded yet", Wanted: "a seeded generator",
		Why: "Every TLS handshake waits until the kernel has gathered enough; a small box without a source of noise may take minutes.", Mend: mend})
}

// memory compares GOMEMLIMIT with the memory of the machine, and held bodies
// with the limit that applies when its advice was followed.
func (p subject) memory() []Finding {
	const about = "memory"
	have, err := p.m.Memory()
	if err != nil {
		return one(unknown(about, err))
	}
	limit, advised := p.cfg.MemoryLimit, have>>20*3/4<<20
	found := size(have) + ", no GOMEMLIMIT here"
	if limit > 0 {
		found = size(have) + ", GOMEMLIMIT " + size(limit)
	}
	if p.cfg.Held > 0 {
		found += ", held bodies " + size(p.cfg.Held)
	}
	f := Finding{About: about, Level: OK, Found: found}
	switch {
	case limit > advised:
		f.Level = Bad
		f.Why = "The collector lets the heap grow to GOMEMLIMIT; the kernel ends the process before that."
	case limit == 0 && have < 2<<30:
		f.Level = Low
		f.Why = "On a small machine the heap may double before the collector runs; with a limit it runs in time. (This is the limit of this environment; the service may have its own.)"
	}
	if f.Level != OK {
		f.Wanted = fmt.Sprintf("GOMEMLIMIT %dMiB", advised>>20)
		f.Mend = []string{fmt.Sprintf("systemd: Environment=GOMEMLIMIT=%dMiB under [Service]", advised>>20)}
		if p.bsd() {
			f.Mend = []string{fmt.Sprintf("sysrc shuultuur_env='GOMEMLIMIT=%dMiB'", advised>>20)}
		}
		limit = advised
	}
	if limit == 0 {
		limit = advised
	}
	if most := limit / 2; p.cfg.Held > most {
		held := Finding{About: "held bodies", Level: Low, Found: found, Wanted: "held bodies " + size(most) + " at most",
			Why:  "Decoding and judging held bodies may double their memory; with many large pages at once the kernel ends the process, or it spends its time collecting garbage.",
			Mend: []string{fmt.Sprintf("settings: proxy: {held-total: %dMiB}", most>>20)}}
		return []Finding{f, held}
	}
	return one(f)
}

func (p subject) disk() []Finding {
	about := fmt.Sprintf("disk of %s", p.cfg.Data)
	if p.cfg.Data == "" {
		about = "disk of this folder"
	}
	d, err := p.m.Disk(p.cfg.Data)
	if err != nil {
		return one(unknown(about, err))
	}
	f := Finding{About: about, Level: OK, Found: fmt.Sprintf("%s of %s free", size(int64(d.Free)), size(int64(d.Total)))}
	switch {
	case d.Free < freeBad, d.FilesLimited && d.Files < 1000:
		f.Level = Bad
	case d.Free < freeLow:
		f.Level = Low
	}
	if d.FilesLimited && d.Files < 1000 {
		f.Found += fmt.Sprintf(", room for %d files", d.Files)
	}
	if f.Level != OK {
		f.Wanted = size(freeLow) + " and a thousand files"
		f.Why = "The record of what happened and compiled lists are written here; when it is full, events are dropped and new lists refused."
		f.Mend = []string{"settings: data: a folder on a larger disk, or events: {keep: …} for a shorter record"}
	}
	s := Finding{About: "disk sync", Level: OK, Found: fmt.Sprintf("%.1f ms", float64(d.Sync)/float64(time.Millisecond))}
	switch {
	case d.SyncUntried != "":
		s.Level, s.Found = Unknown, d.SyncUntried
	case d.Sync > slowSync:
		s.Level, s.Wanted = Low, fmt.Sprintf("%d ms at most", slowSync.Milliseconds())
		s.Why = "Events wait in a bounded queue while a batch is synced; on a disk this slow the queue fills under load and events are dropped (counted)."
		s.Mend = []string{"settings: data: a folder on a faster disk"}
	}
	found := []Finding{f, s}
	if p.cfg.Process != 0 {
		found = append(found, p.written(d.Card))
	}
	return found
}

// written says what a day writes, as long as the gateway has run.
func (p subject) written(card bool) Finding {
	const about = "written to disks"
	w, err := p.m.Written(p.cfg.Process)
	if err != nil {
		return unknown(about, err)
	}
	f := Finding{About: about, Level: OK}
	if w.In < paceAfter {
		f.Found = fmt.Sprintf("%s since the start %s ago; ask after an hour what a day writes", size(w.Bytes), w.In.Round(time.Second))
		return f
	}
	day := int64(float64(w.Bytes) / w.In.Hours() * 24)
	f.Found = fmt.Sprintf("%s a day, by the last %s", size(day), w.In.Round(time.Minute))
	if card && day > dayOnCard {
		f.Level, f.Wanted, f.Why = Low, size(dayOnCard)+" a day on a card", "Each part of an SD card can be written some thousand times only; then the card fails, with all that is on it."
		f.Mend = []string{"settings: data: a folder on another disk"}
		if p.cfg.Often {
			f.Mend = append(f.Mend, "settings: events: {every: 1m}")
		}
	}
	return f
}
