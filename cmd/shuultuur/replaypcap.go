//go:build !small

package main

import (
	"context"
	"flag"
	"fmt"

	"shuultuur/cmd/shuultuur/arguments"
	"shuultuur/tool/capture"
	"shuultuur/tool/rules"
)

const pcapHelp = `
Tries signature rules on captures (pcap and pcapng) and writes what it finds as
Suricata does: eve.json with alerts, messages, files, connections and anomalies,
and fast.log with a line for each alert. "-" as -eve or -fast is standard output.

  shuultuur replay pcap -rules emerging.rules.tar.gz -out logs FILE...`

// ruleFlags defines the flags that select rules.
func ruleFlags(f *flag.FlagSet, s *rules.Set) {
	f.Func("rules", "rule `file`, tarball or folder; may be repeated", arguments.Add(&s.Files))
	f.StringVar(&s.Classes, "classes", "", "classification.config `file`")
	f.StringVar(&s.Limits, "threshold", "", "threshold.config `file`")
	groupFlags(f, s)
}

// groupFlags defines only the flags for address and port groups.
func groupFlags(f *flag.FlagSet, s *rules.Set) {
	f.Func("var", "address group `NAME=VALUE`, such as HOME_NET=[10.0.0.0/8]; may be repeated", arguments.Add(&s.Vars))
	f.Func("port", "port group `NAME=VALUE`; may be repeated", arguments.Add(&s.Ports))
	f.StringVar(&s.Suricata, "suricata", "", "suricata.yaml `file` whose groups are used")
}

func replayPcap(ctx context.Context, e env, args []string) int {
	p := rules.Replay{Stdout: e.stdout, Stderr: e.stderr}
	f, parse := flags(e, "replay pcap", "[flags] FILE...", pcapHelp)
	ruleFlags(f, &p.Set)
	f.StringVar(&p.Out, "out", "", "`folder` for eve.json, fast.log and the datasets that rules save")
	f.StringVar(&p.Eve, "eve", "", "`file` for records as JSON lines")
	f.StringVar(&p.Fast, "fast", "", "`file` for alerts as lines of text (default standard output when no other is named)")
	f.BoolVar(&p.Progress, "progress", false, "report the progress every second (a terminal always gets a bar)")
	captureFlags(f, &p.Capture)
	if status := parse(args, 0, -1); status >= 0 {
		return status
	}
	if p.Capture.Urgent != "oob" && p.Capture.Urgent != "inline" {
		fmt.Fprintf(e.stderr, "shuultuur: -urgent %s: it is oob or inline\n", p.Capture.Urgent)
		return 2
	}
	if f.NArg() == 0 {
		fmt.Fprintln(e.stderr, "shuultuur: no capture: name a FILE")
		return 2
	}
	if err := p.Run(ctx, f.Args()...); err != nil {
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
