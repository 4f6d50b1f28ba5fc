package collection

import (
	"errors"
	"io/fs"
	"net/http"
	"os"

	"shuultuur/lib/setting"
	"shuultuur/list"
	"shuultuur/list/source"
)

// A View shows the lists of the settings beside a running gateway.
type View struct {
	Store   *source.Store
	Configs map[string]list.Config // how each is read, with its present or future path
	Fetched source.Items
	c       *Collection
}

// Look returns a view of the lists of cfg that a gateway keeps in the folder data. It compiles
// and opens nothing.
func Look(cfg Config, data string, client *http.Client) (*View, error) {
	c := &Collection{cfg: cfg, data: data, fetched: source.Items{}}
	v := &View{Store: c.store(client), Configs: map[string]list.Config{}, Fetched: c.fetched, c: c}
	for name := range cfg {
		_, how, _, err := c.plan(name)
		if err != nil {
			return nil, setting.At(name, err)
		}
		v.Configs[name] = how
	}
	return v, nil
}

// Missing reports whether the list called name was not fetched yet.
func (v *View) Missing(name string) bool {
	_, fetched := v.Fetched[name]
	_, err := os.Stat(v.Store.Path(name))
	return fetched && errors.Is(err, fs.ErrNotExist)
}
