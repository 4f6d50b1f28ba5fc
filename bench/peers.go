package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A peer is one subject of a benchmark.
type peer struct {
	name    string
	filters bool   // inspects the pages; verified to block
	learns  bool   // remembers its verdicts
	looks   bool   // can decrypt TLS
	program string // must be installed; "" for none
	version []string
	begin   func(r *peerRig, p *peer) error
	state   string // shuultuur's settings, "" for the usual ones
	limits  string
	rules   string // file of signature rules for ours, "" for none
	scanner string // host:port of a clamd for ours that sees no pages, "" for none
	built   string // program of ours, "" to build it from this checkout

	// Set by begin.
	proc  *process
	proxy string // host:port; "" for none (direct)
	admin string // shuultuur's admin address
	relay string // host:port that forwards to the origin, instead of a tunnel
	// bridge is the address, as a URL without a path, where the peer ends TLS and begins it
	// anew towards the origin, instead of looking into tunnels.
	bridge string
	about  string // version
}

// limit is the score above which both filters block. The shipped limit of 50 would do for most
// pages. This one lets all real pages pass, because a blocked page is not sent.
const limit = "1000"

const guardianFolder = "/etc/e2guardian"

func peers() []peer {
	return []peer{
		{name: "direct", looks: true, begin: func(*peerRig, *peer) error { return nil }},
		{name: "shuultuur", filters: true, looks: true, begin: (*peerRig).beginShuultuur},
		{name: "shuultuur-before", filters: true, looks: true, begin: (*peerRig).beginBefore},
		{name: "shuultuur-learn", filters: true, learns: true, begin: (*peerRig).beginLearn},
		{name: "shuultuur-rules", filters: true, begin: (*peerRig).beginRules},
		{name: "shuultuur-compat", filters: true, begin: (*peerRig).beginCompat},
		{name: "e2guardian", filters: true, looks: true, program: "e2guardian", version: []string{"-v"}, begin: (*peerRig).beginGuardian},
		{name: "squid", looks: true, program: "squid", version: []string{"-v"}, begin: (*peerRig).beginSquid},
		{name: "privoxy", program: "privoxy", version: []string{"--version"}, begin: (*peerRig).beginPrivoxy},
		{name: "haproxy", looks: true, program: "haproxy", version: []string{"-v"}, begin: (*peerRig).beginHaproxy},
	}
}

func peerNames() []string {
	var names []string
	for _, p := range peers() {
		names = append(names, p.name)
	}
	return names
}

// usualPeers returns the names of those that are measured unless others are asked for: an older
// program of ours only if there is one.
func usualPeers() []string {
	return slices.DeleteFunc(peerNames(), func(name string) bool { return name == subject+"-before" && os.Getenv("BEFORE") == "" })
}

// errMissing reports that a peer cannot take part, and why.
var errMissing = errors.New("left out")

// startPeers starts the wanted peers. Those that are not installed are listed in missing.
func (r *peerRig) startPeers(wanted []string) (started []*peer, missing []string, err error) {
	for _, name := range wanted {
		if !slices.Contains(peerNames(), name) {
			return nil, nil, fmt.Errorf("peer %q is not one of %s", name, strings.Join(peerNames(), ", "))
		}
	}
	for _, p := range peers() {
		if !slices.Contains(wanted, p.name) {
			missing = append(missing, p.name+": left out, not asked for")
			continue
		}
		if r.certs != nil && !p.looks {
			missing = append(missing, p.name+": left out, it does not look into TLS here")
			continue
		}
		if p.program != "" {
			path, err := find(p.program)
			if err != nil {
				missing = append(missing, p.name+": left out, "+err.Error())
				continue
			}
			p.about = versionOf(path, p.version)
		}
		fmt.Fprintf(os.Stderr, "start %s\n", p.name)
		err := p.begin(r, &p)
		if errors.Is(err, errMissing) {
			missing = append(missing, p.name+": "+err.Error())
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		started = append(started, &p)
	}
	return started, missing, nil
}

// leftOut formats a line for each requested peer that is missing.
func leftOut(missing []string) string {
	var b strings.Builder
	for _, n := range missing {
		if !strings.HasSuffix(n, "not asked for") {
			fmt.Fprintf(&b, "* %s\n", n)
		}
	}
	return b.String()
}

// versionOf returns the first text like a version number in a program's output.
func versionOf(path string, args []string) string {
	// Some programs exit with an error after -v but print the number.
	out, _ := exec.Command(path, args...).CombinedOutput()
	if v := regexp.MustCompile(`\d+\.\d+(\.\d+)*`).FindString(string(out)); v != "" {
		return v
	}
	return "version unknown"
}

func (r *peerRig) beginSquid(p *peer) error { return r.beginSquidWith(p, "") }

// beginSquidWith starts Squid with additional settings.
func (r *peerRig) beginSquidWith(p *peer, lines string) error {
	addr, err := freeAddr()
	if err != nil {
		return err
	}
	dir, err := r.folder(p.name)
	if err != nil {
		return err
	}
	bump := ""
	if r.certs != nil {
		if bump, lines, err = r.bump(dir); err != nil {
			return err
		}
	}
	p.proxy = addr
	p.proc, err = r.start(proxyCore, p.name, addr, []string{"squid", "-N", "-f", "FILE"}, expand(`http_port ADDRBUMP
visible_hostname localhost
http_access allow all
cache deny all
cache_mem 8 MB
buffered_logs on
access_log stdio:DIR/access.log
cache_log DIR/cache.log
cache_store_log none
netdb_filename none
pinger_enable off
pid_filename DIR/squid.pid
coredump_dir DIR
max_filedescriptors 16384
shutdown_lifetime 0 seconds
LINES`, "ADDR", addr, "BUMP", bump, "LINES", lines, "DIR", dir))
	return err
}

// beginHaproxy starts a proxy of one origin. With TLS it is a bridge: what it decrypts of a
// client, it encrypts for the origin.
func (r *peerRig) beginHaproxy(p *peer) error {
	addr, err := freeAddr()
	if err != nil {
		return err
	}
	listen, origin := addr, r.origin
	if r.certs != nil {
		both, err := r.certs.together(r.dir)
		if err != nil {
			return err
		}
		p.bridge = "https://" + addr
		listen += " ssl crt " + both + " alpn h2,http/1.1"
		origin += " ssl verify required ca-file " + r.certs.origin + " sni str(localhost)"
	} else {
		p.proxy = addr
	}
	if p.relay, err = freeAddr(); err != nil {
		return err
	}
	p.proc, err = r.start(proxyCore, "haproxy", addr, []string{"haproxy", "-db", "-f", "FILE"}, expand(`global
  nbthread 1
  maxconn 9900
defaults
  mode http
  timeout connect 5s
  timeout client 300s
  timeout server 300s
  http-reuse always
frontend http
  bind LISTEN
  default_backend origin
backend origin
  server nginx ORIGIN
frontend relay
  mode tcp
  bind RELAY
  default_backend bytes
backend bytes
  mode tcp
  server nginx PLAIN
`, "LISTEN", listen, "RELAY", p.relay, "ORIGIN", origin, "PLAIN", r.origin))
	return err
}

// beginPrivoxy uses the shipped settings with another address and log.
func (r *peerRig) beginPrivoxy(p *peer) error {
	shipped, err := os.ReadFile("/etc/privoxy/config")
	if err != nil {
		return fmt.Errorf("%w: %w", errMissing, err)
	}
	addr, err := freeAddr()
	if err != nil {
		return err
	}
	dir, err := r.folder("privoxy")
	if err != nil {
		return err
	}
	var conf strings.Builder
	// Put these first, because the rest names files relative to them.
	fmt.Fprintf(&conf, "confdir /etc/privoxy\nlogdir %s\nlisten-address %s\n", dir, addr)
	for line := range strings.Lines(string(shipped)) {
		switch word, _, _ := strings.Cut(strings.TrimSpace(line), " "); word {
		case "listen-address", "logdir", "confdir":
		default:
			conf.WriteString(line)
		}
	}
	p.proxy = addr
	p.proc, err = r.start(proxyCore, "privoxy", addr, []string{"privoxy", "--no-daemon", "FILE"}, conf.String())
	return err
}

// beginGuardian uses the shipped settings and lists with another address, log, user and limit.
func (r *peerRig) beginGuardian(p *peer) error { return r.beginGuardianWith(p, nil) }

// beginGuardianWith starts it with additional settings in the main file.
func (r *peerRig) beginGuardianWith(p *peer, more map[string]string) error {
	addr, err := freeAddr()
	if err != nil {
		return err
	}
	dir, err := r.folder("e2guardian")
	if err != nil {
		return err
	}
	_, port, _ := strings.Cut(addr, ":")
	// The shipped port is fixed and may be in use.
	transparent, err := freeAddr()
	if err != nil {
		return err
	}
	_, transparentPort, _ := strings.Cut(transparent, ":")
	inGroup, inMain := map[string]string{"naughtynesslimit": limit}, map[string]string{}
	if r.certs != nil {
		if inMain, err = r.guardianTLS(); err != nil {
			return err
		}
		// Verifying the origin's certificate would be additional work.
		inGroup["sslmitm"], inGroup["mitmcheckcert"] = "on", "off"
	}
	group, err := guardianSettings("e2guardianf1.conf", inGroup)
	if err != nil {
		return err
	}
	// e2guardian expects the group's file beside the main one.
	if err := os.WriteFile(filepath.Join(dir, "e2guardianf1.conf"), []byte(group), 0o644); err != nil {
		return err
	}
	maps.Copy(inMain, map[string]string{
		"filterip": "127.0.0.1", "filterports": port, "checkip": "127.0.0.1", "transparenthttpsport": transparentPort, "nodaemon": "on",
		"loglocation": "'" + dir + "/access.log'", "pidfilename": "'" + dir + "/pid'", "ipcfilename": "'" + dir + "/ipc'", "urlipcfilename": "'" + dir + "/urlipc'",
		"filtergroupsdir": "'" + dir + "'", "statlocation": "'" + dir + "/stats'",
	})
	maps.Copy(inMain, more)
	conf, err := guardianSettings("e2guardian.conf", inMain)
	if err != nil {
		return err
	}
	p.proxy = addr
	p.proc, err = r.start(proxyCore, "e2guardian", addr, []string{"e2guardian", "-N", "-c", "FILE"}, conf)
	return err
}

// guardianTLS returns the settings with which e2guardian makes certificates.
func (r *peerRig) guardianTLS() (map[string]string, error) {
	generated, err := r.folder("generated")
	return map[string]string{
		"enablessl": "on", "cacertificatepath": "'" + r.certs.ca + "'", "caprivatekeypath": "'" + r.certs.key + "'",
		"certprivatekeypath": "'" + r.certs.leafKey + "'", "generatedcertpath": "'" + generated + "/'",
		// The shipped validity began in 2014 and has ended.
		"generatedcertstart": strconv.FormatInt(time.Now().Add(-24*time.Hour).Unix(), 10),
	}, err
}

// guardianSettings returns a shipped file with some keys replaced.
func guardianSettings(name string, set map[string]string) (string, error) {
	shipped, err := os.ReadFile(filepath.Join(guardianFolder, name))
	if err != nil {
		return "", fmt.Errorf("%w: %w", errMissing, err)
	}
	var out strings.Builder
	for line := range strings.Lines(string(shipped)) {
		key, _, _ := strings.Cut(line, "=")
		if _, ours := set[strings.TrimSpace(key)]; !ours {
			out.WriteString(line)
		}
	}
	for key, value := range set {
		fmt.Fprintf(&out, "\n%s = %s", key, value)
	}
	return out.String() + "\n", nil
}
