package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	reasons "shuultuur/admin/why"
	"shuultuur/engine"
	"shuultuur/filter"
	"shuultuur/lib/setting"
)

const whyHelp = `
Says what the gateway would do with URL, and why: every finding with the list
or phrase file and line that gave it, and the rule that decided. Nothing is
fetched: give the page as FILE ("-" for standard input) to have its text judged
as well. Without -config the settings are those that "shuultuur run" would
take: shuultuur.yaml in this folder, or else those of the service, or the starter's.

With only the FILE of a picture, what is seen in it is said: features, scores,
the nearest hash of each list with its distance, and how long each took.

With -dns, NAME is a name that a client asks the name server for, and what the
name server would answer is said too, as far as it would not have to ask others.

The gateway that runs with these settings, if there is one, is asked at its
admin address who has the address of the client for now, what is paused and
what is left of quotas.

An https URL is judged by its host alone, as the gateway does with a tunnel it
does not look into; where the client's policy says decrypt, it is judged whole.

The exit status is 0 for pass and allow, 1 for warn, block and redirect.`

// maxPage is the largest page that why reads, in bytes.
const maxPage = 64 << 20

// explanation is the output of "why -json".
type explanation struct{ *reasons.Explanation }

// quotaLeft is what is left of the client's quotas.
type quotaLeft struct{ reasons.QuotaLeft }

func leftOf(ctx context.Context, e *engine.Engine, t *filter.Transaction) quotaLeft {
	return quotaLeft{e.QuotaLeft(ctx, t)}
}

func (l *quotaLeft) append(b *strings.Builder) {
	for _, q := range l.Quotas {
		fmt.Fprintf(b, "  quota   %s: %s, by %s", q.Of, q.Text, q.By)
		if q.Names {
			b.WriteString(", counted by the names that are asked for: what a device does with a name that it remembers is not seen")
		}
		b.WriteString("\n")
	}
	if l.Unknown != "" {
		fmt.Fprintf(b, "  quota   %s\n", l.Unknown)
	}
}

type question struct {
	config, as, client, user, method string
	contentType, referer, agent      string
	groups                           string
	url, file                        string
	dns                              string
}

func why(ctx context.Context, e env, args []string) int {
	var q question
	var asJSON bool
	f, parse := flags(e, "why", "[flags] URL [FILE] | -dns NAME", whyHelp)
	f.StringVar(&q.config, "config", "", "settings `file` (default shuultuur.yaml, else the starter settings)")
	f.StringVar(&q.as, "as", "", "judge by this `policy`, whoever the client is")
	f.StringVar(&q.client, "client", "127.0.0.1", "`address` of the client that asks")
	f.StringVar(&q.user, "user", "", "`name` of the user who asks")
	f.StringVar(&q.groups, "groups", "", "`groups` of the user, separated by commas")
	f.StringVar(&q.method, "method", "GET", "request `method`")
	f.StringVar(&q.contentType, "type", "", "media `type` of FILE (default by its name, then by its bytes); with -dns the type of record (default A)")
	f.StringVar(&q.dns, "dns", "", "look up this DNS `name`")
	f.StringVar(&q.referer, "referer", "", "Referer `URL` of the request")
	f.StringVar(&q.agent, "agent", "", "User-Agent of the request")
	f.BoolVar(&asJSON, "json", false, "print one JSON object")
	if status := parse(args, 0, 2); status >= 0 {
		return status
	}
	if err := e.needs(f, "client", "user", "groups", "as", "json"); err != nil {
		return fail(e, err)
	}
	if q.dns != "" && f.NArg() == 0 {
		return q.name(ctx, e, asJSON)
	}
	switch {
	case q.dns != "":
		return reportMistake(e, f, fmt.Sprintf("-dns asks for the name %q alone, not for %q", q.dns, f.Arg(0)))
	case f.NArg() == 0:
		return reportMistake(e, f, "name a URL, the file of a picture, or a name with -dns")
	}
	q.url, q.file = f.Arg(0), f.Arg(1)
	if f.NArg() == 1 && isPictureFile(q.url) {
		q.url, q.file = "http://localhost/"+url.PathEscape(filepath.Base(q.url)), q.url
	}
	x, err := q.ask(ctx, e)
	if err != nil {
		return fail(e, err)
	}
	return printAnswer(e, x, x.Action, asJSON)
}

// printAnswer prints x, and returns 0 if action is one that lets pass.
func printAnswer(e env, x interface{ print(io.Writer) error }, action string, asJSON bool) int {
	var err error
	if asJSON {
		enc := json.NewEncoder(e.stdout)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		err = enc.Encode(x)
	} else {
		err = x.print(e.stdout)
	}
	if err != nil {
		return fail(e, err)
	}
	if action == "pass" || action == "allow" {
		return 0
	}
	return 1
}

func (q question) ask(ctx context.Context, e env) (*explanation, error) {
	addr, err := setting.Client(q.client)
	if err != nil {
		return nil, fmt.Errorf("-client %q is not an address", q.client)
	}
	ask := reasons.Question{URL: q.url, As: q.as, Client: addr, User: q.user, Method: q.method, Referer: q.referer, Agent: q.agent, Type: q.contentType}
	if q.groups != "" {
		ask.Groups = strings.Split(q.groups, ",")
	}
	if q.file != "" {
		if ask.Page, err = readPage(e, q.file); err != nil {
			return nil, err
		}
		if ask.Type == "" {
			ask.Type = mime.TypeByExtension(filepath.Ext(q.file))
		}
	}
	if e.at != nil && q.file != "" {
		return nil, errors.New("a page in a file is judged on this machine alone: ask without -at")
	}
	if e.at != nil {
		x, err := e.at.Why(ctx, q.url, q.client, q.user, q.groups, q.as)
		return &explanation{x}, err
	}
	engine, closeEngine, err := explain(ctx, q.config)
	if err != nil {
		return nil, err
	}
	defer closeEngine()
	engine.AskPauses(ctx)
	engine.AskSession(ctx, ask.Client)
	x, err := engine.Why(ctx, ask)
	if err != nil {
		return nil, err
	}
	x.Settings = cmp.Or(usualFile(q.config), "the starter settings")
	if q.file != "" && isPictureFile(q.file) {
		x.Picture = engine.Picture(ctx, ask.Page)
	}
	return &explanation{x}, nil
}

// isPictureFile reports whether name is that of a picture file.
func isPictureFile(name string) bool {
	s, err := os.Stat(name)
	return err == nil && s.Mode().IsRegular() && strings.HasPrefix(mime.TypeByExtension(filepath.Ext(name)), "image/")
}

func readPage(e env, file string) ([]byte, error) {
	page, err := e.read(file, maxPage)
	if err != nil {
		return nil, fmt.Errorf("reading the page: %w", err)
	}
	return page, nil
}

func (x *explanation) print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s\n", strings.ToUpper(x.Action), x.URL)
	if x.User != "" {
		fmt.Fprintf(&b, "  client  %s\n", x.User)
	}
	policy := x.Policy
	if policy == "" {
		policy = "(no policy covers this client)"
	}
	fmt.Fprintf(&b, "  policy  %s\n", policy)
	rule := x.Rule
	if rule == "" {
		rule = "(no rule matched)"
	}
	fmt.Fprintf(&b, "  rule    %s\n", rule)
	fmt.Fprintf(&b, "  judged  up to the %s\n", x.Stage)
	if x.Refused != "" {
		fmt.Fprintf(&b, "  refused %s\n", x.Refused)
	}
	if x.Paused != "" {
		fmt.Fprintf(&b, "  paused  %s\n", x.Paused)
	}
	by := x.Settings
	if x.Line > 0 {
		by += ":" + strconv.Itoa(x.Line)
	}
	fmt.Fprintf(&b, "  by      %s\n", by)
	for _, f := range x.Findings {
		score := ""
		if f.Score != 0 {
			score = " " + strconv.Itoa(f.Score)
		}
		fmt.Fprintf(&b, "  found   %s/%s%s\n", f.Check, f.Category, score)
		for part := range strings.SplitSeq(f.Evidence, "; ") {
			if part != "" {
				fmt.Fprintf(&b, "            %s\n", part)
			}
		}
	}
	for _, c := range x.Edits {
		fmt.Fprintf(&b, "  sets    %s %s %s\n", c.Kind, c.Name, c.Value)
	}
	for _, line := range x.Picture {
		fmt.Fprintf(&b, "  %s\n", line)
	}
	(&quotaLeft{x.QuotaLeft}).append(&b)
	fmt.Fprintf(&b, "  taken   %.0f µs\n", x.Taken)
	_, err := io.WriteString(w, b.String())
	return err
}
