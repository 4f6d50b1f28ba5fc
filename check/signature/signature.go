//go:build !small

// Package signature is the check that tries Suricata's rules on decrypted messages: requests,
// responses, DNS queries and TLS hellos.
//
// [New] parses rule files (package rule) and compiles them (package engine). At each stage of
// a transaction, [Check.Find] converts the known data to the form that rules inspect, and
// lets the engine continue where it stopped at the previous stage. Rules that matched become
// findings: one each for the class, the number and the priority, and "drop" if the rule says
// drop or reject. Policies decide on the findings.
package signature

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"shuultuur/check/build"
	"shuultuur/content"
	"shuultuur/filter"
	"shuultuur/lib/message"
	"shuultuur/lib/setting"
	"shuultuur/lib/suricata/address"
	"shuultuur/lib/suricata/engine"
	"shuultuur/lib/suricata/lua"
	"shuultuur/lib/suricata/rule"
	"shuultuur/lib/suricata/state"
	"shuultuur/lib/suricata/traffic"
	"shuultuur/list/source"
)

// defaultBody is the number of bytes of a body that rules inspect by default.
const defaultBody = 1 << 20

// saveDelay is the time between a change of datasets and saving them.
const saveDelay = 5 * time.Second

// A Check tries rules. It is safe for concurrent use.
type Check struct {
	engine   *engine.Engine
	body     int
	files    []string
	mistakes []*rule.Error
	classes  []string
	sids     []uint32
	now      func() time.Time
	scripts  *lua.Pool
	dry      bool // do not save datasets
	fetched  source.Items
	missing  []string // sources not yet fetched
	damaged  []string // what is used in place of sources that are damaged
}

// flowKey is the key of the state that rules keep for a connection. It is the same for every
// check, so that flow bits outlive a reload.
type flowKey struct{}

// A flow is the state of a connection.
type flow struct {
	*state.Flow
	open []*exchange // exchanges in progress, oldest first
	over []byte      // identifiers of the last exchanges that are over, each between zeros
	tls  handshake
}

// maxOpen limits the exchanges of one connection that rules follow at a time.
const maxOpen = 128

// An exchange is a request with its response, which rules follow from stage to stage.
type exchange struct {
	id    string
	check *Check
	tx    engine.Tx
	http  traffic.HTTP
	seen  map[uint32]bool // alerts already reported, nil for none
}

// Parts are the parts that the check is built from, besides its settings.
type Parts struct {
	// Previous is the check that this one replaces, nil for none. Its state is taken over, and
	// the cost of its rules is shown for comparison.
	Previous *Check
	Now      func() time.Time
	Data     string // folder of fetched files
}

// Build implements [build.Setting].
func (c *Config) Build(p build.Parts) (filter.Check, error) {
	for name := range c.Sources {
		if p.Lists[name] != nil {
			return nil, setting.At("sources", setting.At(name, errors.New("a list has this name; give the rules another one, as both are fetched into one folder")))
		}
	}
	previous, _ := p.Previous.(*Check)
	return New(*c, Parts{Previous: previous, Now: p.Now, Data: p.Data})
}

// New reads the rules for cfg.
func New(cfg Config, parts Parts) (*Check, error) {
	c := &Check{now: parts.Now, fetched: source.Items{}, dry: cfg.Full, scripts: lua.NewPool(lua.Limits{}), body: int(cfg.Body.Or(defaultBody))}
	if len(cfg.Rules)+len(cfg.Sources) == 0 {
		return nil, setting.At("rules", errors.New("there is no rule file; name at least one here or under sources, or omit signature"))
	}
	if err := c.resolve(cfg.Sources, parts.Data); err != nil {
		return nil, setting.At("sources", err)
	}
	loaded, err := c.load(cfg, parts)
	if err != nil {
		return nil, err
	}
	ec := engine.Config{Rules: loaded.rules, Classes: loaded.classes, Beside: loaded.attachments, Scripts: c.scripts.Load, Patience: int64(cfg.DisableAfter)}
	if parts.Data != "" {
		ec.Saves = filepath.Join(parts.Data, "datasets")
	}
	if parts.Previous != nil {
		ec.Previous = parts.Previous.engine
	}
	if cfg.DisableAfter < 0 {
		return nil, setting.At("disable-after", errors.New("it is negative; 0 disables no rule"))
	}
	if ec.Vars, ec.Ports, err = groups(cfg); err != nil {
		return nil, err
	}
	if cfg.Suricata != "" {
		s, err := ReadSuricata(string(cfg.Suricata))
		if err != nil {
			return nil, setting.At("suricata", err)
		}
		ec.Sets = s.Sets
	}
	if err := address.CheckGroups(ec.Vars, ec.Ports, cfg.Vars, cfg.Ports); err != nil {
		return nil, err
	}
	if cfg.Threshold != "" {
		data, err := os.ReadFile(string(cfg.Threshold))
		if err == nil {
			ec.Limits, err = state.ReadLimits(string(cfg.Threshold), bytes.NewReader(data))
		}
		if err != nil {
			return nil, setting.At("threshold", err)
		}
		c.files = append(c.files, string(cfg.Threshold))
	}
	e, mistakes, err := engine.New(ec)
	if err != nil {
		return nil, err
	}
	if !cfg.Full {
		e.State().KeepSaved(saveDelay)
	}
	c.engine, c.mistakes = e, append(loaded.mistakes, mistakes...)
	c.files = append(c.files, e.Files()...)
	c.collectCategories(loaded)
	return c, nil
}

// ruleFiles is the content of rule files.
type ruleFiles struct {
	rules       []*rule.Rule
	mistakes    []*rule.Error
	classes     map[string]*engine.Class
	attachments map[string][]byte // other files in tarballs
}

// load reads rule files, and the files that select and change their rules.
func (c *Check) load(cfg Config, parts Parts) (*ruleFiles, error) {
	store := source.In(parts.Data, nil)
	l := &ruleFiles{classes: map[string]*engine.Class{}}
	for k, v := range engine.Classes() {
		l.classes[k] = v
	}
	choice, err := rule.ReadChoice(string(cfg.Enable), string(cfg.Disable), string(cfg.Modify), string(cfg.Drop))
	if err != nil {
		return nil, err
	}
	c.files = append(c.files, choice.Files...)
	p := rule.NewParser()
	l.attachments = p.Beside
	for i, name := range cfg.Rules {
		files, err := rule.Files(string(name))
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w; correct the name, or fetch the file: see sources", err)
		}
		if err == nil {
			err = l.read(p, choice, files)
		}
		if err != nil {
			return nil, setting.At(fmt.Sprintf("rules[%d]", i), err)
		}
		c.files = append(c.files, string(name))
	}
	for _, name := range slices.Sorted(maps.Keys(c.fetched)) {
		c.files = append(c.files, store.Path(name))
		if c.fetched[name].InUse == "" {
			c.missing = append(c.missing, name)
			continue
		}
		file, err := c.intact(name, store, parts.Previous != nil)
		if file == "" && err == nil {
			continue
		}
		var files []rule.File
		if err == nil {
			files, err = fetchedFiles(name, c.fetched[name].Source.Place(), file)
		}
		if err == nil {
			err = l.read(p, choice, files)
		}
		if err != nil {
			return nil, setting.At("sources."+name, err)
		}
	}
	if cfg.Classes != "" {
		data, err := os.ReadFile(string(cfg.Classes))
		if err == nil {
			err = l.class(string(cfg.Classes), data)
		}
		if err != nil {
			return nil, setting.At("classes", err)
		}
		c.files = append(c.files, string(cfg.Classes))
	}
	l.rules, _ = rule.Unique(l.rules)
	return l, nil
}

// read reads the rules in the files of a tarball or folder, or in a single file.
func (l *ruleFiles) read(p *rule.Parser, choice *rule.Choice, files []rule.File) error {
	for _, f := range files {
		switch {
		case filepath.Base(f.Name) == "classification.config":
			if err := l.class(f.Name, f.Data); err != nil {
				return err
			}
		case len(files) > 1 && filepath.Ext(f.Name) != ".rules":
			p.Beside[f.Name] = f.Data
		default:
			p.Source = f.Source
			rs, ms, err := p.Read(f.Name, &collectingReader{Reader: bytes.NewReader(choice.Apply(f.Name, f.Data))})
			if err != nil {
				return err
			}
			l.rules, l.mistakes = append(l.rules, rs...), append(l.mistakes, ms...)
		}
	}
	return nil
}

// collectBytes is the number of bytes of rules after which the garbage collector runs.
// Otherwise garbage would lie between the rules.
const collectBytes = 1 << 20

// A collectingReader is a reader that runs the garbage collector while it is read.
type collectingReader struct {
	io.Reader
	read int
}

func (c *collectingReader) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if c.read += n; c.read >= collectBytes {
		c.read = 0
		runtime.GC()
	}
	return n, err
}

func (l *ruleFiles) class(name string, data []byte) error {
	cs, err := engine.ReadClasses(name, bytes.NewReader(data))
	for k, v := range cs {
		l.classes[k] = v
	}
	return err
}

// collectCategories collects the categories. It includes classes without rules, so that
// policies may name them while fetched rules change.
func (c *Check) collectCategories(l *ruleFiles) {
	seen := map[string]bool{}
	for name := range l.classes {
		seen[name] = true
	}
	for _, r := range l.rules {
		if r.Class != "" {
			seen[r.Class] = true
		}
		c.sids = append(c.sids, r.SID)
	}
	c.classes = slices.Sorted(maps.Keys(seen))
	slices.Sort(c.sids)
}

// Name returns "signature".
func (c *Check) Name() string { return "signature" }

// Contextual implements [filter.Contextual]: rules also inspect requests, and thresholds count
// matches.
func (*Check) Contextual() {}

// Cost implements [filter.Check].
func (*Check) Cost() filter.Cost { return filter.Heavy }

// Files returns the files from which the check was built.
func (c *Check) Files() []string { return c.files }

// Mistakes returns the rules that could not be loaded.
func (c *Check) Mistakes() []*rule.Error { return c.mistakes }

// Refused returns the mistakes of rules that name files outside their folder.
func (c *Check) Refused() (all []string) {
	for _, m := range c.mistakes {
		if outside := (*rule.NameError)(nil); errors.As(m, &outside) {
			all = append(all, m.Error())
		}
	}
	return all
}

// Engine returns the engine.
func (c *Check) Engine() *engine.Engine { return c.engine }

// Profiles returns the cost of each rule and the bytes of each buffer that were searched.
func (c *Check) Profiles() ([]engine.Profile, []engine.BufferProfile) { return c.engine.Profiles() }

// Close saves the datasets that rules changed. It counts failures.
func (c *Check) Close() { _ = c.Keep() }

// Keep saves the datasets that rules changed, while they are in use: for a backup.
func (c *Check) Keep() error {
	if c.dry {
		return nil
	}
	return c.engine.State().Save()
}

// Categories returns the classes, numbers and priorities of the rules, "drop", and "other" for
// rules without a class.
func (c *Check) Categories() []filter.Category {
	missing := strings.Join(c.missing, ", ")
	cats := []filter.Category{{Name: "drop"}, {Name: "other"}}
	for p := 1; p <= maxPriority; p++ {
		cats = append(cats, filter.Category{Name: priorityName(p)})
	}
	for _, k := range c.classes {
		cats = append(cats, filter.Category{Name: k})
	}
	for _, s := range slices.Compact(slices.Clone(c.sids)) {
		cats = append(cats, filter.Category{Name: strconv.FormatUint(uint64(s), 10)})
	}
	for i := range cats {
		cats[i].Missing = missing
	}
	return cats
}

// Awaits reports whether a policy may name a category that no rule has: a rule number, if
// rules are fetched, because a fetched version may have it.
func (c *Check) Awaits(category string) bool {
	_, err := strconv.ParseUint(category, 10, 32)
	return err == nil && len(c.fetched) > 0
}

// HasRule reports whether a rule has this number.
func (c *Check) HasRule(sid uint32) bool {
	_, ok := slices.BinarySearch(c.sids, sid)
	return ok
}

// maxPriority is the least urgent priority that policies can name. Less urgent rules get this
// one.
const maxPriority = 4

func priorityName(p int) string { return "priority-" + strconv.Itoa(min(max(p, 1), maxPriority)) }

// Wants reports whether a rule could inspect the stage.
func (c *Check) Wants(t *filter.Transaction, s filter.Stage) bool {
	switch s {
	case filter.Name:
		return t.Proto == filter.DNS && c.engine.Has(rule.DNS, rule.ToServer, rule.Line) || t.Proto == filter.TLS && c.AsksTLS()
	case filter.Request:
		return c.engine.Has(rule.HTTP1|rule.HTTP2, rule.ToServer, rule.Line)
	case filter.RequestBody:
		return c.engine.Has(rule.HTTP1|rule.HTTP2, rule.ToServer, rule.Body)
	case filter.Response:
		return c.engine.Has(rule.HTTP1|rule.HTTP2, rule.ToClient, rule.Line)
	}
	if t.Request != nil && t.Request.Method == "HEAD" {
		return false
	}
	if t.Response != nil {
		if st := t.Response.Status; st < 200 || st == 204 || st == 205 || st == 304 || t.Content().IsStream() {
			return false
		}
	}
	return c.engine.Has(rule.HTTP1|rule.HTTP2, rule.ToClient, rule.Body)
}

// AsksTLS reports whether a rule could inspect a TLS handshake.
func (c *Check) AsksTLS() bool {
	return c.engine.Has(rule.TLS, rule.ToServer, rule.Line) || c.engine.Has(rule.TLS, rule.ToClient, rule.Line)
}

// Find tries the rules on the data known at stage s.
func (c *Check) Find(_ context.Context, t *filter.Transaction, s filter.Stage, dst []filter.Finding) ([]filter.Finding, error) {
	if !c.Wants(t, s) {
		return dst, nil
	}
	var alerts []engine.Alert
	var none map[uint32]bool
	seen := &none
	switch {
	case s == filter.Name:
		var o engine.ExceededLimits
		alerts, o = c.name(t)
		dst = reportExceeded(t, o, dst)
	case t.Request == nil:
		return dst, nil
	default:
		m := c.message(t)
		if m == nil {
			break
		}
		seen = &m.seen
		alerts = m.inspect(t, s)
		dst = reportExceeded(t, m.tx.Over, dst)
		m.tx.Over = engine.ExceededLimits{}
		if s == filter.ResponseBody && (t.Body == nil || t.Body.Complete()) {
			m.close(t)
			if t.Request.Length == message.None { // nobody judges an upload at the same time
				defer m.free()
			}
		}
	}
	dst = c.findings(alerts, seen, t.Terse, dst)
	if s == filter.RequestBody {
		dst = c.unread(t.Upload, dst)
	} else if s == filter.ResponseBody {
		dst = c.unread(t.Body, dst)
	}
	return dst, nil
}

// findings appends findings for alerts that were not reported before.
func (c *Check) findings(alerts []engine.Alert, seen *map[uint32]bool, terse bool, dst []filter.Finding) []filter.Finding {
	for i := range alerts {
		a := &alerts[i]
		if a.Silent && a.Action >= rule.Alert || (*seen)[a.SID] {
			continue
		}
		if *seen == nil {
			*seen = map[uint32]bool{}
		}
		(*seen)[a.SID] = true
		dst = c.report(a, terse, dst)
	}
	return dst
}

// SeeRefused implements [filter.Witness]: it tries the rules on malformed requests, which are not
// forwarded, and on DNS messages that the name server answers by itself.
func (c *Check) SeeRefused(t *filter.Transaction, head []byte) {
	if t.Proto == filter.DNS {
		c.refusedDNS(t, head)
		return
	}
	if len(head) == 0 || !c.engine.Has(rule.HTTP1, rule.ToServer, rule.Line) {
		return
	}
	m := &exchange{id: t.ID, check: c}
	c.start(&m.tx, t, connection(t).Flow)
	m.tx.Source, m.tx.App = m.http.Joined(), rule.HTTP1
	m.setMalformed(head)
	alerts := c.engine.Inspect(&m.tx, rule.ToServer, rule.Complete, nil)
	t.Findings = c.findings(alerts, &m.seen, t.Terse, reportExceeded(t, m.tx.Over, t.Findings))
}

// report appends the findings for one alert.
func (c *Check) report(a *engine.Alert, terse bool, dst []filter.Finding) []filter.Finding {
	evidence := ""
	if !terse {
		class := ""
		if a.Class != nil {
			class = a.Class.Text
		}
		evidence = fmt.Sprintf("sid %d rev %d: %s (class %q, priority %d, %s:%d)", a.SID, a.Rev, a.Msg, class, a.Priority, filepath.Base(a.File), a.Line)
		if len(a.Metadata) > 0 {
			evidence += " [" + strings.Join(a.Metadata, ", ") + "]"
		}
	}
	class := a.Rule.Class
	if class == "" {
		class = "other"
	}
	names := []string{class, strconv.FormatUint(uint64(a.SID), 10), priorityName(a.Priority)}
	if a.Action < rule.Alert && a.Action > rule.Pass {
		names = append(names, "drop")
	}
	for i, n := range names {
		f := filter.Finding{Check: "signature", Category: n}
		if i == 0 {
			f.Evidence = evidence
		} else if !terse {
			f.Evidence = fmt.Sprintf("sid %d", a.SID)
		}
		dst = append(dst, f)
	}
	return dst
}

// reportExceeded reports rules that were given up because they exceeded a limit, and notes which ones
// are disabled from now on.
func reportExceeded(t *filter.Transaction, o engine.ExceededLimits, dst []filter.Finding) []filter.Finding {
	for _, sid := range o.Disabled {
		if t.Note != "" {
			t.Note += "; "
		}
		t.Note += fmt.Sprintf("signature rule %d is disabled: it would have taken more than 1 ms or 3,000 steps too often", sid)
	}
	for _, sid := range o.Rules {
		dst = append(dst, filter.Finding{Check: "signature", Category: filter.Unread, Evidence: fmt.Sprintf("too-slow: sid %d was stopped: it would take more than 1 ms or 3,000 steps", sid)})
	}
	if o.Transform {
		dst = append(dst, filter.Finding{Check: "signature", Category: filter.Unread, Evidence: "too-slow: the expression of a pcrexform was stopped; rules saw the buffer without it"})
	}
	if o.Message {
		dst = append(dst, filter.Finding{Check: "signature", Category: filter.Unread, Evidence: "too-slow: the rules that remained after the message had taken 50 ms were not tried"})
	}
	return dst
}

// unread reports the part of a body that rules did not inspect.
func (c *Check) unread(b *content.Body, dst []filter.Finding) []filter.Finding {
	if b == nil {
		return dst
	}
	data, err := b.Decoded()
	switch {
	case err != nil:
		return append(dst, filter.Finding{Check: "signature", Category: filter.Unread, Evidence: err.Error()})
	case len(data) > c.body:
		return append(dst, filter.Finding{Check: "signature", Category: filter.Unread, Evidence: fmt.Sprintf("too-large: inspected %d of %d bytes", c.body, len(data))})
	}
	return dst
}

// ends returns the addresses of a transaction.
func ends(t *filter.Transaction) (client, server netip.AddrPort) {
	addr := t.Server
	if last := len(t.Host) - 1; !addr.IsValid() && last >= 0 && (t.Host[last] >= '0' && t.Host[last] <= '9' || strings.Contains(t.Host, ":")) {
		addr, _ = netip.ParseAddr(t.Host)
	}
	if !addr.IsValid() {
		addr = netip.IPv4Unspecified()
		if t.Client.Addr.Is6() {
			addr = netip.IPv6Unspecified()
		}
	}
	return netip.AddrPortFrom(t.Client.Addr, 0), netip.AddrPortFrom(addr, t.Port)
}

// start sets the fields common to all messages.
func (c *Check) start(tx *engine.Tx, t *filter.Transaction, f *state.Flow) {
	tx.Flow, tx.L4, tx.Now = f, rule.TCP, c.now()
	tx.Client, tx.Server = ends(t)
	tx.Packet.Established = true
}

// connection returns the state of the connection of t.
func connection(t *filter.Transaction) *flow {
	if t.Flow == nil {
		return &flow{Flow: &state.Flow{}}
	}
	return t.Flow.Update(flowKey{}, func(old any) any {
		if old != nil {
			return old
		}
		return &flow{Flow: &state.Flow{}}
	}).(*flow)
}

// message returns the exchange of t, from the connection or a new one. It returns nil if rules
// have inspected all of it.
func (c *Check) message(t *filter.Transaction) (m *exchange) {
	if t.Flow == nil {
		return c.open(t, &state.Flow{})
	}
	t.Flow.Update(flowKey{}, func(old any) any {
		f, _ := old.(*flow)
		if f == nil {
			f = &flow{Flow: &state.Flow{}}
		}
		for _, o := range slices.Backward(f.open) {
			if o.id == t.ID && o.check == c {
				m = o
				return f
			}
		}
		if f.isOver(t.ID) {
			return f
		}
		m = c.open(t, f.Flow)
		f.open = append(f.open, m)
		if len(f.open) > maxOpen {
			f.open = slices.Delete(f.open, 0, 1)
		}
		return f
	})
	return m
}

// close forgets an exchange, except for its identifier.
func (m *exchange) close(t *filter.Transaction) {
	m.tx.Close()
	if t.Flow == nil {
		return
	}
	t.Flow.Update(flowKey{}, func(old any) any {
		f := old.(*flow)
		if i := slices.Index(f.open, m); i >= 0 {
			f.open = slices.Delete(f.open, i, i+1)
			f.setOver(m.id)
		}
		return f
	})
}

// overBytes limits the identifiers of exchanges that are over.
const overBytes = 1 << 10

// setOver records that rules have inspected all of an exchange.
func (f *flow) setOver(id string) {
	if len(f.over) > overBytes { // forget the older half
		half := len(f.over) / 2
		f.over = append(f.over[:0], f.over[half+bytes.IndexByte(f.over[half:], 0):]...)
	}
	if len(f.over) == 0 {
		f.over = append(f.over, 0)
	}
	f.over = append(append(f.over, id...), 0)
}

// isOver reports whether rules have inspected all of an exchange.
func (f *flow) isOver(id string) bool {
	var room [64]byte
	return bytes.Contains(f.over, append(append(append(room[:0], 0), id...), 0))
}

// keptFields is the most fields of a head whose memory is kept.
const keptFields = 64

// exchanges are unused.
var exchanges = sync.Pool{New: func() any { return new(exchange) }}

// free lets a closed exchange be used for another request.
func (m *exchange) free() {
	tx, one, two := m.tx, m.http.Sides[0].Headers, m.http.Sides[1].Headers
	*m = exchange{tx: tx}
	for i, h := range [...][]traffic.Header{one, two} {
		if clear(h); cap(h) <= keptFields {
			m.http.Sides[i].Headers = h[:0]
		}
	}
	exchanges.Put(m)
}

func (c *Check) open(t *filter.Transaction, f *state.Flow) *exchange {
	m := exchanges.Get().(*exchange)
	m.id, m.check = t.ID, c
	c.start(&m.tx, t, f)
	m.tx.Source, m.tx.App = m.http.Joined(), rule.HTTP1
	if t.Request.Proto == 20 {
		m.tx.App, m.http.Two = rule.HTTP2, true
	}
	return m
}

// Problems returns the rules that are disabled because they took too long or refused because of
// the files that they name, the sources that are not yet fetched, and datasets that lose values.
func (c *Check) Problems() (all []string) {
	for _, p := range c.engine.State().Problems() {
		all = append(all, "signature rules: "+p)
	}
	if refused := c.Refused(); len(refused) > 0 {
		all = append(all, fmt.Sprintf("signature rules: %d are left out because of files that they name (%s); \"shuultuur check\" names all", len(refused), strings.Join(refused[:min(len(refused), maxNamed)], "; ")))
	}
	all = append(all, c.damaged...)
	if len(c.missing) > 0 {
		all = append(all, fmt.Sprintf("signature rules: %s not fetched yet; no rules until then", strings.Join(c.missing, ", ")))
	}
	if c.engine.Counters().Disabled.Load() == 0 {
		return all
	}
	rules, _ := c.engine.Profiles()
	var sids []string
	for _, p := range rules {
		if p.Disabled && len(sids) < maxNamed {
			sids = append(sids, strconv.FormatUint(uint64(p.SID), 10))
		}
	}
	return append(all, fmt.Sprintf("signature rules: %d are disabled because they took too long (%s); correct them or name them in checks.signature.disable, and reload", c.engine.Counters().Disabled.Load(), strings.Join(sids, ", ")))
}

// maxNamed limits the rules that a problem lists.
const maxNamed = 10
