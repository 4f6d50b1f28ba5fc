//go:build !small

package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"shuultuur/check/signature"
	"shuultuur/check/signature/engine"
	"shuultuur/check/signature/lua"
	"shuultuur/check/signature/rule"
	"shuultuur/replay"
	"shuultuur/replay/capture"
)

const pcapHelp = `
Tries signature rules on captures (pcap and pcapng) and writes what it finds as
Suricata does: eve.json with alerts, messages, files, connections and anomalies,
and fast.log with a line for each alert. "-" as -eve or -fast is standard output.

  shuultuur replay pcap -rules emerging.rules.tar.gz -out logs FILE...`

// pcapFlags are the flags of replay pcap.
type pcapFlags struct {
	ruleFlags
	config    capture.Config
	eve, fast string
	out       string
	progress  bool
}

// ruleFlags select the rules.
type ruleFlags struct {
	rules, vars, ports        []string
	suricata, classes, limits string
}

func (r *ruleFlags) define(f *flag.FlagSet) {
	f.Func("rules", "rule `file`, tarball or folder; may be repeated", adds(&r.rules))
	f.StringVar(&r.classes, "classes", "", "classification.config `file`")
	f.StringVar(&r.limits, "threshold", "", "threshold.config `file`")
	r.defineGroups(f)
}

// defineGroups defines only the flags for address and port groups.
func (r *ruleFlags) defineGroups(f *flag.FlagSet) {
	f.Func("var", "address group `NAME=VALUE`, such as HOME_NET=[10.0.0.0/8]; may be repeated", adds(&r.vars))
	f.Func("port", "port group `NAME=VALUE`; may be repeated", adds(&r.ports))
	f.StringVar(&r.suricata, "suricata", "", "suricata.yaml `file` whose groups are used")
}

// adds returns the function for a flag that may be repeated.
func adds(list *[]string) func(string) error {
	return func(s string) error { *list = append(*list, s); return nil }
}

// groups returns the address and port groups. home is HOME_NET unless it is set.
func (r *ruleFlags) groups(home string) (vars, ports map[string]string, err error) {
	vars, ports = engine.Groups()
	vars["HOME_NET"] = home
	if r.suricata != "" {
		s, err := signature.ReadSuricata(r.suricata)
		if err != nil {
			return nil, nil, err
		}
		maps.Copy(vars, s.Vars)
		maps.Copy(ports, s.Ports)
	}
	for _, s := range []struct {
		list []string
		to   map[string]string
	}{{r.vars, vars}, {r.ports, ports}} {
		for _, x := range s.list {
			name, value, ok := strings.Cut(x, "=")
			if !ok {
				return nil, nil, fmt.Errorf("%q is not NAME=VALUE", x)
			}
			s.to[strings.TrimPrefix(name, "$")] = value
		}
	}
	return vars, ports, nil
}

// compile reads the rules. Mistakes go to w.
func (r *ruleFlags) compile(home string, c engine.Config, w io.Writer) (*engine.Engine, error) {
	if len(r.rules) == 0 {
		return nil, errors.New("no rules: name them with -rules FILE")
	}
	parser := rule.NewParser()
	if r.suricata != "" {
		s, err := signature.ReadSuricata(r.suricata)
		if err != nil {
			return nil, err
		}
		for _, name := range s.Off {
			delete(parser.Features, name)
		}
	}
	rules, mistakes, err := parser.ReadFiles(r.rules...)
	if err != nil {
		return nil, err
	}
	c.Rules, _ = rule.Unique(rules)
	c.Beside = parser.Beside
	if c.Vars, c.Ports, err = r.groups(home); err != nil {
		return nil, err
	}
	c.Classes = engine.Classes()
	if r.classes != "" {
		data, err := os.ReadFile(r.classes)
		if err == nil {
			var more map[string]*engine.Class
			more, err = engine.ReadClasses(r.classes, bytes.NewReader(data))
			maps.Copy(c.Classes, more)
		}
		if err != nil {
			return nil, err
		}
	}
	if r.limits != "" {
		data, err := os.ReadFile(r.limits)
		if err == nil {
			c.Limits, err = engine.ReadLimits(r.limits, bytes.NewReader(data))
		}
		if err != nil {
			return nil, err
		}
	}
	c.Scripts = lua.NewPool(lua.Limits{}).Load
	e, more, err := engine.New(c)
	if err != nil {
		return nil, err
	}
	for _, m := range slices.Concat(mistakes, more) {
		fmt.Fprintln(w, m)
	}
	return e, nil
}

// privateNets is Suricata's HOME_NET.
const privateNets = "[192.168.0.0/16,10.0.0.0/8,172.16.0.0/12]"

func replayPcap(ctx context.Context, e env, args []string) int {
	var p pcapFlags
	f, parse := flags(e, "replay pcap", "[flags] FILE...", pcapHelp)
	p.define(f)
	f.StringVar(&p.out, "out", "", "`folder` for eve.json and fast.log")
	f.StringVar(&p.eve, "eve", "", "`file` for records as JSON lines")
	f.StringVar(&p.fast, "fast", "", "`file` for alerts as lines of text (default standard output when no other is named)")
	f.BoolVar(&p.progress, "progress", false, "report the progress every second (a terminal always gets a bar)")
	captureFlags(f, &p.config)
	if status := parse(args, 0, -1); status >= 0 {
		return status
	}
	if p.config.Urgent != "oob" && p.config.Urgent != "inline" {
		fmt.Fprintf(e.stderr, "shuultuur: -urgent %s: it is oob or inline\n", p.config.Urgent)
		return 2
	}
	if f.NArg() == 0 {
		fmt.Fprintln(e.stderr, "shuultuur: no capture: name a FILE")
		return 2
	}
	if err := p.run(ctx, e, f.Args()); err != nil {
		return fail(e, err)
	}
	return 0
}

// captureFlags defines the flags for reading captures.
func captureFlags(f *flag.FlagSet, c *capture.Config) {
	f.BoolVar(&c.Midstream, "midstream", false, "follow connections whose beginning is missing")
	f.BoolVar(&c.Async, "async", false, "follow connections of which one side is missing")
	f.BoolVar(&c.Inline, "inline", false, "inspect segments as they arrive, not when they are acknowledged")
	f.BoolVar(&c.Prevent, "prevent", false, "apply drop and pass to the whole connection")
	f.BoolVar(&c.Checksums, "checksums", false, "pass over TCP segments with a wrong checksum (captures of the sending machine often have them)")
	f.StringVar(&c.Urgent, "urgent", "oob", "urgent bytes: `POLICY` oob takes them out of the stream, inline leaves them")
	f.IntVar(&c.Layers, "layers", 2, "decode at most `N` content codings of a body")
	f.IntVar(&c.Request, "request-body", 100<<10, "inspect `N` bytes of a request body")
	f.IntVar(&c.Response, "response-body", 100<<10, "inspect `N` bytes of a response body")
}

// worthCores is the size in bytes from which captures are read by several
// cores.
const worthCores = 16 << 20

// run reads the captures.
func (p *pcapFlags) run(ctx context.Context, e env, files []string) (err error) {
	en, err := p.compile(privateNets, engine.Config{Packets: true, Prevent: p.config.Prevent}, e.stderr)
	if err != nil {
		return err
	}
	if p.out != "" {
		if err := os.MkdirAll(p.out, 0o755); err != nil {
			return err
		}
		p.eve, p.fast = filepath.Join(p.out, "eve.json"), filepath.Join(p.out, "fast.log")
	}
	if p.eve == "" && p.fast == "" {
		p.fast = "-"
	}
	var sinks [2]io.Writer
	for i, name := range []string{p.eve, p.fast} {
		switch name {
		case "":
		case "-":
			sinks[i] = e.stdout
		default:
			f, err := os.Create(name)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, f.Close()) }()
			sinks[i] = f
		}
	}
	out := capture.NewOutput(sinks[0], sinks[1])
	if p.suricata != "" {
		s, err := signature.ReadSuricata(p.suricata)
		if err != nil {
			return err
		}
		out.Short = s.Short
	}
	var total int64
	for _, name := range files {
		info, err := os.Stat(name)
		if err != nil {
			return err
		}
		total += info.Size()
	}
	if total >= worthCores {
		p.config.Cores = runtime.GOMAXPROCS(0)
	}
	run := capture.New(p.config, en, out)
	read := func() error {
		for _, name := range files {
			if err := run.File(ctx, name); err != nil {
				return err
			}
		}
		return run.Close()
	}
	w := replayFlags{progress: p.progress}
	if err := w.watched(e, func() replay.Meter { return replay.Meter{Done: run.Read(), Total: total} }, read); err != nil {
		return err
	}
	s := run.Stats()
	fmt.Fprintf(e.stderr, "%d packets (%d broken), %d connections, %d bytes of payload, %d rules, %d alerts\n",
		s.Packets(), s.Broken(), s.Flows(), s.Payload(), en.Rules(), s.Alerts())
	return errors.Join(en.State().Save(), err)
}
