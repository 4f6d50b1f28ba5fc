//go:build !small

package zones

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"shuultuur/admin/web"
	"shuultuur/lib/setting"
	"shuultuur/text"
	"shuultuur/zone/authority"
	"shuultuur/zone/sign"
)

// keyFolder has the keys of zones that are signed by the button; it is beside the settings.
const keyFolder = "zone-keys"

// lookTime is how long the parent is asked.
const lookTime = 6 * time.Second

// A parent is what the zone above has of a zone that is signed here.
type parent struct {
	Says string   `json:"says"`
	Good bool     `json:"good"`
	Has  []string `json:"has,omitempty"`
}

// sign makes keys for a zone, and adds it to those that are signed here.
func (z *Pages) sign(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, web.MaxForm)
	err := r.ParseForm()
	var d *zoneData
	if err == nil {
		d, err = z.get(r.Context(), r.PathValue("origin"), r.Form.Get("view"), "", 0)
	}
	if err == nil && d.Signed {
		err = errors.New("the zone is signed already")
	}
	if err == nil {
		var shown bool
		if shown, err = z.showEffect(w, r, d.Origin, zonePath(d), nil); shown {
			return
		}
	}
	var made []string
	if err == nil {
		made, err = sign.MakeKeys(filepath.Join(z.Folder, keyFolder), d.Origin, "ecdsap256sha256", false)
	}
	if err == nil {
		origin := strings.TrimSuffix(d.Origin, ".")
		err = z.Change(w, r, zonePath(d), func() (string, []setting.Change, error) {
			return "sign " + origin, []setting.Change{{Path: []any{"dns", "zones", "sign", maxZoneFiles}, Value: setting.Snippet(fmt.Sprintf("{zones: [%q], keys: [%s]}", origin, keyFolder))}}, nil
		})
		if !slices.ContainsFunc(z.Zones().Show(), func(s authority.Summary) bool { return s.Origin == d.Origin && s.Signs }) {
			for _, path := range made { // the change was refused, or is only shown
				_ = os.Remove(sign.Base(path) + ".key") // whoever signs the zone later makes others
				_ = os.Remove(sign.Base(path) + ".private")
			}
		}
		if err == nil {
			return
		}
	}
	if d == nil || !web.IsPage(r) {
		http.Error(w, err.Error(), statusOfZone(err))
		return
	}
	d.Error = err.Error()
	z.write(w, r, statusOfZone(err), d)
}

// look asks the zone above for the DS records of a zone, and compares them with ours.
func (z *Pages) look(ctx context.Context, d *zoneData) *parent {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	has, ours, err := z.Zones().ParentHas(ctx, d.Origin, d.DS)
	p := &parent{Has: has, Good: ours}
	switch {
	case err != nil:
		p.Says = "the parent cannot be asked: " + err.Error()
	case ours:
		p.Says = text.Mark("The parent has it: answers of this zone are proven.")
	case len(has) == 0:
		p.Says = text.Mark("The parent does not have it yet. Give the record to the registrar; it takes up to two days.")
	default:
		p.Says = text.Mark("The parent has the record of another key: whoever checks signatures refuses this zone. Replace that record with this one.")
	}
	return p
}

func (z *Pages) signRoute() web.Route {
	return web.Route{Method: "POST", Path: "/zones/{origin}/sign", Role: web.Operator,
		Does: "make keys for a zone and sign it from now on", Gives: web.PageOrJSON, Form: []web.Field{web.Optional("view", "view of the zone"), web.OnTrial},
		Effect:  web.Explained,
		Handler: z.sign}
}
