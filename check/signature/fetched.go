//go:build !small

package signature

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"shuultuur/lib/setting"
	"shuultuur/lib/suricata/rule"
	"shuultuur/list"
	"shuultuur/list/files"
	"shuultuur/list/source"
)

// Fetches returns the items to fetch for the sources, by name.
func (c *Config) Fetches() (source.Items, error) {
	items, err := Fetch(c.Sources)
	if err != nil {
		return nil, setting.At("sources", err)
	}
	return items, nil
}

// Fetch returns the items to fetch for the sources in the settings, by name.
func Fetch(sources map[string]source.Config) (source.Items, error) {
	all := source.Items{}
	for _, name := range slices.Sorted(maps.Keys(sources)) {
		if !source.PlainName(name) {
			return nil, fmt.Errorf("%q cannot name rules: use letters, digits, - and _", name)
		}
		src, how, ok, err := sources[name].Resolve(list.Config{})
		switch {
		case err != nil:
			return nil, setting.At(name, err)
		case !ok:
			return nil, setting.At(name, fmt.Errorf("it has neither url nor source; name local files under rules"))
		case how.Format != "" && how.Format != source.Rules:
			return nil, setting.At(name, setting.At("source", fmt.Errorf("%s is a list: name it under lists", sources[name].Source)))
		}
		all[name] = source.Item{Kind: "signature rules", Source: src, Try: try(name, src.Place())}
	}
	return all, nil
}

// resolve determines the sources to fetch, and which version of each is in use.
func (c *Check) resolve(sources map[string]source.Config, data string) (err error) {
	if c.fetched, err = Fetch(sources); err != nil {
		return err
	}
	for name, it := range c.fetched {
		if c.fetched[name], err = source.In(data, nil).InUse(name, it); err != nil {
			return setting.At(name, err)
		}
	}
	return nil
}

// intact returns the file of the version of a source to read: the one in use, or if that is damaged
// the newest that is not. Without any it returns "", or an error if a previous check can stay.
func (c *Check) intact(name string, store *source.Store, stays bool) (file string, err error) {
	it := c.fetched[name]
	err = files.CheckDigest(store.Path(name), it.InUse)
	if err == nil {
		return store.Path(name), nil
	}
	it.Damaged = true
	c.fetched[name] = it
	switch older := store.Intact(name); {
	case len(older) > 0:
		file, err = older[0].Path, fmt.Errorf("%w; the version of %s is used until it is fetched again", err, older[0].Fetched.Format(time.DateTime))
	case stays:
		return "", err
	default:
		err = fmt.Errorf("%w; it has no rules until it is fetched again", err)
	}
	c.damaged = append(c.damaged, fmt.Sprintf("signature rules: %s: %s", name, err))
	return file, nil
}

// Fetched returns the fetched rules.
func (c *Check) Fetched() source.Items { return c.fetched }

// try parses fetched rules and counts them.
func try(name, from string) source.Trial {
	return func(_ context.Context, file string) (c source.Content, err error) {
		files, err := fetchedFiles(name, from, file)
		if err != nil {
			return c, err
		}
		c.Format = "signature rules"
		p := rule.NewParser()
		for _, f := range files {
			if len(files) > 1 && path.Ext(f.Name) != ".rules" {
				continue
			}
			rules, mistakes, err := p.Read(f.Name, bytes.NewReader(f.Data))
			if err != nil {
				return c, err
			}
			c.Entries, c.Bad = c.Entries+len(rules), c.Bad+len(mistakes)
		}
		c.Lines = c.Entries + c.Bad
		return c, nil
	}
}

// fetchedFiles reads the file of the source called name. It replaces the path of the stored
// file by names that people know: the name of the source, and for a single file the last part
// of its URL.
func fetchedFiles(name, from, file string) ([]rule.File, error) {
	files, err := rule.Files(file)
	for i := range files {
		files[i].Source = name
		if rest, ok := strings.CutPrefix(files[i].Name, file+":"); ok {
			files[i].Name = name + ":" + rest
			continue
		}
		files[i].Name = name
		if u, err := url.Parse(from); err == nil && path.Base(u.Path) != "/" {
			files[i].Name = name + ":" + strings.TrimSuffix(path.Base(u.Path), ".gz")
		}
	}
	return files, err
}
