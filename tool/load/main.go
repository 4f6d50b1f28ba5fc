package load

import (
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"
	"time"
)

// A Command is one subcommand of "shuultuur load".
type Command struct {
	Name, Args, What string
	Least, Most      int  // other arguments; -1 for any number
	Abbreviated      bool // flags may be abbreviated as in http_load, see Expand
	// Flags declares the flags and returns a function that runs the command with the other
	// arguments. A completed run is not an error, whatever it measured.
	Flags func(*flag.FlagSet) func(ctx context.Context, args []string, stdout, stderr io.Writer) error
}

// Commands returns all commands.
func Commands() []Command {
	return []Command{
		{Name: "http", Args: "-parallel N | -rate N [-jitter] | -batch N  -fetches N | -seconds N  FILE|URL...", Least: 1, Most: -1, Abbreviated: true, What: httpHelp, Flags: httpCommand},
		{Name: "dns", Args: "-window N | -rate N  [-count N] [-seconds N]  SERVER FILE | -random ZONE SERVER", Least: 1, Most: 2, What: dnsHelp, Flags: dnsCommand},
		{Name: "votes", Args: "[-parallel N] [-count N] [-seconds N] [-verify URL] URL", Least: 1, Most: 1, What: votesHelp, Flags: votesCommand},
		{Name: "origin", Args: "[flags]", What: originHelp, Flags: originCommand},
		{Name: "compare", Args: "A.json B.json", Least: 2, Most: 2, What: "Compares two reports that -json wrote.", Flags: func(*flag.FlagSet) func(context.Context, []string, io.Writer, io.Writer) error {
			return compareReports
		}},
	}
}

const httpHelp = `
Fetches URLs, those of a FILE with one on each line or those that are given. It
needs one of -parallel, -rate and -batch, and ends after -fetches or -seconds (10
seconds if neither is given). Flags may be abbreviated as in http_load.`

// httpLoadFlags are the flags of http_load, in the order in which it compares prefixes: -p is
// -parallel because that comes before -proxy.
var httpLoadFlags = [...]string{"checksum", "throttle", "Throttle", "verbose", "timeout", "jitter", "parallel", "rate", "fetches", "seconds", "sip", "cipher", "proxy"}

// Expand expands abbreviated flags as http_load does: whole names first, then in http_load's
// order, then our own flags if only one matches.
func Expand(fs *flag.FlagSet, args []string) ([]string, error) {
	var out []string
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			return append(out, args[i:]...), nil
		}
		if len(arg) < 2 || arg[0] != '-' {
			out = append(out, arg)
			continue
		}
		name, value, has := strings.Cut(strings.TrimPrefix(arg[1:], "-"), "=")
		full, err := fullName(fs, name)
		if err != nil {
			return nil, err
		}
		if full == "" { // -h, or unknown: package flag reports it
			out = append(out, arg)
			continue
		}
		if has {
			out = append(out, "-"+full+"="+value)
			continue
		}
		out = append(out, "-"+full)
		b, ok := fs.Lookup(full).Value.(interface{ IsBoolFlag() bool })
		if (!ok || !b.IsBoolFlag()) && i+1 < len(args) {
			i++
			out = append(out, args[i])
		}
	}
	return out, nil
}

func fullName(fs *flag.FlagSet, name string) (string, error) {
	if name == "h" || name == "help" || name == "" {
		return "", nil
	}
	if fs.Lookup(name) != nil {
		return name, nil
	}
	for _, f := range httpLoadFlags {
		if strings.HasPrefix(f, name) {
			return f, nil
		}
	}
	var fits []string
	fs.VisitAll(func(f *flag.Flag) {
		if strings.HasPrefix(f.Name, name) {
			fits = append(fits, f.Name)
		}
	})
	switch len(fits) {
	case 0:
		return "", nil
	case 1:
		return fits[0], nil
	}
	return "", fmt.Errorf("flag -%s could be -%s", name, strings.Join(fits, " or -"))
}

// httpFlags are the flags of load http that do not correspond to fields of Config.
type httpFlags struct {
	cfg                              Config
	seconds, timeout                 float64
	slow, verbose, progress, classic bool
	sip, cipher, ca, json, html      string
}

func (f *httpFlags) set(fs *flag.FlagSet) {
	c := &f.cfg
	fs.IntVar(&c.Parallel, "parallel", 0, "closed loop: keep `N` fetches in flight")
	fs.Float64Var(&c.Rate, "rate", 0, "open loop: start `N` fetches per second, whether answered or not")
	fs.BoolVar(&c.Jitter, "jitter", false, "open loop: vary each gap by ±10 %")
	fs.IntVar(&c.InFlight, "inflight", defaultInFlight, "open loop: at most `N` fetches in flight")
	fs.IntVar(&c.Batch, "batch", 0, "start `N` fetches at once, wait for all, repeat")
	fs.Int64Var(&c.Fetches, "fetches", 0, "end after `N` fetches")
	fs.Float64Var(&f.seconds, "seconds", 0, "end after `N` seconds (10 if -fetches is not given either)")
	fs.Float64Var(&f.timeout, "timeout", 60, "give up after `N` seconds without a byte")
	fs.StringVar(&c.Order, "order", "random", "choose URLs by `random|order|zipf`")
	fs.Float64Var(&c.Zipf, "exponent", 1, "exponent `S` for -order zipf; the first URL is the most wanted")
	fs.Uint64Var(&c.Seed, "seed", 1, "same seed `N`, same sequence of URLs")
	fs.StringVar(&c.Proxy, "proxy", "", "send through the proxy at `host[:port]` (port 80)")
	fs.BoolVar(&c.Tunnel, "tunnel", false, "use CONNECT for http:// too, not the absolute form")
	fs.StringVar(&f.ca, "ca", "", "trust the certificates in this PEM `file` for https://")
	fs.BoolVar(&c.KeepAlive, "keepalive", false, "keep connections; else a new one for each fetch")
	fs.BoolVar(&c.HTTP2, "http2", false, "HTTP/2: h2 over TLS, prior knowledge over http://")
	fs.Var((*words)(&c.Header), "header", "add this `\"Name: value\"` to each request; may be repeated")
	fs.Var((*words)(&c.Allow), "allow", "allow this `host` though it is not loopback; may be repeated")
	fs.BoolVar(&c.Checksum, "checksum", false, "compare a hash of each body with the first of its URL")
	fs.BoolVar(&f.slow, "throttle", false, "read at 33.6 kbit/s, as a modem")
	fs.IntVar(&c.Throttle, "Throttle", 0, "read at `N` bytes/s")
	fs.StringVar(&f.sip, "sip", "", "`file` with local addresses to send from, one per line")
	fs.StringVar(&f.cipher, "cipher", "", "TLS 1.2 cipher suites by `name`, separated by colons")
	fs.BoolVar(&f.verbose, "verbose", false, "report the progress every 60 s")
	fs.BoolVar(&f.progress, "progress", false, "report the progress every second")
	fs.BoolVar(&f.classic, "classic", false, "print http_load's report only")
	fs.StringVar(&f.json, "json", "", "write the report as JSON to `file` (- for stdout, in place of the text)")
	fs.StringVar(&f.html, "html", "", "write the report with plots to `file`")
}

func httpCommand(fs *flag.FlagSet) func(context.Context, []string, io.Writer, io.Writer) error {
	var f httpFlags
	f.set(fs)
	return f.run
}

func (f *httpFlags) run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if err := f.finish(args, stderr); err != nil {
		return err
	}
	g, err := New(f.cfg)
	if err != nil {
		return err
	}
	r, err := g.Run(ctx)
	if err != nil {
		return err
	}
	return f.write(r, stdout)
}

// finish converts flags to Config.
func (f *httpFlags) finish(args []string, stderr io.Writer) error {
	c := &f.cfg
	if f.seconds < 0 || f.timeout <= 0 || f.seconds > MaxDuration.Seconds() || f.timeout > MaxDuration.Seconds() {
		return fmt.Errorf("seconds and timeout must be between 0 and %g", MaxDuration.Seconds())
	}
	c.Duration = time.Duration(f.seconds * float64(time.Second))
	c.Timeout = time.Duration(f.timeout * float64(time.Second))
	if c.Duration == 0 && c.Fetches == 0 {
		c.Duration = 10 * time.Second
	}
	if f.slow {
		c.Throttle = 33600 / 8
	}
	c.Complaints = stderr
	if f.verbose {
		c.Progress = Progress{To: stderr, Every: time.Minute}
	}
	if f.progress {
		c.Progress = Progress{To: stderr, Every: time.Second}
	}
	if err := f.files(args); err != nil {
		return err
	}
	return f.ciphers()
}

// files reads the files that the flags name: URLs, certificates, source addresses.
func (f *httpFlags) files(args []string) error {
	for _, arg := range args {
		if strings.HasPrefix(arg, "http://") || strings.HasPrefix(arg, "https://") {
			f.cfg.URLs = append(f.cfg.URLs, arg)
			continue
		}
		file, err := os.Open(arg)
		if err != nil {
			return fmt.Errorf("reading URLs: %w", err)
		}
		urls, err := ReadURLs(file, arg)
		file.Close()
		if err != nil {
			return err
		}
		f.cfg.URLs = append(f.cfg.URLs, urls...)
	}
	var err error
	if f.cfg.Roots, err = readRoots(f.ca); err != nil {
		return err
	}
	if f.sip == "" {
		return nil
	}
	text, err := os.ReadFile(f.sip)
	if err != nil {
		return fmt.Errorf("reading source addresses: %w", err)
	}
	for i, line := range strings.Split(string(text), "\n") {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		addr, err := netip.ParseAddr(line)
		if err != nil {
			return fmt.Errorf("%s:%d: %q is not an IP address", f.sip, i+1, line)
		}
		f.cfg.Sources = append(f.cfg.Sources, addr)
	}
	return nil
}

func (f *httpFlags) ciphers() error {
	if f.cipher == "" {
		return nil
	}
	known := map[string]uint16{}
	for _, s := range append(tls.CipherSuites(), tls.InsecureCipherSuites()...) {
		known[s.Name] = s.ID
	}
	for name := range strings.SplitSeq(f.cipher, ":") {
		id, ok := known[name]
		if !ok {
			return fmt.Errorf("cipher %q is unknown; names look like TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", name)
		}
		f.cfg.Ciphers = append(f.cfg.Ciphers, id)
	}
	return nil
}

func (f *httpFlags) write(r *Report, stdout io.Writer) error {
	if f.html != "" {
		if err := toFile(f.html, r.HTML); err != nil {
			return err
		}
	}
	switch f.json {
	case "-":
		return r.JSON(stdout)
	case "":
	default:
		if err := toFile(f.json, r.JSON); err != nil {
			return err
		}
	}
	if f.classic {
		return r.HTTPLoad(stdout)
	}
	return r.Text(stdout)
}

func compareReports(_ context.Context, args []string, stdout, _ io.Writer) error {
	var reports [2]*Report
	for i, name := range args {
		file, err := os.Open(name)
		if err != nil {
			return fmt.Errorf("read report: %w", err)
		}
		reports[i], err = ReadReport(file, name)
		file.Close()
		if err != nil {
			return err
		}
	}
	return Compare(stdout, args[0], reports[0], args[1], reports[1])
}
