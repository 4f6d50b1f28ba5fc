package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/dns"
	"shuultuur/lib/setting"
)

// nameExplanation is the output of "why -dns -json", as explanation is for a
// URL.
type nameExplanation struct {
	Name      string           `json:"name"`
	Type      string           `json:"type"`
	Action    string           `json:"action"`
	Policy    string           `json:"policy"`
	Rule      string           `json:"rule"`
	Findings  []filter.Finding `json:"findings"`
	Upstream  bool             `json:"upstream"` // upstreams would be queried, and their answer judged again
	Upstreams []string         `json:"upstreams,omitempty"`
	DNS64     string           `json:"dns64,omitempty"` // how their answer would be changed
	Rcode     string           `json:"rcode,omitempty"`
	Answer    []string         `json:"answer,omitempty"`
	Error     string           `json:"error,omitempty"`   // the Extended DNS Error
	Zone      string           `json:"zone,omitempty"`    // our own zone that answers
	Unknown   string           `json:"unknown,omitempty"` // where zones might exist that would answer instead
	Taken     float64          `json:"taken_us"`
	quotaLeft
}

// name answers "why -dns".
func (q question) name(ctx context.Context, e env, asJSON bool) int {
	x, err := q.askName(ctx)
	if err != nil {
		return fail(e, err)
	}
	return printAnswer(e, x, x.Action, asJSON)
}

func (q question) askName(ctx context.Context) (*nameExplanation, error) {
	addr, err := setting.Client(q.client)
	if err != nil {
		return nil, fmt.Errorf("-client %q is not an address", q.client)
	}
	kind := strings.ToUpper(cmp.Or(q.contentType, "A"))
	typ, err := dns.Type(kind)
	if err != nil {
		return nil, fmt.Errorf("-type: %w", err)
	}
	engine, closeEngine, err := explain(ctx, q.config)
	if err != nil {
		return nil, err
	}
	defer closeEngine()
	engine.AskPauses(ctx)
	engine.AskSession(ctx, addr.Unmap())
	d, err := engine.As(q.as)
	if err != nil {
		return nil, err
	}
	client := filter.Client{Addr: addr.Unmap(), User: q.user}
	if q.user == "" {
		if c, err := engine.Identify(ctx, client.Addr); err == nil {
			client = c
		}
	}
	if q.groups != "" {
		client.Groups = strings.Split(q.groups, ",")
	}
	start := time.Now()
	a, err := engine.Name(d, client, q.dns, typ)
	if err != nil {
		return nil, err
	}
	t := &a.Transaction
	x := &nameExplanation{
		Name: strings.TrimSuffix(q.dns, "."), Type: kind, Action: t.Verdict.Action.String(), Policy: t.Verdict.Reason.Policy, Rule: t.Verdict.Reason.Rule,
		Findings: append([]filter.Finding{}, t.Findings...), Upstream: a.Upstream, Upstreams: a.Upstreams, DNS64: a.DNS64, Rcode: a.Rcode, Answer: a.Records, Error: a.Error, Zone: a.Zone, Unknown: a.Unknown,
		Taken: float64(time.Since(start).Nanoseconds()) / 1000,
	}
	x.quotaLeft = leftOf(ctx, engine, t)
	return x, nil
}

func (x *nameExplanation) print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s %s\n", strings.ToUpper(x.Action), x.Name, x.Type)
	if x.Policy != "" {
		fmt.Fprintf(&b, "  policy  %s\n  rule    %s\n", x.Policy, cmp.Or(x.Rule, "(no rule matched)"))
	}
	for _, f := range x.Findings {
		fmt.Fprintf(&b, "  found   %s/%s\n", f.Check, f.Category)
		for part := range strings.SplitSeq(f.Evidence, "; ") {
			if part != "" {
				fmt.Fprintf(&b, "            %s\n", part)
			}
		}
		if f.Modifier != "" {
			fmt.Fprintf(&b, "            %s\n", f.Modifier)
		}
	}
	if x.Zone != "" {
		fmt.Fprintf(&b, "  zone    %s: our own, and not judged\n", x.Zone)
	}
	if x.Unknown != "" {
		fmt.Fprintf(&b, "  unknown whether a zone in %s answers instead: that takes asking\n", x.Unknown)
	}
	if x.Upstream {
		fmt.Fprintf(&b, "  answer  that of %s; aliases and addresses in it are judged again\n", cmp.Or(strings.Join(x.Upstreams, ", "), "the upstreams"))
		if x.DNS64 != "" {
			fmt.Fprintf(&b, "  dns64   %s\n", x.DNS64)
		}
	} else {
		fmt.Fprintf(&b, "  answer  %s\n", x.Rcode)
	}
	for _, r := range x.Answer {
		fmt.Fprintf(&b, "            %s\n", r)
	}
	if x.Error != "" {
		fmt.Fprintf(&b, "  error   %s\n", x.Error)
	}
	x.quotaLeft.append(&b)
	fmt.Fprintf(&b, "  taken   %.0f µs\n", x.Taken)
	_, err := io.WriteString(w, b.String())
	return err
}
