//go:build !small

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"math"
	"net"
	"net/netip"
	"runtime/debug"
	"strconv"
	"time"

	"shuultuur/engine"
	"shuultuur/engine/configuration"
	"shuultuur/filter"
	"shuultuur/lib/setting"
	"shuultuur/resolver"
	"shuultuur/tool/load"
	"shuultuur/tool/replay"
	"shuultuur/whatif"
)

const replayHelp = `
Reads access logs (Squid's native log, common and combined logs, DansGuardian's
and e2guardian's, our own JSON lines, HAR), plain or gzip, "-" for standard
input; without FILE the record of events that -config names. Then it does one
of three things:

  shuultuur replay -proxy ADDR -origin ADDR [-speed 10|max] FILE...
    sends the log through the gateway at ADDR, with the gaps of the log or a
    speed-up. -origin starts the origin that answers for every host with bodies
    of the recorded size and type: let it be the gateway's parent. Without
    -origin only loopback and hosts of -allow are asked for. Without -proxy the
    log goes straight to the origin. All comes from this machine's address.

  shuultuur replay -offline -config NEW [-against OLD] FILE...
    says which verdicts NEW would change, without a network: compared with
    those of OLD, or with those that the log holds.

  shuultuur replay -stats FILE...
    counts requests, distinct URLs, hosts and bytes. Logs with more URLs than
    memory holds are sorted in the temporary folder.

  shuultuur replay pcap -rules FILE CAPTURE...
    tries signature rules on captures of packets; "replay pcap -h" says more.

Lines that cannot be read are counted and the first of them shown.`

// replayFlags are the flags of replay.
type replayFlags struct {
	source whatif.Source
	send   replay.SendConfig

	config, against, client, origin, speed string

	offline, stats, asJSON, gzip bool
	progress                     bool
	memory, examples             int
	nobody                       netip.Addr    // the parsed flag client
	old                          *whatif.Judge // replaces against
	outcome                      bool          // compare only whether requests are refused
	seconds                      float64
}

func replayCommand(ctx context.Context, e env, args []string) int {
	if len(args) > 0 && args[0] == "pcap" {
		return replayPcap(ctx, e, args[1:])
	}
	var r replayFlags
	f, parse := flags(e, "replay", "[flags] [FILE...]", replayHelp)
	r.define(f)
	if status := parse(args, 0, -1); status >= 0 {
		return status
	}
	r.source.Files, r.source.Stdin = f.Args(), e.stdin
	if err := r.check(f); err != nil {
		fmt.Fprintf(e.stderr, "shuultuur: %v\n", err)
		return 2
	}
	if err := r.run(ctx, e); err != nil {
		return fail(e, err)
	}
	return 0
}

func (r *replayFlags) define(f *flag.FlagSet) {
	f.StringVar(&r.source.Form, "format", "", "`form` of the log: squid, combined, dansguardian, adguardhome, dnsmasq (Pi-hole's too), unbound, blocky, nextdns, technitium, technitium-log, jsonl or har (default by its first lines)")
	f.StringVar(&r.source.Base, "base", "", "`URL` of the site, for logs that have paths only: http://www.example.com")
	f.BoolVar(&r.asJSON, "json", false, "print one JSON object")
	f.BoolVar(&r.progress, "progress", false, "report the progress every second (a terminal always gets a bar)")
	f.IntVar(&r.examples, "examples", 3, "list `N` requests of each change")

	f.StringVar(&r.send.Proxy, "proxy", "", "send to the gateway at `host:port`")
	f.StringVar(&r.origin, "origin", "", "start an origin for every host at `address`")
	f.BoolVar(&r.gzip, "gzip", false, "the origin compresses text")
	f.StringVar(&r.speed, "speed", "1", "`times` the speed of the log, or max")
	f.IntVar(&r.send.Parallel, "parallel", 100, "at most `N` requests in flight")
	f.Int64Var(&r.send.Requests, "requests", replay.DefaultRequests, "end after `N` requests sent")
	f.Float64Var(&r.seconds, "seconds", replay.DefaultDuration.Seconds(), "end after `N` seconds of sending")
	f.Func("allow", "`host` that may be requested although it is not loopback; may be repeated", func(s string) error {
		r.send.Allow = append(r.send.Allow, s)
		return nil
	})

	f.BoolVar(&r.offline, "offline", false, "show what -config would change, without a network")
	f.StringVar(&r.config, "config", "", "settings `file`: the new settings, or those that name the store of events")
	f.StringVar(&r.against, "against", "", "settings `file` to compare with (default: the verdicts in the log)")

	f.StringVar(&r.client, "client", "127.0.0.1", "`address` of the client where the log does not say it, for -offline")

	f.BoolVar(&r.stats, "stats", false, "summarise the log")
	f.IntVar(&r.memory, "memory", 64, "`MiB` that -stats may take")
}

// check returns an error if flags contradict each other.
func (r *replayFlags) check(f *flag.FlagSet) error {
	send := r.send.Proxy != "" || r.origin != ""
	switch {
	case r.offline && r.stats, r.offline && send, r.stats && send:
		return errors.New("only one of -offline, -stats and sending (-proxy, -origin) at a time")
	case !r.offline && !r.stats && !send:
		return errors.New("nothing to do with the log: -proxy sends it, -offline compares settings, -stats summarises it; see -h")
	case r.offline && r.config == "":
		return errors.New("-offline needs the new settings: -config NEW")
	case !r.offline && r.against != "":
		return errors.New("-against goes with -offline")
	case f.NArg() == 0 && r.config == "":
		return errors.New("no log: name a FILE, or settings whose events are to be read: -config")
	case r.memory < 1 || r.memory > 1<<20:
		return fmt.Errorf("-memory %d must be between 1 and 1048576 MiB", r.memory)
	case r.examples < 1 || r.examples > 1000:
		return fmt.Errorf("-examples %d must be between 1 and 1000", r.examples)
	case r.send.Parallel < 1 || r.send.Requests < 1:
		return errors.New("-parallel and -requests must be at least 1")
	case !(r.seconds > 0 && r.seconds <= load.MaxDuration.Seconds()):
		return fmt.Errorf("-seconds must be between 0 and %g", load.MaxDuration.Seconds())
	}
	var err error
	if r.nobody, err = setting.Client(r.client); err != nil {
		return fmt.Errorf("-client %q is not an address", r.client)
	}
	r.send.Duration = time.Duration(r.seconds * float64(time.Second))
	r.send.Examples = r.examples
	if r.speed == "max" {
		return nil
	}
	r.send.Speed, err = strconv.ParseFloat(r.speed, 64)
	if err != nil || r.send.Speed <= 0 || math.IsNaN(r.send.Speed) {
		return fmt.Errorf("-speed %q must be a number such as 1 or 10, or max", r.speed)
	}
	return nil
}

// A report is the result of each of the three subcommands.
type report interface {
	Text(io.Writer) error
	JSON(io.Writer) error
}

func (r *replayFlags) run(ctx context.Context, e env) error {
	entries, closeEntries, err := r.entries(ctx)
	if err != nil {
		return err
	}
	defer closeEntries()
	var x report
	switch {
	case r.stats:
		x, err = r.count(ctx, e, entries)
	case r.offline:
		x, err = r.whatIf(ctx, e, entries)
	default:
		x, err = r.sendAll(ctx, e, entries)
	}
	if err != nil {
		return err
	}
	write := x.Text
	if r.asJSON {
		write = x.JSON
	}
	in := r.source.Input()
	return errors.Join(write(e.stdout), in.CheckComplete())
}

// entries opens the files, or the record of the old settings, or that of the
// only ones.
func (r *replayFlags) entries(ctx context.Context) (iter.Seq2[whatif.Entry, error], func(), error) {
	if len(r.source.Files) > 0 {
		return r.source.Entries(ctx), func() {}, nil
	}
	config := r.config
	if r.against != "" {
		config = r.against
	}
	store, closeStore, err := configuration.Events(config)
	if err != nil {
		return nil, nil, err
	}
	// It was opened for reading, so closing it loses nothing.
	return r.source.Events(ctx, store, config), func() { _ = closeStore() }, nil
}

func (r *replayFlags) count(ctx context.Context, e env, entries iter.Seq2[whatif.Entry, error]) (report, error) {
	// Garbage may accumulate while the heap stays below the requested size. The
	// program cannot run with less than the second figure.
	debug.SetMemoryLimit(max(int64(r.memory)<<20, 32<<20))
	c, err := replay.NewCounter(r.memory<<20, "")
	if err != nil {
		return nil, err
	}
	var s *replay.Stats
	err = replay.Watched(e.stderr, r.progress, func() replay.Meter {
		n, merged, toMerge := c.Progress()
		done, total := r.source.Progress()
		if done == total && merged > 0 {
			return replay.Meter{Done: merged, Total: toMerge, Words: fmt.Sprintf("%d requests, merging", n)}
		}
		return replay.Meter{Done: done, Total: total, Words: fmt.Sprintf("%d requests", n)}
	}, func() error {
		s, err = c.Count(ctx, entries)
		return err
	})
	if err != nil {
		return nil, err
	}
	s.Input = r.source.Input()
	return s, nil
}

func (r *replayFlags) sendAll(ctx context.Context, e env, entries iter.Seq2[whatif.Entry, error]) (report, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if r.origin != "" {
		l, err := net.Listen("tcp", r.origin)
		if err != nil {
			return nil, fmt.Errorf("start the origin: %w", err)
		}
		o := replay.NewOrigin(l, r.gzip)
		served := make(chan error, 1)
		go func() { served <- o.Serve(ctx, l) }()
		defer func() {
			cancel()
			<-served // if the origin failed, the report shows it: nothing was answered
		}()
		r.send.Origin = o
		if r.send.Proxy == "" {
			r.send.Proxy = l.Addr().String()
		}
	}
	s, err := replay.New(r.send)
	if err != nil {
		return nil, err
	}
	var x *replay.SendReport
	start := time.Now()
	err = replay.Watched(e.stderr, r.progress, func() replay.Meter {
		sent, inFlight := s.Sent()
		done, total := r.source.Progress()
		rate := float64(sent) / max(0.001, time.Since(start).Seconds())
		return replay.Meter{Done: done, Total: total, Words: fmt.Sprintf("%d sent, %d in flight, %.4g/s", sent, inFlight, rate)}
	}, func() error {
		x, err = s.Run(ctx, entries)
		return err
	})
	if err != nil {
		return nil, err
	}
	x.Input = r.source.Input()
	return x, nil
}

func (r *replayFlags) whatIf(ctx context.Context, e env, entries iter.Seq2[whatif.Entry, error]) (report, error) {
	newer, asked, closeNew, err := judge(ctx, r.config, r.nobody)
	if err != nil {
		return nil, err
	}
	defer closeNew()
	w := &whatif.Comparison{New: newer, Old: r.old, Outcome: r.outcome, Examples: r.examples}
	if r.outcome {
		w.New.Refuses = refusals(asked)
	}
	if r.against != "" {
		older, _, closeOld, err := judge(ctx, r.against, r.nobody)
		if err != nil {
			return nil, err
		}
		defer closeOld()
		w.Old = &older
	}
	var x *whatif.Report
	err = replay.Watched(e.stderr, r.progress, func() replay.Meter {
		done, total := r.source.Progress()
		return replay.Meter{Done: done, Total: total, Words: fmt.Sprintf("%d judged", w.Progress())}
	}, func() error {
		x, err = w.Run(ctx, entries)
		return err
	})
	if err != nil {
		return nil, err
	}
	x.Input = r.source.Input()
	return x, nil
}

// refusals returns what the proxy of an engine refuses whatever the policy says: for where a request
// leads, or because its client has to sign in first.
func refusals(e *engine.Engine) func(t *filter.Transaction) error {
	return func(t *filter.Transaction) error {
		if err := e.Settings.Proxy.Reachable(t); err != nil || t.Proto == filter.DNS || t.Client.User != "" {
			return err
		}
		_, err := e.Identify(context.Background(), t.Client.Addr)
		return err
	}
}

// judge makes a judge from a settings file, with the engine that it asks. nobody is the address for
// entries of the log without a client.
func judge(ctx context.Context, config string, nobody netip.Addr) (whatif.Judge, *engine.Engine, func(), error) {
	engine, closeEngine, err := explain(ctx, config)
	if err != nil {
		return whatif.Judge{}, nil, nil, err
	}
	j := engine.Judge(config)
	if d := engine.Settings.DNS; d != nil {
		own, err := resolver.LocalNames(d.Names)
		if err != nil {
			closeEngine()
			return whatif.Judge{}, nil, nil, err
		}
		j.Decider = whatif.OwnNames{Decider: j.Decider, Own: own}
	}
	client := j.Client
	j.Client = func(ctx context.Context, e *whatif.Entry) filter.Client {
		if e.Client.IsValid() {
			return client(ctx, e)
		}
		x := *e
		x.Client = nobody
		return client(ctx, &x)
	}
	return j, engine, closeEngine, nil
}
