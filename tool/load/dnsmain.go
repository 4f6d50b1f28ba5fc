package load

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"
)

const dnsHelp = `
Asks SERVER: host[:port] for UDP, tcp://host[:port], tls://host[:port] (DNS over
TLS) or https://host[:port]/dns-query (DNS over HTTPS). FILE has a name and a type
on each line. Without -count and -seconds a run takes 10 seconds.`

// dnsFlags are the flags of load dns that do not correspond to fields of DNSConfig.
type dnsFlags struct {
	cfg                      DNSConfig
	seconds, timeout         float64
	random, typ, ca, js, web string
	progress                 bool
}

func (f *dnsFlags) set(fs *flag.FlagSet) {
	c := &f.cfg
	fs.IntVar(&c.Window, "window", 0, fmt.Sprintf("keep `N` queries without an answer (%d if -rate is not given)", defaultWindow))
	fs.Float64Var(&c.Rate, "rate", 0, "open loop: send `N` queries per second, whether answered or not")
	fs.IntVar(&c.Sockets, "sockets", 0, fmt.Sprintf("send from `N` sockets (%d)", defaultSockets))
	fs.Int64Var(&c.Count, "count", 0, "end after `N` queries")
	fs.Float64Var(&f.seconds, "seconds", 0, "end after `N` seconds (10 if -count is not given either)")
	fs.Float64Var(&f.timeout, "timeout", 5, "a query without an answer is lost after `N` seconds")
	fs.StringVar(&f.random, "random", "", "ask for random names under `zone`")
	fs.StringVar(&f.typ, "type", "A", "`type` of -random names")
	fs.Uint64Var(&c.Seed, "seed", 1, "same seed `N`, same random names")
	fs.StringVar(&f.ca, "ca", "", "trust the certificates in this PEM `file`")
	fs.Var((*words)(&c.Allow), "allow", "allow this `host` though it is not loopback; may be repeated")
	fs.BoolVar(&f.progress, "progress", false, "report the progress every second")
	fs.StringVar(&f.js, "json", "", "write the report as JSON to `file` (- for stdout, in place of the text)")
	fs.StringVar(&f.web, "html", "", "write the report with plots to `file`")
}

func dnsCommand(fs *flag.FlagSet) func(context.Context, []string, io.Writer, io.Writer) error {
	var f dnsFlags
	f.set(fs)
	return f.run
}

func (f *dnsFlags) run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if err := f.finish(args, stderr); err != nil {
		return err
	}
	// The open loop sleeps in a system call, which blocks one of Go's processors; answers must
	// not wait for it.
	runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0)))
	g, err := NewDNS(f.cfg)
	if err != nil {
		return err
	}
	r, err := g.Run(ctx)
	if err != nil {
		return err
	}
	if f.web != "" {
		if err := toFile(f.web, r.HTML); err != nil {
			return err
		}
	}
	switch f.js {
	case "-":
		return r.JSON(stdout)
	case "":
	default:
		if err := toFile(f.js, r.JSON); err != nil {
			return err
		}
	}
	return r.Text(stdout)
}

// finish converts flags to DNSConfig.
func (f *dnsFlags) finish(args []string, stderr io.Writer) error {
	c := &f.cfg
	if f.seconds < 0 || f.timeout <= 0 || f.seconds > MaxDuration.Seconds() || f.timeout > time.Hour.Seconds() {
		return fmt.Errorf("seconds must be between 0 and %g, timeout between 0 and %g", MaxDuration.Seconds(), time.Hour.Seconds())
	}
	c.Server = args[0]
	c.Duration = time.Duration(f.seconds * float64(time.Second))
	c.Timeout = time.Duration(f.timeout * float64(time.Second))
	if c.Duration == 0 && c.Count == 0 {
		c.Duration = 10 * time.Second
	}
	if c.Window == 0 && c.Rate == 0 {
		c.Window = defaultWindow
	}
	if f.progress {
		c.Progress = stderr
	}
	var err error
	if c.Roots, err = readRoots(f.ca); err != nil {
		return err
	}
	return f.queries(args[1:])
}

// queries reads the queries.
func (f *dnsFlags) queries(args []string) (err error) {
	c := &f.cfg
	switch {
	case f.random != "" && len(args) > 0:
		return fmt.Errorf("either -random or a query file, not %q too", args[0])
	case f.random != "":
		c.Random = true
		c.Queries, err = RandomQueries(f.random, f.typ)
		return err
	case len(args) != 1:
		return errors.New("no queries: give a file with a name and a type on each line, or -random ZONE")
	}
	file, err := os.Open(args[0])
	if err != nil {
		return fmt.Errorf("read queries: %w", err)
	}
	defer file.Close()
	c.Queries, err = ReadQueries(file, args[0])
	return err
}
