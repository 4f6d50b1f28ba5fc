//go:build !small

package watch_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shuultuur/admin"
	"shuultuur/admin/account"
	"shuultuur/admin/admintest"
	checks "shuultuur/check/picture"
	"shuultuur/content"
	"shuultuur/filter"
	"shuultuur/lib/message"
	"shuultuur/lib/picture"
	"shuultuur/lib/setting"
)

func TestFoundPicturesAreShownBlurred(t *testing.T) {
	m := image.NewRGBA(image.Rect(0, 0, 320, 240))
	for i := range m.Pix {
		m.Pix[i] = [4]uint8{215, 165, 135, 255}[i&3]
	}
	m.SetRGBA(3, 3, color.RGBA{A: 255})
	var b bytes.Buffer
	if err := jpeg.Encode(&b, m, nil); err != nil {
		t.Fatal(err)
	}
	shrunk, err := picture.Shrink(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	law := filepath.Join(t.TempDir(), "law.txt")
	if err := os.WriteFile(law, fmt.Appendf(nil, "%016x\n", shrunk.DHash()), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, locked := range []bool{false, true} {
		var gallery checks.Gallery
		cfg := checks.Config{Skin: true}
		if locked {
			cfg.Hashes = map[string]checks.HashList{"law": {File: setting.File(law), Locked: true}}
		}
		check, err := checks.New(cfg, checks.Parts{Gallery: &gallery})
		if err != nil {
			t.Fatal(err)
		}
		for _, who := range []string{"anna", "ben", "anna"} {
			x := &filter.Transaction{URL: "https://a.example/secret.jpg", Request: &message.Request{Method: "GET"}, Response: &message.Response{Status: 200}, Body: new(content.Body),
				Client: filter.Client{User: who, Addr: netip.MustParseAddr("10.0.0.1")}}
			x.Body.Reset(content.Describe("image/jpeg", ""), content.Limits{})
			x.Body.Append(b.Bytes())
			x.Body.Finish()
			if _, err := check.Find(t.Context(), x, filter.ResponseBody, nil); err != nil {
				t.Fatal(err)
			}
		}
		house := admintest.NewHouse(t)
		house.Rules.URLs = account.Owner
		house.Parts.Pictures = &gallery
		house.Site = admin.New(house.Parts)
		for _, role := range []account.Role{account.Viewer, account.Helper} {
			for _, path := range []string{"/pictures", "/pictures/" + gallery.All()[0].ID} {
				if w := house.Ask(role, "GET", path, ""); w.Code != http.StatusForbidden {
					t.Errorf("GET %[2]s as %[1]s: status %[3]d, want 403", role, path, w.Code)
				}
			}
		}
		var finds []checks.GalleryItem
		w := house.Ask(account.Lead, "GET", "/pictures", "")
		if err := json.Unmarshal(w.Body.Bytes(), &finds); err != nil || len(finds) != 2 {
			t.Fatalf("the findings: %v, %s", err, w.Body)
		}
		if f := finds[0]; f.User != "anna" || f.Times != 2 || f.URL != "https://a.example/" || f.Findings[0].Evidence != "" {
			t.Errorf("a lead who may not see URLs sees %+v", f)
		}
		if w := house.Ask(account.Owner, "GET", "/pictures", ""); !strings.Contains(w.Body.String(), "secret.jpg") {
			t.Errorf("an owner does not see the URL: %s", w.Body)
		}
		if w := house.Ask(account.Lead, "GET", "/pictures", "", func(r *http.Request) { r.Header.Set("Accept", "text/html") }); strings.Contains(w.Body.String(), "<img") == locked || !strings.Contains(w.Body.String(), "anna") {
			t.Errorf("the page for a list that is locked %v is %s", locked, w.Body)
		}
		thumb := house.Ask(account.Lead, "GET", "/pictures/"+finds[0].ID, "")
		if locked {
			if thumb.Code != http.StatusNotFound {
				t.Errorf("a picture of a locked list is shown: status %d, want 404", thumb.Code)
			}
		} else if m, err := jpeg.Decode(thumb.Body); err != nil || m.Bounds() != image.Rect(0, 0, 160, 120) {
			t.Errorf("the thumbnail is not a JPEG of 160 by 120: %v", err)
		}
		log := house.Ask(account.Owner, "GET", "/audit", "").Body.String()
		if strings.Count(log, "look at pictures") != 3 {
			t.Errorf("the audit log does not have three looks at pictures: %s", log)
		}
		if n := gallery.Erase(nil, []string{"anna"}, false); n != 1 || len(gallery.All()) != 1 {
			t.Errorf("erased %d findings, %d are left; want 1 and 1", n, len(gallery.All()))
		}
	}
}
