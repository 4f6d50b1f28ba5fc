package whatif

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"iter"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"shuultuur/filter"
	"shuultuur/intercept/opening"
	"shuultuur/lib/message"
)

// A Judge judges with one settings file.
type Judge struct {
	Name    string // of the settings file
	Decider filter.Decider
	// Client returns the client that the settings give for the address and user in the log.
	Client func(context.Context, *Entry) filter.Client
	// Refuses returns an error if a server would refuse a request whatever the policy says. If
	// it is nil, only the policy decides.
	Refuses func(*filter.Transaction) error
	// Unseen reports whether a rule has conditions that a log does not show, such as fields of the
	// request. Nil: none has.
	Unseen func(policy, rule string) bool
	// Begin and End count the use of quotas, and are called around each entry. Entries are
	// then judged one after another, in the order in which they are given. Nil: nothing
	// counts.
	Begin func(at time.Time)
	End   func(context.Context, *filter.Transaction)
}

// Counts reports whether earlier entries matter to the verdict about later ones.
func (j *Judge) Counts() bool { return j != nil && j.Begin != nil }

// Comparison compares the verdicts of two judges on a log. They judge only by the information in
// a log: host, URL, method, client, user, referer, agent, time, and status and type of the
// response. Bodies are not in a log.
type Comparison struct {
	New Judge
	Old *Judge // nil for the verdicts in the log

	// Outcome says that only the outcome of a request counts, whether it is refused, and not
	// the action that lets it pass. It is for rules of other programs.
	Outcome bool

	Examples int // of each change; 0 means 3

	judged atomic.Int64
}

// Report describes the changes. It is also the JSON form, which is stable: keys may be
// added, but do not change their meaning.
type Report struct {
	Input Input  `json:"input"`
	Old   string `json:"old"` // settings file, "" for the verdicts in the log
	New   string `json:"new"`

	Judged int64 `json:"judged"`
	// Bodies were, or may have been, judged by their body or something else that the log does
	// not contain. It cannot show whether the new settings would do so as well.
	Bodies int64 `json:"bodies"`
	// Unknown are entries for which the log contains no verdict of a policy.
	Unknown int64 `json:"unknown"`

	// Otherwise is how often the outcome in the log differs from that of the old rules.
	Otherwise int64 `json:"otherwise,omitempty"`

	Changed   int64 `json:"changed"`    // with another action
	OtherRule int64 `json:"other_rule"` // with the same action, but another policy, rule or target

	Was map[string]int64 `json:"was"` // by action
	Is  map[string]int64 `json:"is"`

	Changes []VerdictChange `json:"changes"` // most frequent first
	Left    int64           `json:"left"`    // changes beyond the first 10,000 kinds
}

// VerdictChange is one kind of change. Policy, category and rule are those that decide now, or
// that decided if nothing does now.
type VerdictChange struct {
	Policy   string   `json:"policy"`
	Category string   `json:"category"`
	Rule     string   `json:"rule"`
	Was      string   `json:"was"`
	Is       string   `json:"is"`
	Count    int64    `json:"count"`
	Examples []string `json:"examples"`
}

// maxKinds limits the kinds of changes, because recorded policies and rules can be any text.
const maxKinds = 10_000

// opinion is the part of a verdict that is compared.
type opinion struct {
	action                     filter.Action
	policy, rule, category, to string
}

type kind struct {
	policy, category, rule string
	was, is                filter.Action
}

// Progress returns how many entries were judged. It is safe for concurrent use.
func (w *Comparison) Progress() int64 { return w.judged.Load() }

// Run judges all entries.
func (w *Comparison) Run(ctx context.Context, entries iter.Seq2[Entry, error]) (*Report, error) {
	r := &Report{New: w.New.Name, Was: map[string]int64{}, Is: map[string]int64{}}
	if w.Old != nil {
		r.Old = w.Old.Name
	}
	examples := w.Examples
	if examples == 0 {
		examples = 3
	}
	changes := map[kind]*VerdictChange{}
	for p, err := range w.pieces(ctx, entries) {
		if err != nil {
			return nil, err
		}
		for i := range p.entries {
			r.add(w, changes, &p.entries[i], &p.opinions[i], examples)
		}
	}
	for _, c := range changes {
		r.Changes = append(r.Changes, *c)
	}
	slices.SortStableFunc(r.Changes, func(a, b VerdictChange) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.Category, b.Category),
			cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Was, b.Was), cmp.Compare(a.Is, b.Is))
	})
	return r, nil
}

// add adds the result for one entry to the report.
func (r *Report) add(w *Comparison, changes map[kind]*VerdictChange, e *Entry, o *opinions, examples int) {
	was, is := o.was, o.is
	if !o.known {
		r.Unknown++
		return
	}
	if w.Old == nil && e.Recorded != nil && was.action != is.action && (e.Recorded.isUnseen() || w.New.unseen(was) || w.New.unseen(is)) {
		r.Bodies++
		return
	}
	r.Judged++
	r.Was[was.action.String()]++
	r.Is[is.action.String()]++
	if w.Outcome {
		if refused := was.action >= filter.Warn; w.Old != nil && e.Status != 407 && (e.Refused && !refused || !e.Refused && refused && e.Status/100 == 2) {
			r.Otherwise++
		}
		if (was.action >= filter.Warn) == (is.action >= filter.Warn) {
			return
		}
	} else if was.action == is.action {
		if w.Old != nil && was != is || w.Old == nil && (was.policy != is.policy || was.rule != is.rule) {
			r.OtherRule++
		}
		return
	}
	r.Changed++
	r.note(changes, was, is, e, examples)
}

func (j *Judge) unseen(o opinion) bool {
	return o.rule != "" && j.Unseen != nil && j.Unseen(o.policy, o.rule)
}

// A piece is a number of entries that are judged together.
type piece struct {
	entries   []Entry
	exchanges []exchange // of the entries, while one judge leaves them to the other; nil if one goroutine runs both
	opinions  []opinions
	err       error         // of the source, after the entries
	judged    chan struct{} // closed when it has been judged
}

// opinions are the opinions of both judges.
type opinions struct {
	was, is opinion
	known   bool
}

const pieceSize = 512

// pieces judges entries on all processors while it reads further ones, and yields them in
// their order. Where earlier entries matter to the verdict about later ones, each judge is
// given them in their order, in a goroutine of its own. The new one gets a piece after the old
// one, and with it the requests that were made and what checks found.
func (w *Comparison) pieces(ctx context.Context, entries iter.Seq2[Entry, error]) iter.Seq2[*piece, error] {
	return func(yield func(*piece, error) bool) {
		ctx, stop := context.WithCancel(ctx)
		workers, inOrder := runtime.GOMAXPROCS(0), w.Old.Counts() || w.New.Counts()
		if inOrder {
			workers = 1
		}
		both := inOrder && w.Old != nil // each judge has a goroutine
		work, ordered := make(chan *piece, 1), make(chan *piece, 2*workers)
		var busy sync.WaitGroup
		busy.Go(func() { read(ctx, entries, both, work, ordered) })
		from := work
		if both {
			from = make(chan *piece, 1)
			busy.Go(func() {
				defer close(from)
				for p := range work {
					w.judgePiece(ctx, p, true, false)
					from <- p
				}
			})
		}
		for range workers {
			busy.Go(func() {
				for p := range from {
					w.judgePiece(ctx, p, !both, true)
					p.exchanges = nil
					close(p.judged)
				}
			})
		}
		defer busy.Wait()
		defer stop()
		for p := range ordered {
			<-p.judged
			if !yield(p, nil) {
				return
			}
			if p.err != nil {
				yield(nil, p.err)
				return
			}
		}
		if err := ctx.Err(); err != nil {
			yield(nil, err)
		}
	}
}

// read divides entries into pieces until they or ctx end. Each is for both channels. It makes the
// requests if each judge has a goroutine, because the old one has the most work.
func read(ctx context.Context, entries iter.Seq2[Entry, error], both bool, work, ordered chan *piece) {
	defer close(ordered)
	defer close(work)
	send := func(p *piece) bool {
		p.opinions, p.judged = make([]opinions, len(p.entries)), make(chan struct{})
		if both {
			p.exchanges = make([]exchange, len(p.entries))
			for i := range p.exchanges {
				p.exchanges[i].begin(&p.entries[i])
			}
		}
		for _, c := range [...]chan *piece{work, ordered} {
			select {
			case c <- p:
			case <-ctx.Done():
				return false
			}
		}
		return true
	}
	p := &piece{}
	for e, err := range entries {
		if err != nil {
			p.err = err
			break
		}
		if p.entries = append(p.entries, e); len(p.entries) == pieceSize {
			if !send(p) {
				return
			}
			p = &piece{entries: make([]Entry, 0, pieceSize)}
		}
	}
	send(p)
}

// judgePiece judges entries by the old judge or what is on record, by the new one, or by both.
func (w *Comparison) judgePiece(ctx context.Context, p *piece, before, after bool) {
	var t filter.Transaction
	var one exchange
	for i := range p.entries {
		e, o, x := &p.entries[i], &p.opinions[i], &one
		if p.exchanges != nil {
			x = &p.exchanges[i]
		} else {
			x.begin(e)
		}
		if before {
			w.judged.Add(1)
			o.was, o.known = w.oldVerdict(ctx, e, &t, x)
		}
		if after && o.known {
			o.is = w.New.judge(ctx, e, &t, x)
		}
	}
}

// An exchange is an entry in the form that both judges read.
type exchange struct {
	request  *message.Request  // nil if only a name was looked up
	response *message.Response // made when a judge first needs it
	found    filter.Memo       // by checks that both judges have
}

// begin makes the request of an entry.
func (x *exchange) begin(e *Entry) {
	x.request, x.response = nil, nil
	x.found.Forget()
	if e.Method != Tunnel && e.Method != Lookup {
		x.request = e.sent()
	}
}

// oldVerdict returns the verdict in the log, or that of the old settings.
func (w *Comparison) oldVerdict(ctx context.Context, e *Entry, t *filter.Transaction, x *exchange) (opinion, bool) {
	if w.Old != nil {
		return w.Old.judge(ctx, e, t, x), true
	}
	if e.Recorded == nil && w.Outcome && e.Refused {
		return opinion{action: filter.Block}, true
	} else if e.Recorded == nil {
		return opinion{}, w.Outcome && e.Status/100 == 2
	}
	v := e.Recorded
	return opinion{action: v.Action, policy: v.Policy, rule: v.Rule, category: v.Category}, true
}

// note counts a change.
func (r *Report) note(changes map[kind]*VerdictChange, was, is opinion, e *Entry, examples int) {
	by := is
	if was.action >= filter.Warn && is.action < filter.Warn {
		by = was
	}
	k := kind{cmp.Or(is.policy, was.policy), by.category, by.rule, was.action, is.action}
	c := changes[k]
	if c == nil {
		if len(changes) == maxKinds {
			r.Left++
			return
		}
		// The category may be in a list that will be closed before this is read.
		c = &VerdictChange{Policy: k.policy, Category: strings.Clone(k.category), Rule: k.rule, Was: was.action.String(), Is: is.action.String()}
		changes[k] = c
	}
	c.Count++
	if t := e.Target(); len(c.Examples) < examples && !slices.Contains(c.Examples, t) {
		c.Examples = append(c.Examples, t)
	}
}

// judge judges an entry, in the memory t, at the stages that a log covers.
func (j *Judge) judge(ctx context.Context, e *Entry, t *filter.Transaction, x *exchange) (o opinion) {
	e.transaction(t, x.request)
	t.Use(&x.found)
	if j.Counts() {
		j.Begin(e.Start)
		defer func() { j.count(ctx, e, t, &o) }()
	}
	t.Client = j.Client(ctx, e)
	if j.Refuses != nil {
		if err := j.Refuses(t); err != nil {
			return opinion{action: filter.Block, rule: err.Error()}
		}
	}
	last := t.Last
	if e.Method == Tunnel {
		last = filter.Name
	}
	for s := filter.Name; s <= last; s++ {
		if s == filter.RequestBody {
			continue
		}
		if s == filter.Response {
			if x.response == nil {
				x.response = e.response()
			}
			t.Response = x.response
		}
		if j.Decider.Decide(ctx, t, s); t.Verdict.Final() || t.Verdict.Action == filter.Allow {
			break
		}
	}
	return opinionOf(&t.Verdict)
}

// count counts an entry's use of quotas. A query is refused here when that was too
// much.
func (j *Judge) count(ctx context.Context, e *Entry, t *filter.Transaction, o *opinion) {
	t.BytesIn, t.BytesOut, t.Duration = e.Sent, e.Bytes, e.Duration
	if t.Minutes = e.Minutes; t.Minutes == nil {
		t.Minutes = filter.Minutes{{First: filter.MinuteOf(e.Start), Last: filter.MinuteOf(e.Start.Add(max(e.Duration-1, 0)))}}
	}
	was := t.Verdict.Action
	if j.End(ctx, t); t.Verdict.Action != was {
		*o = opinionOf(&t.Verdict)
	}
}

func opinionOf(v *filter.Verdict) opinion {
	return opinion{v.Action, v.Reason.Policy, v.Reason.Rule, v.Reason.Finding.Category, target(v)}
}

// target returns the target of a redirect, but not of a warning, where it is a signed token.
func target(v *filter.Verdict) string {
	if v.Action == filter.Redirect {
		return v.To
	}
	return ""
}

// transaction fills t with the entry as a server would have seen it, and with its request.
func (e *Entry) transaction(t *filter.Transaction, r *message.Request) {
	*t = filter.Transaction{ID: "replay", Start: e.Start, Host: e.Host, Port: e.Port, Last: filter.Request}
	switch e.Method {
	case Tunnel:
		t.Proto, t.Last = filter.TLS, filter.Name
		t.Opening = filter.Opening{Kind: cmp.Or(e.Opening, string(opening.TLS)), Says: "as recorded"}
		if e.Decrypted {
			t.Last = filter.ResponseBody // rules that cannot be decided for the tunnel are for what is in it
		}
		return
	case Lookup:
		t.Proto, t.Last, t.Type = filter.DNS, filter.Name, e.Question
		return
	}
	if !e.Refused && e.Type != "" && e.Status >= 200 {
		t.Last = filter.Response
	}
	t.Request = r
	t.URL = string(r.Target)
}

// sent returns the request of an entry, if it has one.
func (e *Entry) sent() *message.Request {
	scheme, rest, _ := strings.Cut(e.URL, "://")
	authority, path, _ := strings.Cut(rest, "/")
	r := &message.Request{
		Method: e.Method, Target: []byte(scheme + "://" + authority + "/" + path), Form: message.Absolute, Scheme: scheme,
		Host: []byte(e.Host), Port: e.Port, Path: []byte("/" + path), Proto: 11,
	}
	r.Fields = make([]message.Field, 0, 3)
	r.Add("Host", authority)
	if e.Agent != "" {
		r.Add("User-Agent", e.Agent)
	}
	if e.Referer != "" {
		r.Add("Referer", e.Referer)
	}
	return r
}

func (e *Entry) response() *message.Response {
	s := &message.Response{Status: e.Status, Proto: 11, Length: e.Bytes}
	s.Fields = make([]message.Field, 0, 2)
	s.Add("Content-Type", e.Type)
	s.Add("Content-Length", strconv.FormatInt(e.Bytes, 10))
	return s
}

// Text writes the report for people.
func (r *Report) Text(w io.Writer) error {
	p := Printer{W: w}
	r.Input.Text(&p)
	old := "the verdicts in the log"
	if r.Old != "" {
		old = Printable(r.Old)
	}
	p.F("was: %s\nis:  %s\n", old, Printable(r.New))
	p.F("judged: host, URL, method, client, user, referer, agent, time, and type of the answer where the log has them; no bodies: they are not in a log\n")
	p.F("%d judged, %d verdicts change, %d stay with another policy, rule or target\n", r.Judged, r.Changed, r.OtherRule)
	if r.Bodies > 0 {
		p.F("%d not judged: they were refused for what their body held, or may have\n", r.Bodies)
	}
	if r.Unknown > 0 {
		p.F("%d not judged: the log does not say what a policy decided; -against OLD asks other settings\n", r.Unknown)
	}
	if r.Otherwise > 0 {
		p.F("%d times the log has another verdict than the old rules: they ask what no log has\n", r.Otherwise)
	}
	p.F("\n%-10s%12s%12s\n", "action", "was", "is")
	for a := filter.Pass; a <= filter.Redirect; a++ {
		if n := a.String(); r.Was[n] > 0 || r.Is[n] > 0 {
			p.F("%-10s%12d%12d\n", n, r.Was[n], r.Is[n])
		}
	}
	for _, c := range r.Changes {
		p.F("\n%d  %s -> %s  policy %s, category %s, rule %s\n", c.Count, c.Was, c.Is, orNone(c.Policy), orNone(c.Category), orNone(c.Rule))
		for _, e := range c.Examples {
			p.F("    %s\n", Printable(e))
		}
	}
	if r.Left > 0 {
		p.F("\n%d more changes of other kinds\n", r.Left)
	}
	return p.Err
}

func orNone(s string) string {
	if s == "" {
		return "(none)"
	}
	return fmt.Sprintf("%q", s)
}

// JSON writes the report for machines.
func (r *Report) JSON(w io.Writer) error { return WriteJSON(w, r) }
