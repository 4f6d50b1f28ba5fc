// Package doctor inspects the machine that a gateway is to run on, before it carries load: limits
// of the kernel, of the process and of the disk, clock and entropy, the rules that redirect clients
// to the transparent ports, and files that must be fresh (certificate, lists, Redis).
//
// Data moves one way. A Machine provides facts (machine_linux.go, machine_freebsd.go; tests have
// their own). Each look (look.go, own.go, transparent.go, names.go, redis.go) makes Findings from
// some of them. A Report has the findings as text or JSON. Doctor changes nothing; a finding about a
// low value has the command that raises it.
package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"time"
)

// Machine provides facts about the system.
type Machine interface {
	System() string // "linux", "freebsd"
	Now() time.Time
	// Kernel returns a kernel setting by its sysctl(8) name. The error is
	// fs.ErrNotExist if there is no such setting.
	Kernel(name string) (string, error)
	// Files returns how many files a process may have open: the soft and the hard
	// limit.
	Files() (soft, hard uint64, err error)
	TimeWait() (int64, error)      // number of connections in TIME_WAIT
	Synchronised() (bool, error)   // whether the clock follows a time server
	Entropy() (bool, error)        // whether the random generator is seeded
	Memory() (int64, error)        // bytes this process may use, control groups included
	Disk(dir string) (Disk, error) // describes the file system of the nearest folder that exists
	// Written returns what a process has had written to disks.
	Written(process int) (Written, error)
	// Bind opens host:port for UDP and TCP for a moment. The error is that of the
	// system.
	Bind(addr string) error
	Addresses() ([]netip.Addr, error) // addresses of this machine
	// Output returns the output of a command that changes nothing. The error is
	// exec.ErrNotFound if it is not installed.
	Output(ctx context.Context, name string, args ...string) (string, error)
}

// Disk describes the file system of a folder.
type Disk struct {
	Free, Total  uint64        // bytes, for unprivileged users
	Files        uint64        // files that can still be created; 0 if the system sets no limit
	FilesLimited bool          // whether the number of files is limited
	Sync         time.Duration // median of a few small writes with fsync(2); 0 if not tried
	SyncUntried  string        // why it was not tried
	Card         bool          // an SD card or the like, which few writes wear out
}

// Written is what a process has had written to disks since it started.
type Written struct {
	Bytes int64
	In    time.Duration
}

// Config sets the subjects of inspection besides the machine. Every field may be
// empty.
type Config struct {
	Data        string // data folder
	Process     int    // the gateway that runs with it; 0 for none
	Often       bool   // the record is written more than once a minute
	Connections int    // concurrent clients, all listeners together
	Held        int64  // bytes that held bodies may take: proxy.held-total
	MemoryLimit int64  // GOMEMLIMIT in bytes; 0 means none
	Cert        string // certificate of listen.tls, a PEM file
	Lists       []List
	Transparent []string // host:port, listen.transparent
	TPROXY      []string // host:port, listen.tproxy
	Settings    string   // settings file; "" means there is none
	Mistakes    error    // the mistake in the settings
	Redis       string   // host:port
	Names       *Names   // the name server; nil when there is none
}

// List is a list's source.
type List struct{ Name, Path string }

// Level is the severity of a finding.
type Level string

// The levels. Unknown means that it could not be inspected.
const (
	OK      Level = "ok"
	Low     Level = "low" // works until there is load
	Bad     Level = "bad" // fails now, or very soon
	Unknown Level = "unknown"
)

// Finding is one fact with its judgement. If it is fine, only About, Level and
// Found are set.
type Finding struct {
	About  string   `json:"about"`
	Level  Level    `json:"level"`
	Found  string   `json:"found"`
	Wanted string   `json:"wanted,omitempty"`
	Why    string   `json:"why,omitempty"`
	Mend   []string `json:"mend,omitempty"` // commands to type
}

// Report has all findings, in the order of inspection.
type Report struct {
	System   string    `json:"system"`
	Findings []Finding `json:"findings"`
}

// Look inspects the machine and returns the findings. It takes some seconds at
// most, bounded by the disk, by the firewall's programs and by Redis.
func Look(ctx context.Context, m Machine, cfg Config) *Report {
	p := subject{m: m, cfg: cfg}
	r := &Report{System: m.System()}
	for _, look := range []func() []Finding{
		p.backlog, p.files, p.ports, p.timeWait, p.conntrack, p.buffers,
		p.clock, p.entropy, p.memory, p.disk,
		p.settings, p.certificate, p.lists,
	} {
		r.Findings = append(r.Findings, look()...)
	}
	r.Findings = append(r.Findings, p.transparent(ctx)...)
	r.Findings = append(r.Findings, p.nameServer(ctx)...)
	if cfg.Redis != "" {
		r.Findings = append(r.Findings, p.redis(ctx)...)
	}
	return r
}

// Healthy reports whether nothing is low or bad.
func (r *Report) Healthy() bool {
	for _, f := range r.Findings {
		if f.Level == Low || f.Level == Bad {
			return false
		}
	}
	return true
}

// Text writes a table of all findings, and below it the advice for those that
// are not ok.
func (r *Report) Text(w io.Writer) error {
	var b strings.Builder
	width := 0
	for _, f := range r.Findings {
		width = max(width, len(f.About))
	}
	count := map[Level]int{}
	for _, f := range r.Findings {
		count[f.Level]++
		fmt.Fprintf(&b, "%-8s %-*s  %s\n", f.Level, width, f.About, f.Found)
	}
	for _, f := range r.Findings {
		if f.Level == OK || f.Why == "" {
			continue
		}
		fmt.Fprintf(&b, "\n%s: %s: %s", f.Level, f.About, f.Found)
		if f.Wanted != "" {
			fmt.Fprintf(&b, "; wanted: %s", f.Wanted)
		}
		b.WriteString("\n")
		if f.Why != "" {
			fmt.Fprintf(&b, "  %s\n", f.Why)
		}
		for _, line := range f.Mend {
			fmt.Fprintf(&b, "    %s\n", line)
		}
	}
	fmt.Fprintf(&b, "\n%d ok, %d low, %d bad, %d unknown\n", count[OK], count[Low], count[Bad], count[Unknown])
	_, err := io.WriteString(w, b.String())
	return err
}

// JSON writes the report as JSON.
func (r *Report) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false) // commands are full of > and &
	e.SetIndent("", " ")
	return e.Encode(r)
}
