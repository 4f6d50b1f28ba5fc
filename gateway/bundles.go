package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"shuultuur/admin/account"
	"shuultuur/admin/hook"
	"shuultuur/engine"
	"shuultuur/engine/configuration"
	"shuultuur/fleet/bundle"
	"shuultuur/lib/atomicfile"
	"shuultuur/lib/platform"
	"shuultuur/lib/problem"
	"shuultuur/lib/setting"
)

// This file puts bundles of a fleet into use, and makes them. A bundle is tried while its files lie in a
// folder of their own. Then what it replaces is copied, its files are written beside the settings, and
// the settings last. If that fails, or the program ends before it is done, the copies are put back.

// A bundleUser puts bundles into use in a gateway.
type bundleUser struct{ g *Gateway }

// Files in the folder of bundles: what is put back after a failure, and what was put into use, by which
// changes on this node are found.
const (
	beforeFolder = "before"
	beforeFile   = "before.json"
	placedFile   = "placed.json"
)

// replaced says what a bundle has replaced.
type replaced struct {
	Text  []byte   `json:"text"`  // of the settings
	Files []string `json:"files"` // of which there is a copy
	New   []string `json:"new"`   // that were not there
}

// placed are the digests of what a bundle put into use.
type placed struct {
	Keys  map[string]string    `json:"keys"`
	Files map[string]placedSum `json:"files"`
}

type placedSum struct {
	Stamp string `json:"stamp"`
	Sum   string `json:"sum"`
}

// Wait implements [bundle.User].
func (u bundleUser) Wait(ctx context.Context) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !u.g.ready.Load() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}

// Use implements [bundle.User].
func (u bundleUser) Use(ctx context.Context, folder string, m *bundle.Manifest, gone []string) error {
	g := u.g
	g.saving.Lock()
	defer g.saving.Unlock()
	was, err := os.ReadFile(g.file)
	if err != nil {
		return err
	}
	text, err := withKeys(was, filepath.Join(folder, bundle.SettingsName), m.Keys)
	if err != nil {
		return err
	}
	var names []string
	for _, f := range m.Files {
		if f.Name != bundle.SettingsName {
			names = append(names, f.Name)
		}
	}
	touched := slices.Concat(names, gone)
	if err := u.mayPlace(touched); err != nil {
		return err
	}
	if err := u.tryBundle(ctx, text, folder); err != nil {
		return err
	}
	undo, err := u.keepReplaced(was, touched)
	if err != nil {
		return fmt.Errorf("keeping what the bundle replaces: %w", err)
	}
	if err := u.place(ctx, folder, names, gone, text); err != nil {
		return errors.Join(err, undo(), g.Reload(context.WithoutCancel(ctx)))
	}
	kept := g.engine.Load().Settings.Versions()
	if err := errors.Join(kept.KeepDisk(was), kept.Add(text, "bundle", m.Version)); err != nil {
		g.log.Error("the settings of the bundle are in use, and not kept in the history", "error", err)
	}
	// It is in use; what fails now costs the sight of changes on this node, or leaves copies that a start
	// must not put back.
	if err := u.keepPlaced(m, text); err != nil {
		g.log.Error("changes to what the bundle brought will not be seen", "error", err)
	}
	if err := os.RemoveAll(filepath.Join(u.folder(), beforeFolder)); err != nil {
		return fmt.Errorf("the bundle is in use, and the next start would put back what it replaced: remove %s: %w", filepath.Join(u.folder(), beforeFolder), err)
	}
	return nil
}

// folder returns the folder of bundles.
func (u bundleUser) folder() string {
	return filepath.Join(string(u.g.engine.Load().Settings.Data), bundle.KeptIn)
}

// withKeys returns a text of settings in which keys are those of a bundle.
func withKeys(text []byte, file string, keys []string) ([]byte, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	theirs, err := setting.CopyOf(bundle.SettingsName, data)
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		if !theirs.Has(key) {
			return nil, fmt.Errorf("the bundle says that it has %s, and its %s has not", key, bundle.SettingsName)
		}
		if text, err = setting.Edit(text, setting.Change{Path: []any{key}, Value: theirs.Part(key)}); err != nil {
			return nil, fmt.Errorf("%s of the bundle: %w", key, err)
		}
	}
	return text, nil
}

// mayPlace refuses files in places that are not a bundle's.
func (u bundleUser) mayPlace(names []string) error {
	g := u.g
	s := g.engine.Load().Settings
	own := append(setting.PowerFiles(s, account.Owner.String()), g.file, hook.Path(g.file), string(s.Data))
	own = slices.AppendSeq(own, maps.Keys(s.Text.SecretFiles()))
	for _, name := range names {
		to := filepath.Join(s.Dir, filepath.FromSlash(name))
		for _, path := range own {
			if path := filepath.Clean(path); to == path || isBelow(to, path) || isBelow(path, to) {
				return fmt.Errorf("the bundle has a file %q, and %s is this node's own", name, path)
			}
		}
		for at := to; at != s.Dir; at = filepath.Dir(at) {
			if info, err := os.Lstat(at); err == nil && info.Mode()&fs.ModeSymlink != 0 {
				return fmt.Errorf("the bundle has a file %q, and %s leads elsewhere on this node", name, at)
			}
		}
	}
	return nil
}

// tryBundle finds out whether the gateway can run a text of settings, with the files that a bundle has
// in a folder.
func (u bundleUser) tryBundle(ctx context.Context, text []byte, folder string) error {
	g := u.g
	if at := setting.NewSecretPlace(g.engine.Load().Settings.Text.Data(), text, &configuration.Settings{}); at != "" {
		return fmt.Errorf("the bundle names the place of a secret that this node's settings do not name (%s): write it into them first", at)
	}
	s, err := configuration.Parse(g.file, text)
	if err != nil {
		return err
	}
	s.StandIns(folder)
	g.questions.Lock()
	defer g.questions.Unlock()
	e, done, err := engine.TryChange(ctx, g.questions.engine, s, nil)
	if err != nil {
		return err
	}
	defer done()
	return e.Expectations(ctx)
}

// keepReplaced copies what a bundle replaces, and returns what puts it back.
func (u bundleUser) keepReplaced(text []byte, names []string) (undo func() error, err error) {
	g := u.g
	dir, at := g.engine.Load().Settings.Dir, filepath.Join(u.folder(), beforeFolder)
	if err := errors.Join(os.RemoveAll(at), os.MkdirAll(at, 0o750)); err != nil {
		return nil, err
	}
	r := replaced{Text: text}
	for _, name := range names {
		from := filepath.Join(dir, filepath.FromSlash(name))
		switch err := copyFile(from, filepath.Join(at, "files", filepath.FromSlash(name)), modeOf(from)); {
		case errors.Is(err, fs.ErrNotExist):
			r.New = append(r.New, name)
		case err != nil:
			return nil, err
		default:
			r.Files = append(r.Files, name)
		}
	}
	b, err := json.Marshal(&r)
	if err != nil {
		return nil, err
	}
	// From here on a start puts it back.
	if err := atomicfile.WriteBytes(filepath.Join(at, beforeFile), 0o600, b); err != nil {
		return nil, err
	}
	return func() error { return putReplacedBack(g.file, at) }, nil
}

// putReplacedBack puts back what a bundle has replaced, if there is something.
func putReplacedBack(file, at string) error {
	b, err := os.ReadFile(filepath.Join(at, beforeFile))
	if errors.Is(err, fs.ErrNotExist) {
		return os.RemoveAll(at) // copies that were not complete
	}
	var r replaced
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil {
		return fmt.Errorf("putting back what a bundle has replaced: %w", err)
	}
	dir := filepath.Dir(file)
	for _, name := range r.Files {
		from := filepath.Join(at, "files", filepath.FromSlash(name))
		if err := copyFile(from, filepath.Join(dir, filepath.FromSlash(name)), modeOf(from)); err != nil {
			return fmt.Errorf("putting back what a bundle has replaced: %w", err)
		}
	}
	for _, name := range r.New {
		if err := os.Remove(filepath.Join(dir, filepath.FromSlash(name))); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing what a bundle has brought: %w", err)
		}
	}
	if err := atomicfile.WriteBytes(file, modeOf(file), r.Text); err != nil {
		return fmt.Errorf("putting back the settings before a bundle: %w", err)
	}
	return os.RemoveAll(at)
}

// putReplacedBackAtStart puts back what a bundle has replaced whose use was interrupted.
func putReplacedBackAtStart(file string) error {
	s, err := configuration.Read(file)
	if err != nil {
		return nil //nolint:nilerr // the start names the mistakes
	}
	return putReplacedBack(file, filepath.Join(string(s.Data), bundle.KeptIn, beforeFolder))
}

func modeOf(file string) fs.FileMode {
	if info, err := os.Stat(file); err == nil {
		return info.Mode().Perm()
	}
	return 0o644
}

// copyFile copies a file, and makes the folders above the copy.
func copyFile(from, to string, mode fs.FileMode) error {
	r, err := os.Open(from)
	if err != nil {
		return err
	}
	defer r.Close()
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return atomicfile.Write(to, mode, func(w *os.File) error {
		_, err := io.Copy(w, r)
		return err
	})
}

// place writes the files of a bundle beside the settings, and the settings, and puts them into use.
func (u bundleUser) place(ctx context.Context, folder string, names, gone []string, text []byte) error {
	g := u.g
	dir := g.engine.Load().Settings.Dir
	for _, name := range names {
		to := filepath.Join(dir, filepath.FromSlash(name))
		if err := copyFile(filepath.Join(folder, filepath.FromSlash(name)), to, modeOf(to)); err != nil {
			return err
		}
	}
	for _, name := range gone {
		if err := os.Remove(filepath.Join(dir, filepath.FromSlash(name))); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := atomicfile.WriteBytes(g.file, modeOf(g.file), text); err != nil {
		return err
	}
	return g.Reload(context.WithoutCancel(ctx))
}

// keepPlaced remembers what a bundle put into use.
func (u bundleUser) keepPlaced(m *bundle.Manifest, text []byte) error {
	g := u.g
	now, err := setting.CopyOf(g.file, text)
	if err != nil {
		return err
	}
	p := placed{Keys: map[string]string{}, Files: map[string]placedSum{}}
	for _, key := range m.Keys {
		p.Keys[key] = setting.Digest(now.Part(key))
	}
	dir := g.engine.Load().Settings.Dir
	for _, f := range m.Files {
		if f.Name != bundle.SettingsName {
			file := filepath.Join(dir, filepath.FromSlash(f.Name))
			sum, err := setting.Content([]string{file})
			if err != nil {
				return err
			}
			p.Files[f.Name] = placedSum{setting.Stamp(file, time.Time{}), sum}
		}
	}
	b, err := json.Marshal(&p)
	if err != nil {
		return err
	}
	return atomicfile.WriteBytes(filepath.Join(u.folder(), placedFile), 0o640, b)
}

// content packs what this gateway decides by: the keys of the settings that the desk carries, and
// the files that they name and that were read for them.
func (u bundleUser) content(keys []string, version, reason string) (c bundle.Content, err error) {
	g := u.g
	g.saving.Lock()
	defer g.saving.Unlock()
	e := g.engine.Load()
	data, err := os.ReadFile(g.file)
	if err != nil {
		return c, err
	}
	now, err := setting.CopyOf(g.file, data)
	if err != nil {
		return c, err
	}
	c = bundle.Content{Version: version, Reason: reason, Files: map[string][]byte{}}
	var text []byte
	for _, key := range keys {
		if !now.Has(key) {
			continue
		}
		c.Keys = append(c.Keys, key)
		if text, err = setting.Edit(text, setting.Change{Path: []any{key}, Value: now.Part(key)}); err != nil {
			return c, err
		}
	}
	if len(c.Keys) == 0 {
		return c, fmt.Errorf("the settings have none of %s: there is nothing to offer", strings.Join(keys, ", "))
	}
	c.Files[bundle.SettingsName] = text
	s, err := configuration.Parse(g.file, text)
	if err != nil {
		return c, err
	}
	var files []string
	setting.Move(s, func(path string) string {
		files = append(files, path)
		return path
	})
	for _, file := range append(files, e.FilesOf(c.Keys...)...) {
		if file == g.file || isBelow(file, string(e.Settings.Data)) {
			continue
		}
		if err := addFiles(&c, e.Settings.Dir, file); err != nil {
			return c, err
		}
	}
	return c, nil
}

// addFiles adds a file, or those of a folder, to what a bundle is made of.
func addFiles(c *bundle.Content, dir, file string) error {
	rel, err := filepath.Rel(dir, file)
	if err != nil || !filepath.IsLocal(rel) {
		return fmt.Errorf("%s is outside %s: a bundle has what lies beside the settings; put it there", file, dir)
	}
	return filepath.WalkDir(file, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it is optional, or the check named it
		}
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		b, err := os.ReadFile(path)
		c.Files[filepath.ToSlash(name)] = b
		return err
	})
}

// Drift implements [bundle.User].
func (u bundleUser) Drift(m *bundle.Manifest) (all []string) {
	g := u.g
	var p placed
	b, err := os.ReadFile(filepath.Join(u.folder(), placedFile))
	if err != nil || json.Unmarshal(b, &p) != nil {
		return []string{placedFile} // nobody knows
	}
	text, err := os.ReadFile(g.file)
	if err != nil {
		return []string{filepath.Base(g.file)}
	}
	now, err := setting.CopyOf(g.file, text)
	if err != nil {
		return []string{filepath.Base(g.file)}
	}
	for _, key := range m.Keys {
		if p.Keys[key] != setting.Digest(now.Part(key)) {
			all = append(all, key)
		}
	}
	dir := g.engine.Load().Settings.Dir
	for _, f := range m.Files {
		if f.Name == bundle.SettingsName {
			continue
		}
		file := filepath.Join(dir, filepath.FromSlash(f.Name))
		if was := p.Files[f.Name]; setting.Stamp(file, time.Time{}) != was.Stamp {
			if sum, err := setting.Content([]string{file}); err != nil || sum != was.Sum {
				all = append(all, f.Name)
			}
		}
	}
	return all
}

// Fares implements [bundle.User].
func (u bundleUser) Fares() (r bundle.Rates, problems []string) {
	g := u.g
	r.Requests, r.Failures, r.Asked = g.metrics.served.Load(), g.metrics.failed.Load(), g.metrics.asked.Load()
	r.Load = platform.CPU().Seconds()
	h := g.health()
	for _, p := range h.All() {
		if p.Kind != problem.Fleet {
			problems = append(problems, withoutDigits(p.Text))
		}
	}
	return r, problems
}
