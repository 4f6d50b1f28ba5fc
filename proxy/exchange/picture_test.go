package exchange

import (
	"bytes"
	"image"
	_ "image/jpeg"
	"image/png"
	"strings"
	"testing"

	"shuultuur/filter"
)

func TestARefusedPictureIsReplacedByOneOfItsSize(t *testing.T) {
	m := image.NewGray(image.Rect(0, 0, 200, 100))
	for i := range m.Pix {
		m.Pix[i] = uint8(i * i)
	}
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	var icon bytes.Buffer
	if err := png.Encode(&icon, image.NewGray(image.Rect(0, 0, 32, 16))); err != nil {
		t.Fatal(err)
	}
	const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="200" viewBox="0 0 20 10"><image href="data:image/png;base64,aaaa"/></svg>`
	for name, c := range map[string]struct {
		verdict filter.Verdict
		dest    string
		body    string
		status  int
		media   string
	}{
		"block":                                      {filter.Verdict{Action: filter.Block}, "image", b.String(), 403, "image/png"},
		"blur":                                       {filter.Verdict{Action: filter.Block, Show: filter.Blurred}, "image", b.String(), 200, "image/jpeg"},
		"blur, opened by itself":                     {filter.Verdict{Action: filter.Block, Show: filter.Blurred}, "document", b.String(), 200, "image/jpeg"},
		"blur of what is cut":                        {filter.Verdict{Action: filter.Block, Show: filter.Blurred}, "image", b.String()[:100], 403, "image/png"},
		"placeholder":                                {filter.Verdict{Action: filter.Warn, Show: filter.Placeholder, To: "token"}, "image", b.String(), 200, "image/svg+xml"},
		"placeholder as a page":                      {filter.Verdict{Action: filter.Warn, Show: filter.Placeholder, To: "token"}, "document", b.String(), 403, "text/html"},
		"block, opened by itself":                    {filter.Verdict{Action: filter.Block}, "document", b.String(), 403, "text/html"},
		"a picture called text/html":                 {filter.Verdict{Action: filter.Block}, "image", b.String(), 403, "image/png"},
		"a picture called video/mp4":                 {filter.Verdict{Action: filter.Block, Show: filter.Blurred}, "image", b.String(), 200, "image/jpeg"},
		"a picture called text/plain":                {filter.Verdict{Action: filter.Warn, Show: filter.Placeholder, To: "token"}, "image", b.String(), 200, "image/svg+xml"},
		"block of an icon":                           {filter.Verdict{Action: filter.Block}, "image", icon.String(), 403, "image/png"},
		"block of an SVG called image/svg+xml":       {filter.Verdict{Action: filter.Block}, "image", svg, 403, "image/png"},
		"blur of an SVG called image/svg+xml":        {filter.Verdict{Action: filter.Block, Show: filter.Blurred}, "image", svg, 403, "image/png"},
		"placeholder of an SVG called image/svg+xml": {filter.Verdict{Action: filter.Warn, Show: filter.Placeholder, To: "token"}, "image", svg, 200, "image/svg+xml"},
		"block of unreadable bytes":                  {filter.Verdict{Action: filter.Block}, "image", "not a picture", 403, "image/"},
	} {
		t.Run(name, func(t *testing.T) {
			width := 200
			if strings.HasSuffix(name, "an icon") {
				width = 32
			}
			x, _ := begin(t, Config{}, decider{
				wants: func(*filter.Transaction, filter.Stage) bool { return true },
				decide: func(x *filter.Transaction, s filter.Stage) filter.Verdict {
					if s == filter.ResponseBody && x.Body.Complete() {
						return c.verdict
					}
					return filter.Verdict{}
				},
			})
			read(t, x, "GET http://site.example/a.png HTTP/1.1\r\nHost: site.example\r\nSec-Fetch-Dest: "+c.dest+"\r\n\r\n")
			x.T.URL, x.T.Request = "http://site.example/a.png", &x.Q
			kind := "image/png"
			if _, other, ok := strings.Cut(name, " called "); ok {
				kind = other
			}
			s := respond(kind, c.body)
			x.T.Response = s
			_, err := x.InspectResponse(t.Context(), s)
			if err != ErrRefused {
				t.Fatal(err)
			}
			answer := x.Answer(t.Context(), err)
			body, media := all(t, answer.Body), string(answer.Get("Content-Type"))
			if answer.Status != c.status || !strings.HasPrefix(media, c.media) {
				t.Fatalf("stand-in: got status %d, type %s, want %d, %s", answer.Status, media, c.status, c.media)
			}
			switch {
			case media == "image/svg+xml":
				for _, want := range []string{`width="200" height="100"`, `href="http://site.example/a.png?shuultuur-accept=token"`, "Show"} {
					if !strings.Contains(body, want) {
						t.Errorf("stand-in: got %s, want it to contain %s", body, want)
					}
				}
			case c.status == 200 || c.media == "image/png":
				if p, _, err := image.DecodeConfig(strings.NewReader(body)); err != nil || p.Width != width || p.Height != width/2 {
					t.Errorf("the blurred picture is %+v, error %v", p, err)
				}
			}
		})
	}
}
