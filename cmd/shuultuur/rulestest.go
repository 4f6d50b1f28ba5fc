//go:build !small

package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"shuultuur/lib/suricata/address"
	"shuultuur/lib/suricata/engine"
	"shuultuur/tool/capture"
	"shuultuur/tool/rules"
)

// rulesExplain prints the patterns for which rules wait.
func rulesExplain(_ context.Context, e env, args []string) int {
	f, parse := flags(e, "rules explain", "-rules FILE SID...", "Shows which buffer and pattern a rule waits for, what it inspects, and why it is slow.")
	var r rules.Set
	ruleFlags(f, &r)
	if status := parse(args); status >= 0 {
		return status
	}
	en, err := r.Compile(address.Clients, engine.Config{Packets: true}, e.stderr)
	if err != nil {
		return fail(e, err)
	}
	if f.NArg() == 0 {
		return fail(e, errors.New("no rules: give their numbers"))
	}
	status := 0
	for _, a := range f.Args() {
		sid, err := strconv.ParseUint(a, 10, 32)
		if err != nil {
			return fail(e, fmt.Errorf("%q is not the number of a rule", a))
		}
		text, ok := en.Explain(uint32(sid))
		if !ok {
			fmt.Fprintf(e.stderr, "shuultuur: sid %d: no rule that is active has this number; \"shuultuur rules lint -v\" names those that are not\n", sid)
			status = 1
		}
		fmt.Fprint(e.stdout, text)
	}
	return status
}

// rulesTest prints how far each rule matches. The exit status is 1 if one does
// not match.
func rulesTest(ctx context.Context, e env, args []string) int {
	f, parse := flags(e, "rules test", "-rules FILE FILE...", "Tries rules on a capture, a HAR file, or a request as sent with or without its response, and shows for each rule how far it got and which keyword failed.")
	var r rules.Set
	var c capture.Config
	ruleFlags(f, &r)
	captureFlags(f, &c)
	if status := parse(args); status >= 0 {
		return status
	}
	if f.NArg() == 0 {
		return fail(e, errors.New("nothing to test: name a capture, a HAR file or a file with a message"))
	}
	en, err := r.Compile(rules.Private, engine.Config{Packets: true, Trace: true}, e.stderr)
	if err != nil {
		return fail(e, err)
	}
	run := capture.New(c, en, capture.NewOutput(nil, nil))
	if err := rules.Read(ctx, run, f.Args()); err != nil {
		return fail(e, err)
	}
	status := 0
	for _, t := range en.Traces() {
		if t.Matched > 0 {
			fmt.Fprintf(e.stdout, "sid %d: matched %d times\n", t.Rule.SID, t.Matched)
			continue
		}
		status = 1
		fmt.Fprintf(e.stdout, "sid %d: no match, tried %d times; failed at %s\n", t.Rule.SID, t.Tried, t.Failed)
	}
	return status
}

// rulesProfile prints the cost of rules.
func rulesProfile(ctx context.Context, e env, args []string) int {
	f, parse := flags(e, "rules profile", "[-config FILE | -rules FILE CAPTURE...]", "Shows what each rule cost, the most expensive first, and how many bytes were searched in each buffer: in the running gateway, since its last reload and before, or on captures.")
	config := f.String("config", "", "settings `file` of the gateway")
	var r rules.Set
	var c capture.Config
	ruleFlags(f, &r)
	captureFlags(f, &c)
	asJSON := f.Bool("json", false, "print one JSON object")
	most := f.Int("n", 20, "list `N` rules; 0 lists all")
	if status := parse(args); status >= 0 {
		return status
	}
	if err := e.needs(f, "json", "n"); err != nil {
		return fail(e, err)
	}
	if e.at != nil && f.NArg() > 0 {
		return fail(e, errors.New("captures are read on this machine alone: ask without -at"))
	}
	if f.NArg() == 0 && len(r.Files) == 0 {
		return gatewayProfile(ctx, e, *config, *most, *asJSON)
	}
	if f.NArg() == 0 {
		return fail(e, errors.New("nothing to profile: name a capture, or omit -rules to ask the running gateway"))
	}
	en, err := r.Compile(rules.Private, engine.Config{Packets: true}, e.stderr)
	if err != nil {
		return fail(e, err)
	}
	run := capture.New(c, en, capture.NewOutput(nil, nil))
	if err := rules.Read(ctx, run, f.Args()); err != nil {
		return fail(e, err)
	}
	if err := en.WriteProfile(e.stdout, *most, *asJSON); err != nil {
		return fail(e, err)
	}
	return 0
}

// gatewayProfile prints the cost of the rules in the running gateway.
func gatewayProfile(ctx context.Context, e env, config string, most int, asJSON bool) int {
	c, err := e.gateway(config)
	if err != nil {
		return fail(e, err)
	}
	costs, buffers, err := c.Signatures(ctx)
	if err != nil {
		return fail(e, err)
	}
	if err := engine.WriteProfiles(e.stdout, costs, buffers, most, asJSON); err != nil {
		return fail(e, err)
	}
	return 0
}
