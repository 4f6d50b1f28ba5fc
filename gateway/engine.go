package gateway

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"shuultuur/atomicfile"
	"shuultuur/check"
	"shuultuur/check/phrase"
	"shuultuur/filter"
	"shuultuur/identity"
	"shuultuur/intercept"
	"shuultuur/list"
	"shuultuur/list/source"
	"shuultuur/nameserver/resolve"
	"shuultuur/policy"
	"shuultuur/proxy"
	"shuultuur/state"
)

// An Engine is everything built from one reading of the settings and of the
// files they name. It never changes.
type Engine struct {
	settings  *Settings
	lists     map[string]*list.File
	policy    *policy.Engine
	identity  *identity.Identity
	clients   *identity.Names
	proxy     *proxy.Engine
	downloads map[string]download // lists that are fetched
	versions  map[string]string   // which version of them is in use
	content   []string            // files that lists and checks were made of
	missing   []string            // those of them that have not been yet
	reports   []list.Report       // what became of the lines of each list
	remarks   []phrase.Remark     // odd lines of phrase lists
	odd       []list.Problem      // and of lists that rules name
	files     []string            // what it was built from
	stamp     string              // fingerprint of these files when they were read
	revision  string              // a digest of it
	resolver  *resolve.Resolver   // nil without a name server
	offline   *resolve.Store      // its store when it may ask nobody
	built     time.Time
}

// build makes an engine. Nothing is half-built: on an error what was opened is
// let go.
func build(ctx context.Context, s *Settings, memory state.Store, store *resolve.Store, rest *policy.Pauses, log *slog.Logger) (*Engine, error) {
	e := &Engine{settings: s, lists: map[string]*list.File{}, downloads: map[string]download{}, versions: map[string]string{}, built: time.Now()}
	if err := e.fill(ctx, memory, store, rest, log); err != nil {
		e.close()
		return nil, s.mistake(err)
	}
	return e, nil
}

func (e *Engine) fill(ctx context.Context, memory state.Store, store *resolve.Store, rest *policy.Pauses, log *slog.Logger) error {
	s := e.settings
	e.files = append(e.files, s.file)
	if n := len(s.Listen.Token); n > 0 && n < 16 {
		return filter.Setting("listen.token", fmt.Errorf("%d bytes can be guessed; give 16 or more", n))
	}
	if err := e.openLists(ctx, log); err != nil {
		return err
	}
	checks, err := check.New(s.Checks, check.Parts{Lists: e.lists, Dir: s.dir, Now: time.Now})
	if err != nil {
		return filter.Setting("checks", err)
	}
	for _, f := range checks.Files {
		e.files = append(e.files, s.path(f))
	}
	e.content = append(e.content, e.files[1:]...) // but for the settings themselves
	e.remarks = checks.Remarks
	if err := e.identify(); err != nil {
		return err
	}
	cert, err := e.certificate()
	if err != nil {
		return filter.Setting("listen.tls", err)
	}
	pages, err := proxy.NewPages(s.path(s.Pages.Templates), s.Pages.Contact)
	if err != nil {
		return filter.Setting("pages.templates", err)
	}
	if s.Pages.Templates != "" {
		e.files = append(e.files, s.path(s.Pages.Templates))
	}
	before := len(e.files)
	policies, err := e.values()
	if err != nil {
		return err
	}
	e.content = append(e.content, e.files[before:]...)
	look, err := e.intercept(memory)
	if err != nil {
		return err
	}
	if d := s.DNS; d != nil {
		for _, f := range d.Names.HostsFiles {
			e.files = append(e.files, s.path(f))
		}
	}
	// All files are known: what is built from here on is built from these.
	e.stamp = e.fingerprint()
	digest := sha256.Sum256([]byte(e.stamp))
	e.revision = hex.EncodeToString(digest[:8])
	if err := e.decide(policies, checks.Checks, memory, rest, log); err != nil {
		return err
	}
	if err := e.names(store); err != nil {
		return err
	}
	e.proxy = &proxy.Engine{Decider: e.policy, Identify: identify(e.identity), Accept: e.policy.Accept, Balance: e.balance, Pages: pages, TLS: cert, JA4: e.policy.AsksJA4(), Intercept: look}
	return e.tryFixed()
}

// decide makes the policies out of the checks.
func (e *Engine) decide(policies policy.Config, checks []filter.Check, memory state.Store, rest *policy.Pauses, log *slog.Logger) error {
	key, err := secret(filepath.Join(e.settings.path(e.settings.Data), "secret.key"))
	if err != nil {
		return err
	}
	parts := policy.Parts{Key: key, Revision: e.revision, Pauses: rest, Log: log}
	if memory != nil {
		parts.Memory, parts.Counter = memory, memory
	}
	if memory != nil && e.shared() {
		if parts.Revision, err = e.common(); err != nil {
			return err
		}
	}
	if e.policy, err = policy.New(policies, checks, parts); err != nil {
		return filter.Setting("policies", err)
	}
	return nil
}

// tryFixed looks for mistakes in the settings that only a start takes into
// use, so that they are named now and not then.
func (e *Engine) tryFixed() error {
	if _, err := e.settings.Events.WithDefaults(); err != nil {
		return filter.Setting("events", err)
	}
	if _, err := proxy.New(e.settings.Proxy, e.proxy, nil, nil); err != nil {
		return filter.Setting("proxy", err)
	}
	return e.tryDNS()
}

// openLists compiles what has changed and opens every list, in the order of
// their names.
func (e *Engine) openLists(ctx context.Context, log *slog.Logger) error {
	s := e.settings
	names := make([]string, 0, len(s.Lists))
	for name := range s.Lists {
		names = append(names, name)
	}
	slices.Sort(names)
	dir := s.compiledLists()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making the folder for compiled lists: %w", err)
	}
	store, err := s.store()
	if err != nil {
		return err
	}
	compiled := false
	for _, name := range names {
		anew, err := e.openList(ctx, name, filepath.Join(dir, name+".list"), store, log)
		if err != nil {
			return filter.Setting("lists."+name, err)
		}
		compiled = compiled || anew
	}
	if compiled {
		debug.FreeOSMemory() // a small box wants back now what sorting took
	}
	return nil
}

// openList compiles the list called name to dst if it has changed, and opens
// it. One that is still to be fetched is empty.
func (e *Engine) openList(ctx context.Context, name, dst string, store *source.Store, log *slog.Logger) (compiled bool, err error) {
	s := e.settings
	d, fetched, err := s.resolve(name, store)
	if err != nil {
		return false, err
	}
	if fetched {
		e.downloads[name] = d
		st, err := store.State(name)
		if err != nil {
			return false, err
		}
		for _, v := range st.Versions {
			if v.Current {
				e.versions[name] = v.SHA256
			}
		}
	}
	var report list.Report
	start := time.Now()
	if _, missing := os.Stat(d.list.Path); fetched && errors.Is(missing, fs.ErrNotExist) {
		e.missing = append(e.missing, name)
		err = store.Empty(ctx, name, d.source, d.list, dst)
		report = list.Report{Name: name, Reused: true}
	} else {
		report, err = list.Compile(ctx, name, d.list, dst)
	}
	if err != nil {
		return false, err
	}
	f, err := list.Open(dst)
	if err != nil {
		return false, err
	}
	e.lists[name] = f
	e.files = append(e.files, d.list.Path, dst+".overlay")
	for _, src := range report.Sources { // includes among them
		if src.Path != d.list.Path {
			e.files = append(e.files, src.Path)
		}
	}
	e.reports = append(e.reports, report)
	if !report.Reused {
		log.Info("list compiled", "list", name, "entries", report.Entries, "refused", report.Bad, "took", time.Since(start).Round(time.Millisecond))
	}
	if report.Note != "" {
		log.Warn(report.Note, "list", name)
	}
	return !report.Reused, nil
}

func plainName(s string) bool {
	return s != "" && len(s) <= 100 && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
	})
}

func (e *Engine) identify() (err error) {
	s := e.settings
	cfg := s.Identity
	if cfg.Basic != nil {
		basic := *cfg.Basic
		basic.File = s.path(basic.File)
		cfg.Basic = &basic
		e.files = append(e.files, basic.File)
	}
	if e.identity, err = identity.New(cfg); err != nil {
		return filter.Setting("identity", err)
	}
	if e.clients, err = identity.NewNames(s.clientNames(), e.identity); err != nil {
		return filter.Setting("identity.names", err)
	}
	return nil
}

func (e *Engine) certificate() (*tls.Config, error) {
	k := e.settings.Listen.TLS
	if k == nil {
		return nil, nil
	}
	cert, key := e.settings.path(k.Cert), e.settings.path(k.Key)
	e.files = append(e.files, cert, key)
	c, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	return &tls.Config{Certificates: []tls.Certificate{c}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}, nil
}

// intercept makes what looks into TLS connections, nil when no policy wants to.
func (e *Engine) intercept(memory state.Store) (*proxy.Interception, error) {
	s := e.settings
	wanted := slices.IndexFunc(s.Policies, func(p policy.Policy) bool { return p.Decrypt })
	if s.Intercept == nil {
		if wanted >= 0 {
			return nil, filter.Setting(fmt.Sprintf("policies[%d].decrypt", wanted),
				errors.New("to look into TLS a root certificate is needed; make one with \"shuultuur ca init\" and name it under intercept: root"))
		}
		return nil, nil
	}
	c := s.Intercept
	if c.ExceptAfter < 0 {
		return nil, filter.Setting("intercept.except-after", errors.New("must not be negative"))
	}
	root := s.path(c.Root)
	e.files = append(e.files, root)
	a, err := intercept.New(intercept.Config{Root: root, LeafDays: c.LeafDays, Leaves: c.Leaves})
	if err != nil {
		return nil, filter.Setting("intercept", err)
	}
	roots, err := e.trusted(c.Trust)
	if err != nil {
		return nil, err
	}
	v, err := intercept.NewVerifier(intercept.VerifierConfig{Roots: roots, Dial: s.Proxy.DialPublic})
	if err != nil {
		return nil, filter.Setting("intercept", err)
	}
	if wanted < 0 {
		return nil, nil
	}
	in := &proxy.Interception{Authority: a, Verifier: v, Wanted: func(t *filter.Transaction) bool { return e.policy.Decrypts(t) }, ExceptAfter: c.ExceptAfter}
	if memory != nil {
		in.Memory = memory
	}
	return in, nil
}

// keep goes on with the certificates and tickets of the engine before, as long
// as they are made with the same root: clients resume their sessions.
func (e *Engine) keep(old *Engine) {
	anew, before := e.proxy.Intercept, old.proxy.Intercept
	if anew != nil && before != nil && anew.Authority.Equal(before.Authority) {
		anew.Authority = before.Authority
	}
}

// trusted returns the system's roots and those in files, or nil for the
// system's alone.
func (e *Engine) trusted(files []string) (*x509.CertPool, error) {
	if len(files) == 0 {
		return nil, nil
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("reading the system's root certificates: %w", err)
	}
	for i, f := range files {
		f = e.settings.path(f)
		e.files = append(e.files, f)
		pem, err := os.ReadFile(f)
		if err == nil && !pool.AppendCertsFromPEM(pem) {
			err = fmt.Errorf("%q holds no certificate in PEM form", f)
		}
		if err != nil {
			return nil, filter.Setting(fmt.Sprintf("intercept.trust[%d]", i), err)
		}
	}
	return pool, nil
}

// close lets go of the lists at once. It is for engines that serve nobody
// (any more); the lists of one that is swapped out go when their last reader
// has gone.
func (e *Engine) close() {
	for _, f := range e.lists {
		f.Close()
	}
	if e.offline != nil {
		e.offline.Close()
	}
}

// fingerprint changes when one of the files the engine was built from does:
// sizes and times of change, of whole folders where a list is one.
func (e *Engine) fingerprint() string {
	var b strings.Builder
	for _, f := range e.files {
		stamp(&b, f)
	}
	return b.String()
}

// maxStamped bounds the files of one folder that are looked at for changes.
const maxStamped = 10_000

func stamp(b *strings.Builder, path string) {
	info, err := os.Stat(path)
	if err != nil {
		fmt.Fprintf(b, "%s gone\n", path)
		return
	}
	if !info.IsDir() {
		fmt.Fprintf(b, "%s %d %d\n", path, info.Size(), info.ModTime().UnixNano())
		return
	}
	n := 0
	// What cannot be read is as good as gone until it can.
	_ = filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if n++; n > maxStamped {
			return fs.SkipAll
		}
		if err != nil || d.IsDir() {
			return nil
		}
		if info, err := os.Stat(p); err == nil {
			fmt.Fprintf(b, "%s %d %d\n", p, info.Size(), info.ModTime().UnixNano())
		}
		return nil
	})
}

// secret reads the key that signs what a client carries back to us, and makes
// one the first time.
func secret(file string) ([]byte, error) {
	key, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		key = make([]byte, 32)
		_, _ = rand.Read(key) // never fails (crypto/rand)
		err := os.MkdirAll(filepath.Dir(file), 0o755)
		if err == nil {
			err = atomicfile.WriteBytes(file, 0o600, key)
		}
		return key, err
	}
	if err != nil {
		return nil, fmt.Errorf("reading the signing key: %w", err)
	}
	if len(key) != 32 {
		return nil, fmt.Errorf("%s: the signing key has %d bytes instead of 32; delete the file and a new one is made", file, len(key))
	}
	if info, err := os.Stat(file); err == nil && info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s: others may read the signing key (mode %04o); chmod 600 it", file, info.Mode().Perm())
	}
	return key, nil
}

// As returns the decider of the engine, or one that judges everybody by the
// policy called name.
func (e *Engine) As(name string) (filter.Decider, error) {
	if name == "" {
		return e.policy, nil
	}
	return e.policy.As(name)
}

// Identify says who is at addr when nobody has logged in.
func (e *Engine) Identify(ctx context.Context, addr netip.Addr) (filter.Client, error) {
	return e.identity.Identify(ctx, addr, nil)
}

// fixed lists the parts in which other differs and that only a restart can
// change.
func (s *Settings) fixed(other *Settings) []string {
	var parts []string
	if fmt.Sprint(s.Listen.addresses()) != fmt.Sprint(other.Listen.addresses()) {
		parts = append(parts, "listen")
	}
	if s.Data != other.Data {
		parts = append(parts, "data")
	}
	if fmt.Sprint(s.Proxy) != fmt.Sprint(other.Proxy) {
		parts = append(parts, "proxy")
	}
	if s.Events != other.Events {
		parts = append(parts, "events")
	}
	if (s.DNS == nil) != (other.DNS == nil) || s.DNS != nil && s.DNS.fixed() != other.DNS.fixed() {
		parts = append(parts, "dns")
	}
	if !reflect.DeepEqual(s.State, other.State) {
		parts = append(parts, "state")
	}
	return parts
}

// problems counts what is worth a look in the lists, for the operator.
func (e *Engine) problems() []string {
	var p []string
	for _, name := range e.missing {
		p = append(p, fmt.Sprintf("list %s: not fetched yet, and empty until it is", name))
	}
	for _, r := range e.reports {
		if r.Bad > 0 {
			p = append(p, fmt.Sprintf("list %s: %d of %d lines refused; \"shuultuur check\" names them", r.Name, r.Bad, r.Lines))
		}
	}
	p = append(p, e.clients.Problems()...)
	if n := len(e.odd); n > 0 {
		p = append(p, fmt.Sprintf("lists of extensions, types and searches: %d odd lines; \"shuultuur check\" names them", n))
	}
	if n := len(e.remarks); n > 0 {
		p = append(p, fmt.Sprintf("phrase lists: %d odd lines; \"shuultuur check\" names them", n))
	}
	return p
}

// Print writes what became of the lists and phrases, with every line that is
// worth a look.
func (e *Engine) Print(w io.Writer) {
	for _, r := range e.reports {
		for _, p := range r.Problems {
			fmt.Fprintln(w, p)
		}
		fmt.Fprintf(w, "list %s: %d entries, %d of them URLs, %d categories; %d lines, %d refused, %d ignored, %d twice\n",
			r.Name, r.Entries, r.URLs, len(r.Categories), r.Lines, r.Bad, r.Ignored, r.Duplicates)
	}
	for _, name := range e.missing {
		fmt.Fprintf(w, "list %s: not fetched yet, and empty until it is; \"shuultuur list update\" fetches it\n", name)
	}
	for _, p := range e.odd {
		fmt.Fprintln(w, p)
	}
	for _, m := range e.remarks {
		fmt.Fprintln(w, m)
	}
}
